#include "scorer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exp_log.h"
#include "port/port.h"

int scorer_open(struct scorer *z, const struct tft_model *m, uint32_t n_logits)
{
    struct tft_model_info info = {.size = sizeof info};
    struct tft_session_opts so = {.n_batch = SCORER_BATCH, .n_logits = n_logits};
    size_t n_bos;
    *z = (struct scorer){.m = m};
    int32_t *bos = cli_tokenize(m, "", 0, TFT_ADD_BOS, &n_bos);
    if (!bos)
        return CLI_FAILED;
    free(bos);
    tft_model_describe(m, &info);
    if (info.prefix_bos && cli_session_options.ctx > 1)
        cli_session_options.ctx--; /* --ctx counts BOS, which takes no room in the session */
    if (cli_open_session(&z->s, m, &so) != CLI_OK)
        return CLI_FAILED;

    z->n_vocab = info.n_vocab;
    z->n_logits = n_logits;
    z->ctx = (uint32_t)tft_capacity(z->s) + info.prefix_bos;
    z->bos = n_bos || info.prefix_bos;
    z->bos_in_prefix = info.prefix_bos;
    return CLI_OK;
}

void scorer_close(struct scorer *z)
{
    tft_session_close(z->s);
}

int32_t *scorer_tokenize(const struct scorer *z, const char *text, size_t len, bool special,
                         size_t *n)
{
    unsigned flags = TFT_ADD_BOS | (special ? TFT_PARSE_SPECIAL : 0);
    int32_t *ids = cli_tokenize(z->m, text, len, flags, n);
    if (ids && z->bos_in_prefix) { /* cli_tokenize has left room for BOS */
        memmove(ids + 1, ids, *n * sizeof *ids);
        ids[0] = tft_token_bos(z->m);
        ++*n;
    }
    return ids;
}

/* --------------------------------------------------------------------------------------- tokens */

struct token_score {
    double nll;
    bool greedy;
};

/* -ln p of a token is ln(sum e^l) - l; the largest logit is subtracted from all l first. Of equal
   logits, the first is the greedy choice. */
static struct token_score score_token(const float *logits, uint32_t n, int32_t token)
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
    return (struct token_score){tft_log(sum) + max - (double)logits[token],
                                best == (uint32_t)token};
}

/* Scores the token after each of the newest n of a session. All threads share the work: with a
   large vocabulary it takes as long as the model. */
struct newest_scores {
    const struct scorer *z;
    const int32_t *next; /* [n] the token after each of the newest */
    uint32_t n;
    struct token_score token[SCORER_BATCH]; /* [n] */
};

static void score_newest(void *arg, int tid, int n_threads)
{
    struct newest_scores *t = arg;
    for (uint32_t j = (uint32_t)tid; j < t->n; j += (uint32_t)n_threads)
        t->token[j] = score_token(tft_logits(t->z->s, t->n - 1 - j), t->z->n_vocab, t->next[j]);
}

static void add_newest(const struct scorer *z, const int32_t *next, size_t n, struct score *total)
{
    struct newest_scores scores = {.z = z, .next = next, .n = (uint32_t)n};
    tft_port_team(cli_model_options.threads ? (int)cli_model_options.threads : tft_cpu_threads(),
                  score_newest, &scores);
    for (size_t j = 0; j < n; j++) {
        total->nll += scores.token[j].nll;
        total->greedy += scores.token[j].greedy;
    }
    total->n += (uint32_t)n;
}

/* ------------------------------------------------------------------------------------ sequences */

/* Computes ids[..n), of which the session holds a beginning. The last pass is the largest, so that
   it has as many logits as the session keeps. */
static enum tft_status compute(struct tft_session *s, const int32_t *ids, size_t n)
{
    enum tft_status status = TFT_OK;
    while (status == TFT_OK && tft_pos(s) < n && !cli_interrupted()) {
        size_t left = n - tft_pos(s), step = left;
        if (left > SCORER_BATCH)
            step = left - SCORER_BATCH < SCORER_BATCH ? left - SCORER_BATCH : SCORER_BATCH;
        status = tft_prefill(s, ids + tft_pos(s), step);
    }
    return status;
}

/* Rewinds to the common beginning of the session's tokens and ids[..n). */
static void rewind_to_common(struct tft_session *s, const int32_t *ids, size_t n)
{
    size_t same = 0;
    while (same < n && same < tft_pos(s) && tft_tokens(s)[same] == ids[same])
        same++;
    tft_rewind(s, same);
}

enum tft_status scorer_add(struct scorer *z, const int32_t *ids, size_t n, size_t first,
                           struct score *total)
{
    enum tft_status status = TFT_OK;
    size_t held = tft_prefix_held(z->m, NULL, ids, n), step;
    const int32_t *session_ids = ids + held; /* the tokens for the session */
    if (first < held)
        first = held;
    rewind_to_common(z->s, session_ids, first > held ? first - 1 - held : 0);
    for (size_t i = first; i < n; i += step) {
        bool after_prefix = i == held;
        step = after_prefix ? 1 : n - i < z->n_logits ? n - i : z->n_logits;
        status = after_prefix ? tft_prefill(z->s, NULL, 0)
                              : compute(z->s, session_ids, i - 1 + step - held);
        if (status != TFT_OK || cli_interrupted())
            break;
        add_newest(z, ids + i, step, total);
    }
    return status;
}
