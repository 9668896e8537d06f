/* Scores of tokens that follow a text: the basis of perplexity, and of the choice among answers. */
#include <math.h>

#include "base/exp_log.h"
#include "session.h"

/* ln p of a token is l - ln(sum e^l); the largest logit is subtracted from all l first. Of equal
   logits, the first is the most likely. */
static struct tft_token_score score(const float *logits, uint32_t n, int32_t token)
{
    double max = -INFINITY, sum = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((double)logits[i] > max) {
            max = (double)logits[i];
            best = i;
        }
    for (uint32_t i = 0; i < n; i++)
        sum += tft_exp((double)logits[i] - max);
    return (struct tft_token_score){.logprob = (double)logits[token] - (tft_log(sum) + max),
                                    .likeliest = best == (uint32_t)token};
}

struct scoring {
    const float *logits; /* [n, n_vocab] */
    const int32_t *next; /* [n] */
    size_t n;
    uint32_t n_vocab;
    struct tft_token_score *out; /* [n] */
};

static void score_share(void *arg, int tid, int n_threads)
{
    const struct scoring *t = arg;
    for (size_t i = (size_t)tid; i < t->n; i += (size_t)n_threads)
        t->out[i] = score(t->logits + i * t->n_vocab, t->n_vocab, t->next[i]);
}

enum tft_status tft_score(const struct tft_session *s, const int32_t *next, size_t n,
                          struct tft_token_score *out)
{
    struct scoring t = {.next = next, .n = n, .n_vocab = s->m->n_vocab, .out = out};
    t.logits = n ? tft_logits(s, n - 1) : NULL;
    if (!t.logits)
        return TFT_ERR_ARG;
    for (size_t i = 0; i < n; i++)
        if (next[i] < 0 || (uint32_t)next[i] >= t.n_vocab)
            return TFT_ERR_ARG;
    tft_port_team(s->n_threads, score_share, &t);
    return TFT_OK;
}
