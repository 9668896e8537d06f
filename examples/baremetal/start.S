/* From reset to main, on the machine "virt" of qemu with a Cortex-A53. */

        .section .start, "ax"
        .global start
start:
        mov     x0, #3 << 20            /* floating point and NEON do not trap */
        msr     cpacr_el1, x0
        adr     x0, vectors
        msr     vbar_el1, x0

        /* Without the MMU all memory is a device's, which cannot be read at odd addresses. */
        ldr     x0, =0xff00             /* kind 0: device; kind 1: cached memory */
        msr     mair_el1, x0
        ldr     x0, =25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 /* addresses of 39 bits, one table */
        msr     tcr_el1, x0
        adr     x0, gigabytes
        msr     ttbr0_el1, x0
        isb
        tlbi    vmalle1
        dsb     sy
        mrs     x0, sctlr_el1
        mov     x1, #1 << 12 | 1 << 2 | 1 /* caches and MMU */
        orr     x0, x0, x1
        msr     sctlr_el1, x0
        isb

        ldr     x0, =data_begin         /* variables: copied, or zero */
        ldr     x1, =data_end
        ldr     x2, =data_in_flash
1:      cmp     x0, x1
        b.hs    2f
        ldr     x3, [x2], #8
        str     x3, [x0], #8
        b       1b
2:      ldr     x0, =bss_begin
        ldr     x1, =bss_end
3:      cmp     x0, x1
        b.hs    4f
        str     xzr, [x0], #8
        b       3b
4:      ldr     x0, =tls_begin - 16     /* "thread-local" variables of the only thread */
        msr     tpidr_el0, x0
        ldr     x0, =stack_end
        mov     sp, x0
        bl      main

        .global power_off
power_off:
        ldr     x0, =0x84000008         /* SYSTEM_OFF of PSCI */
        hvc     #0
        b       .

        .balign 2048
vectors:
        .rept   16
        mrs     x0, esr_el1
        mrs     x1, elr_el1
        b       fault
        .balign 128
        .endr

/* Addresses are physical ones. Flash is read only; the machine has its devices behind it. */
        .section .rodata.tables, "a"
        .equ    CACHED, 1 | 1 << 2 | 3 << 8 | 1 << 10
        .equ    READ_ONLY, 2 << 6
        .equ    DEVICE, 1 | 1 << 10 | 1 << 53
        .balign 4096
gigabytes:
        .quad   megabytes + 3           /* 0: flash and devices */
        .quad   0x40000000 + CACHED     /* RAM */
        .fill   510, 8, 0
megabytes:                              /* two each */
        .set    at, 0
        .rept   64
        .quad   at + CACHED + READ_ONLY
        .set    at, at + 0x200000
        .endr
        .rept   448
        .quad   at + DEVICE
        .set    at, at + 0x200000
        .endr

        .section .rodata.model, "a"
        .global model, model_end
        .balign 32
model:  .incbin MODEL
model_end:
