#include "draft.h"

#include <string.h>

#include "lookup.h"
#include "session.h"

/* Guesses that do not pay are tried again now and then: the text may have become another one. */
enum { RETRY = 16 };

static bool same_text(const struct tft_model *a, const struct tft_model *b, int32_t id)
{
    size_t n, n_b;
    const char *p = tft_token_text(a, id, true, &n), *p_b = tft_token_text(b, id, true, &n_b);
    return n == n_b && !p == !p_b && (!n || memcmp(p, p_b, n) == 0);
}

enum tft_status tft_draft_check(const struct tft_model *m, const struct tft_session *draft,
                                struct tft_error *err)
{
    const struct tft_model *d = draft->m;
    /* padding may differ, as in qwen2.5: 151936 and 152064 */
    uint32_t n = m->n_vocab < d->n_vocab ? m->n_vocab : d->n_vocab;
    bool same = !m->tokenizer == !d->tokenizer && (m->tokenizer || m->n_vocab == d->n_vocab);
    for (uint32_t id = 0; id < n && same && m->tokenizer; id++)
        same = same_text(m, d, (int32_t)id);
    if (same)
        return TFT_OK;
    return tft_fail(err, TFT_ERR_ARG, "%s: the draft model has another vocabulary than %s",
                    d->source.name, m->source.name);
}

void tft_draft_open(struct tft_draft_model *d, const struct tft_model *m, struct tft_session *s,
                    uint32_t costs)
{
    uint64_t bytes = s ? s->m->weight_bytes : tft_model_predicts(m) ? m->predictor.bytes : 0;
    uint64_t own = m->weight_bytes ? bytes * TFT_LOOKUP_ONE / m->weight_bytes : 0;
    *d = (struct tft_draft_model){
        .s = s, .costs = costs + (uint32_t)own, .rate = TFT_LOOKUP_ONE / 2};
}

void tft_draft_learn(struct tft_draft_model *d, bool held)
{
    tft_lookup_learn(&d->rate, held);
}

uint32_t tft_draft_worth(struct tft_draft_model *d, uint32_t most)
{
    uint32_t n = 0;
    for (uint64_t chance = d->rate; chance >= d->costs && n < most; n++)
        chance = chance * d->rate / TFT_LOOKUP_ONE;
    bool retry = !n && ++d->idle >= RETRY;
    if (n || retry)
        d->idle = 0;
    return retry && most ? 1 : n;
}

uint32_t tft_draft_propose(struct tft_draft_model *d, const struct tft_model *m, int32_t *tokens,
                         uint32_t n, uint32_t most)
{
    struct tft_sampler likeliest = {0};
    uint32_t made = 0, want = tft_draft_worth(d, most);
    if (!want || tft_sync(d->s, tokens, n) != TFT_OK)
        return 0;
    tft_states_keep(&d->s->states, d->s->pos); /* the next call rewinds to here */
    for (;;) {
        int32_t id = tft_sample(&likeliest, d->s);
        if (id < 0 || (uint32_t)id >= m->n_vocab)
            return made;
        tokens[n + made++] = id;
        if (made == want || tft_decode(d->s, id) != TFT_OK)
            return made;
    }
}
