/* What tuffet quantize will take, on a disk that is played: this statvfs takes the place of the
   system's. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <string.h>
#include <sys/statvfs.h>

#include "tools/commands/quantize_plan.h"

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

enum { LAYERS = 2, WIDTH = 1000, VOCAB = 10000, PARAMS = 30000000 };

static int planned(uint8_t bits, enum quantize_rotate rotate, const char *out)
{
    uint8_t all[LAYERS * LAYER_MATS];
    memset(all, bits, sizeof all);
    struct tft_model m = {.n_vocab = VOCAB, .n_embd = WIDTH, .n_layer = LAYERS, .n_params = PARAMS};
    struct quantize_opts o = {.bits = all, .rotate = rotate, .n_threads = 1};
    return quantize_plan(&m, &o, out, 1000, true);
}

static void the_disk_has_room_for_two(void **state)
{
    (void)state;
    left = 63 << 20; /* 2 * 1.05 * 30 MB */
    assert_int_equal(planned(8, QUANTIZE_ROTATE_NONE, "f"), CLI_OK);
    left = 62 * 1000000;
    assert_int_equal(planned(8, QUANTIZE_ROTATE_NONE, "f"), CLI_FAILED);
    assert_int_equal(planned(4, QUANTIZE_ROTATE_NONE, "f"), CLI_OK);
    left = 63 << 20;
    assert_int_equal(planned(8, QUANTIZE_ROTATE_ALL, "f"), CLI_FAILED);
}

static void the_disk_is_that_of_the_file(void **state)
{
    (void)state;
    left = 0;
    assert_int_equal(planned(8, QUANTIZE_ROTATE_NONE, "a/new"), CLI_FAILED);
    assert_string_equal(asked, "a/");
    assert_int_equal(planned(8, QUANTIZE_ROTATE_NONE, "new"), CLI_FAILED);
    assert_string_equal(asked, ".");
    assert_int_equal(planned(8, QUANTIZE_ROTATE_NONE, "a/old"), CLI_FAILED);
    assert_string_equal(asked, "a/old");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_has_room_for_two),
        cmocka_unit_test(the_disk_is_that_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
