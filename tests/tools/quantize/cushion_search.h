/* Shared by the tests of the search for a cushion. Include it after test.h and after the #define
   that folder.h wants. */
#ifndef TFT_TEST_CUSHION_SEARCH_H
#define TFT_TEST_CUSHION_SEARCH_H

#include <math.h>

#include "fed.h"
#include "models/open.h"
#include "tools/quantize/search/cushion_search.h"

enum { SAMPLE = 30, SAMPLES = 5, TEXT = SAMPLES * SAMPLE };

static int32_t text[TEXT];

static inline struct cushion_opts usual(const struct toy *t)
{
    toy_tokens(5, t->n_vocab, text, TEXT);
    return (struct cushion_opts){.text = text,
                                 .n_text = TEXT,
                                 .sample = SAMPLE,
                                 .start = text,
                                 .most = 2,
                                 .tau = 0.5,
                                 .cost = INFINITY,
                                 .n_threads = 1};
}

static inline struct tft_model *unexpanded_at(const char *path)
{
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open_unexpanded(&m, path, NULL, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

static inline struct tft_model *unexpanded(const struct toy *t)
{
    return unexpanded_at(written(t));
}

static inline struct cushion found(struct tft_model *m, const struct cushion_opts *o)
{
    struct tft_error err;
    struct cushion c;
    bool stopped;
    if (cushion_search(m, o, &c, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_false(stopped);
    return c;
}

#endif
