/*
 * A plugin of QEMU's user mode, version 7: writes the number of instructions that one thread of the
 * program has executed to the file of the argument out=FILE.
 *
 * The declarations match qemu-plugin.h, which Debian does not package
 * (https://qemu.org/docs/master/devel/tcg-plugins.html).
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct qemu_plugin_tb; /* instructions that QEMU translates and runs together */
enum { ADD_U64 };      /* QEMU_PLUGIN_INLINE_ADD_U64 */
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*f)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *p,
                                              uint64_t x);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*f)(uint64_t id, void *user), void *user);

int qemu_plugin_version = 1;
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

static uint64_t executed;
static char out[4096];

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &executed, qemu_plugin_tb_n_insns(tb));
}

static void ended(uint64_t id, void *user)
{
    FILE *f = fopen(out, "w");
    (void)id;
    (void)user;
    if (f) {
        fprintf(f, "%" PRIu64 "\n", executed);
        fclose(f);
    }
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0 || strlen(argv[0]) >= sizeof out)
        return 1;
    strcpy(out, argv[0] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
