#include "scorer.h"

#include <stdlib.h>
#include <string.h>

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

/* Adds the scores of the tokens next[n], which follow the newest n of the session. n: at most
   SCORER_BATCH */
static enum tft_status add_newest(const struct scorer *z, const int32_t *next, size_t n,
                                  struct score *total)
{
    struct tft_token_score token[SCORER_BATCH];
    enum tft_status status = tft_score(z->s, next, n, token);
    for (size_t i = 0; i < n && status == TFT_OK; i++) {
        total->nll -= token[i].logprob;
        total->greedy += token[i].likeliest;
        total->n++;
    }
    return status;
}

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
        if (status == TFT_OK && !cli_interrupted())
            status = add_newest(z, ids + i, step, total);
        if (status != TFT_OK || cli_interrupted())
            break;
    }
    return status;
}
