/* A copy of a float model that has adapters in its weights. */
#ifndef QUANTIZE_WRITE_MERGE_H
#define QUANTIZE_WRITE_MERGE_H

#include "model/lora.h"

struct tft_new_file;

struct merge {
    const struct tft_model *m; /* opened by tft_model_open_unexpanded, of a GGUF file */
    const struct tft_lora_use *use;
    size_t n; /* use[n] */

    /* NULL, or called as the data is written, 0..1; false: stop */
    bool (*progress)(void *user, double done);
    void *user;
};

/* Fails unless all adapted matrices are floats. *bytes: of the tensors of the copy. */
enum tft_status merge_check(const struct merge *g, uint64_t *bytes, struct tft_error *err);

/* Writes the copy beside `path`, whose adapted matrices are F32: W + scale alpha / r B A, summed in
   double precision. *temp has no name yet, and is for tft_new_file_end; NULL after a failure, and
   if *stopped. */
enum tft_status merge_temp(const struct merge *g, const char *path, struct tft_new_file **temp,
                           bool *stopped, struct tft_error *err);

#endif
