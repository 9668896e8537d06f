/* What tuffet quantize will take, on a disk that is played: this statvfs takes the place of the
   system's. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <string.h>
#include <sys/statvfs.h>

#include "tools/commands/quantize_plan.h"
#include "tools/quantize/plan.h"

static uint64_t left;
static char asked[64];

int statvfs(const char *path, struct statvfs *disk)
{
    snprintf(asked, sizeof asked, "%s", path);
    memset(disk, 0, sizeof *disk);
    disk->f_frsize = 4096;
    disk->f_bavail = left / 4096;
    return strstr(path, "new") ? -1 : 0;
}

enum { LAYERS = 2, WIDTH = 1000, VOCAB = 10000, PARAMS = 30000000, TOKENS = 1000 };

static struct tft_quantize_plan any_plan(uint8_t bits, enum quantize_rotate rotate, bool plain,
                                         bool rewrites)
{
    uint8_t all[LAYERS * LAYER_MATS];
    memset(all, bits, sizeof all);
    struct tft_model m = {.n_vocab = VOCAB,
                          .n_embd = WIDTH,
                          .n_layer = LAYERS,
                          .n_params = PARAMS,
                          .matmul_macs = PARAMS};
    struct quantize_opts o = {.bits = all, .rotate = rotate};
    return quantize_plan_of(&m, &o, TOKENS, plain, rewrites);
}

static struct tft_quantize_plan plan_of(uint8_t bits, enum quantize_rotate rotate, bool rewrites)
{
    return any_plan(bits, rotate, false, rewrites);
}

static int planned(uint8_t bits, bool rewrites, const char *out)
{
    struct tft_quantize_plan p = plan_of(bits, QUANTIZE_ROTATE_NONE, rewrites);
    return quantize_plan(&p, out, 1, true);
}

static void sizes_are_those_of_the_file(void **state)
{
    (void)state;
    struct tft_quantize_plan eight = plan_of(8, QUANTIZE_ROTATE_NONE, false),
                             four = plan_of(4, QUANTIZE_ROTATE_NONE, false),
                             untied = plan_of(8, QUANTIZE_ROTATE_ALL, false);
    assert_int_equal(eight.file, 31500000); /* 1.05 * 30 MB */
    assert_int_equal(four.file, 21000000);  /* a head of 10 MB, and half of 20 MB */
    assert_int_equal(untied.file, 42000000);
    assert_int_equal(eight.disk, eight.file);
    assert_int_equal(four.disk, eight.file); /* models that prefixes are tried with have 8 bits */
    assert_int_equal(plan_of(8, QUANTIZE_ROTATE_NONE, true).disk, 2 * eight.file);
    assert_int_equal(four.memory - eight.memory, sizeof(float) * PARAMS / LAYERS);
}

/* A plain file to nearest takes less than half of the time of a W8A8 file, and GPTQ twice that
   time, in either (tinyllama, tools/lab/accuracy.md). */
static void passes(void **state)
{
    (void)state;
    double eight = plan_of(8, QUANTIZE_ROTATE_NONE, false).operations,
           four = plan_of(4, QUANTIZE_ROTATE_NONE, false).operations,
           nearest = any_plan(8, QUANTIZE_ROTATE_NONE, true, false).operations,
           fed = any_plan(4, QUANTIZE_ROTATE_NONE, true, false).operations;
    struct tft_model m = {.matmul_macs = PARAMS};
    assert_true(nearest < eight / 2 && four == 3 * eight && four - eight == fed - nearest);
    assert_true(quantize_plan_fisher(&m, TOKENS) < eight);
}

static void the_disk_has_room(void **state)
{
    (void)state;
    left = 63 << 20;
    assert_int_equal(planned(8, true, "f"), CLI_OK);
    left = 62 * 1000000;
    assert_int_equal(planned(8, true, "f"), CLI_FAILED);
    assert_int_equal(planned(8, false, "f"), CLI_OK);
    left = 31 * 1000000;
    assert_int_equal(planned(8, false, "f"), CLI_FAILED);
    assert_int_equal(planned(4, true, "f"), CLI_FAILED);
}

/* Before a folder is imported, that of the import is known. */
static void an_import_takes_room(void **state)
{
    (void)state;
    struct tft_quantize_plan p = {.size = sizeof p, .disk = 1 << 20, .imported = 1 << 20};
    left = 2 << 20;
    assert_int_equal(quantize_plan(&p, "f", 1, true), CLI_OK);
    left = 1 << 19;
    assert_int_equal(quantize_plan(&p, "f", 1, true), CLI_FAILED);
}

static void the_disk_is_that_of_the_file(void **state)
{
    (void)state;
    left = 0;
    assert_int_equal(planned(8, false, "a/new"), CLI_FAILED);
    assert_string_equal(asked, "a/");
    assert_int_equal(planned(8, false, "new"), CLI_FAILED);
    assert_string_equal(asked, ".");
    assert_int_equal(planned(8, false, "a/old"), CLI_FAILED);
    assert_string_equal(asked, "a/old");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_file),
        cmocka_unit_test(passes),
        cmocka_unit_test(the_disk_has_room),
        cmocka_unit_test(an_import_takes_room),
        cmocka_unit_test(the_disk_is_that_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
