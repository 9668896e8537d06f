/* Shared by toy.c, which writes tensors, and toy_values.c. */
#ifndef TFT_TEST_TOY_INSIDE_H
#define TFT_TEST_TOY_INSIDE_H

#include <string.h>

#include "file/gguf_write.h"
#include "toy.h"

static inline struct tft_str str(const char *s)
{
    return (struct tft_str){s, strlen(s)};
}

/* Whether `names`, with a blank around each name, has the toy's architecture. */
bool toy_is_one(const struct toy *t, const char *names);

/* One of the toy's numbers, or of its architecture's usual ones; `lacks`, or 0, if it has none. */
double toy_number_or(const struct toy *t, const char *key, double lacks);
double toy_number(const struct toy *t, const char *key);

void toy_put_values(struct tft_gguf_writer *w, const struct toy *t);

#endif
