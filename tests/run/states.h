/* For tests of models with recurrent states. */
#ifndef TFT_TEST_STATES_H
#define TFT_TEST_STATES_H

#include "test.h"

#include "fed.h"
#include "more_toys.h"

enum { N = 1150 };

static int32_t tokens[N];

static inline struct tft_model *toy_model(int i)
{
    toy_tokens(7, state_toys[i].n_vocab, tokens, N);
    return opened(written(&state_toys[i]));
}

static inline uint64_t hash(const struct tft_session *s)
{
    return hash_logits(0, s);
}

static inline void prefill(struct tft_session *s, uint32_t from, uint32_t end)
{
    assert_int_equal(tft_prefill(s, tokens + from, end - from), TFT_OK);
}

#endif
