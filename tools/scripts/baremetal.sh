#!/bin/sh
# Builds examples/baremetal on Debian, the library on a Cortex-A53 without an operating system, runs
# it in qemu with the plain C kernels and with NEON, and compares the text on its serial port with
# that of the program. What is built goes to build/baremetal.
set -eu
cd "$(dirname "$0")/../.."

sh tools/scripts/install.sh gcc libc6-dev meson ninja-build pkgconf libjansson-dev \
    gcc-aarch64-linux-gnu picolibc-aarch64-linux-gnu qemu-system-arm
out=build/baremetal model=$PWD/models/demo/stories2M.gguf
[ -d build/demo ] || meson setup build/demo -Dtests=false >/dev/null
ninja -C build/demo --quiet tools/tuffet >/dev/null
[ -d "$out/library" ] || meson setup "$out/library" --werror -Dtests=false -Dtools=false \
    --cross-file tests/cross/aarch64-none.ini -Dthreads=none -Dmpi=disabled \
    -Ddefault_library=static >/dev/null
ninja -C "$out/library" --quiet >/dev/null

build/demo/tools/tuffet run "$model" --echo -p "Once upon a time" --temp 0 -t 1 --cpu c \
    >"$out/program.txt"
for kernels in c neon; do
    image=$out/$kernels
    aarch64-linux-gnu-gcc --specs=picolibc.specs -O2 -std=c11 -Wall -Wextra -Werror -fno-pic \
        -no-pie -static -nostartfiles -ffunction-sections -fdata-sections -Wl,--gc-sections \
        -Isrc -I. -DKERNELS="\"$kernels\"" -DMODEL="\"$model\"" -T examples/baremetal/flash.ld \
        examples/baremetal/start.S examples/baremetal/main.c examples/baremetal/port.c \
        "$out/library/libtuffet.a" -lm -o "$image.elf"
    if aarch64-linux-gnu-nm "$image.elf" |
        grep -E ' (malloc|calloc|realloc|free|aligned_alloc|sbrk|fopen|open|read)$'; then
        echo "baremetal.sh: $image.elf has these of libc, which the library should not need" >&2
        exit 1
    fi
    aarch64-linux-gnu-objcopy -O binary "$image.elf" "$image.bin"
    truncate -s 64M "$image.bin" # the size of the flash chip
    timeout 300 qemu-system-aarch64 -M virt -cpu cortex-a53 -m 8M -nic none -display none \
        -serial stdio -monitor none -bios "$image.bin" >"$image.txt"
    grep '^# ' "$image.txt"
    grep -v '^# ' "$image.txt" | cmp - "$out/program.txt"
    grep -q "^# kernels: $kernels\$" "$image.txt"
done
aarch64-linux-gnu-size -A "$out/neon.elf" | grep -E '^\.(text|rodata|data|bss) '
echo "baremetal.sh: the same text as the program's, with both"
