/* Shared by the fuzz targets that make models: files in a folder that goes when the process ends,
   and numbers that the input chooses. Define _POSIX_C_SOURCE 200809L before the first include. */
#ifndef TFT_FUZZ_MODELS_H
#define TFT_FUZZ_MODELS_H

#include <stdio.h>
#include <unistd.h>

#include "toy.h"
#include "fuzz.h"
#include "models/open.h"
#include "tuffet.h"

struct bytes {
    const uint8_t *at, *end;
};

/* 0 .. n - 1; 0 after the end. Takes a second byte if n > 256. */
static inline uint32_t choose(struct bytes *b, uint32_t n)
{
    uint32_t low = b->at < b->end ? *b->at++ : 0, high = n > 256 && b->at < b->end ? *b->at++ : 0;
    return (low + 256 * high) % n;
}

static char fuzz_folder[] = "/tmp/tuffet-fuzz-XXXXXX";
static const char *const fuzz_names[] = {"a", "b", "c"};
enum fuzz_file { FUZZ_A, FUZZ_B, FUZZ_C, FUZZ_FILES };

static inline const char *fuzz_path(enum fuzz_file which);

static void fuzz_remove_folder(void)
{
    for (int i = 0; i < FUZZ_FILES; i++)
        remove(fuzz_path((enum fuzz_file)i));
    rmdir(fuzz_folder);
}

/* The path of one of three files, which need not exist. */
static inline const char *fuzz_path(enum fuzz_file which)
{
    static char path[FUZZ_FILES][sizeof fuzz_folder + 2];
    if (!path[0][0]) {
        MUST(mkdtemp(fuzz_folder) && atexit(fuzz_remove_folder) == 0);
        for (int i = 0; i < FUZZ_FILES; i++)
            snprintf(path[i], sizeof path[i], "%s/%s", fuzz_folder, fuzz_names[i]);
    }
    return path[which];
}

static inline struct tft_model *fuzz_open(const char *path)
{
    struct tft_model *m;
    MUST(tft_model_open(&m, path, NULL, NULL) == TFT_OK);
    return m;
}

/* The toy as a model. */
static inline struct tft_model *fuzz_toy(const struct toy *t)
{
    MUST(toy_write(t, fuzz_path(FUZZ_A)));
    return fuzz_open(fuzz_path(FUZZ_A));
}

/* After any failure: a status, and one line. */
static inline void fuzz_check_line(const struct tft_error *err, enum tft_status status)
{
    MUST(status != TFT_OK && err->code == status && *err->msg && !strchr(err->msg, '\n'));
}

#endif
