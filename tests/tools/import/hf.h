/* A folder in Hugging Face's format, inside the temporary folder of folder.h, and its import to
   i.gguf. Include this after test.h and folder.h. */
#ifndef TFT_TEST_HF_H
#define TFT_TEST_HF_H

#include <sys/stat.h>

#include "as_folder.h"
#include "tools/import/import.h"

static const struct import_opts keep = {.no_tokenizer = true};

static struct tft_error err;

/* The path of the empty folder that models are written into. */
static inline const char *hf(void)
{
    static char path[64];
    if (!*path) {
        snprintf(path, sizeof path, "%s/hf", folder);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    return path;
}

static inline void empty_hf(void)
{
    DIR *d = opendir(hf());
    for (struct dirent *e; (e = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", hf(), e->d_name);
        if (e->d_name[0] != '.')
            remove(path);
    }
    closedir(d);
}

static inline int remove_all(void **state)
{
    empty_hf();
    rmdir(hf());
    return remove_folder(state);
}

static const char *file = "config.json"; /* the file that edit() changes */

/* Replaces the first occurrence of `what` in the file. */
static inline void edit(const char *what, const char *with)
{
    char path[128];
    static char text[1 << 20];
    snprintf(path, sizeof path, "%s/%s", hf(), file);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f), m = strlen(what), at = 0;
    fclose(f);
    while (at + m < n && memcmp(text + at, what, m))
        at++;
    assert_true(at + m < n && n + strlen(with) < sizeof text);
    memmove(text + at + strlen(with), text + at + m, n - at - m);
    memcpy(text + at, with, strlen(with));
    assert_true(write_file(path, text, n + strlen(with) - m));
}

static inline enum tft_status import_hf(const struct import_opts *o)
{
    struct import_result r;
    return import_model(hf(), in_folder("i.gguf"), o, &r, &err);
}

#endif
