#include "work.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening */

/* Of the only embedder; Ctrl-C ends its call. */
static struct {
    struct cli_progress line;
    double from, share;
} progress;

static bool go_on(void *user, double done)
{
    (void)user;
    cli_progress_at(&progress.line, progress.from + progress.share * done);
    return !cli_interrupted();
}

int work_open(struct work *w, const char *model, struct tft_embedder_opts o, bool rank)
{
    struct tft_error err;
    *w = (struct work){.info = {.size = sizeof w->info}};
    o.size = sizeof o;
    o.n_threads = (int)cli_model_options.threads;
    o.progress = go_on;
    int status = cli_open_model(&w->m, model, false);
    if (status != CLI_OK)
        return status;
    if (tft_embedder_open(&w->e, w->m, &o, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    tft_embedder_describe(w->e, &w->info);
    if (rank && w->info.pooling != TFT_POOLING_RANK)
        return cli_fail("%s: the model is no reranker: tuffet embed makes vectors with it", model);
    if (!rank && w->info.pooling == TFT_POOLING_RANK)
        return cli_fail("%s: the model is a reranker: tuffet rerank makes scores with it", model);
    return CLI_OK;
}

void work_close(struct work *w)
{
    for (size_t i = 0; w->in && i < w->n; i++)
        input_free(&w->in[i]);
    free(w->in);
    tft_embedder_close(w->e);
    tft_model_close(w->m);
    *w = (struct work){0};
}

/* ---- reading */

static int refuse(const struct work *w, const struct lines *l, size_t i, enum tft_status status)
{
    switch (status) {
    case TFT_ERR_FULL:
        return cli_fail("%s: line %zu has %zu tokens, and the model takes %u: --truncate cuts a "
                        "text that is too long",
                        l->path, i + 1, w->in[i].whole, w->info.max_text);
    case TFT_ERR_ARG: return cli_fail("%s: line %zu has no tokens", l->path, i + 1);
    case TFT_ERR_UNSUPPORTED:
        return cli_fail("the model has no tokenizer, or no token between the texts of a pair");
    default: return cli_fail("%s: line %zu: %s", l->path, i + 1, tft_status_text(status));
    }
}

int work_read(struct work *w, const struct lines *l, struct cli_text prompt,
              const struct cli_text *query, bool cut)
{
    size_t most = w->info.max_text;
    w->in = calloc(l->n, sizeof *w->in);
    if (!w->in)
        return cli_fail("out of memory");
    for (w->n = 0; w->n < l->n && !cli_interrupted();) {
        struct input *in = &w->in[w->n++];
        const struct cli_text *t = &l->text[w->n - 1];
        enum tft_status status = query ? input_pair(in, w->m, *query, *t, most, cut)
                                       : input_text(in, w->m, prompt, *t, most, cut);
        if (status == TFT_ERR_FULL && cut)
            return cli_fail("%s: line %zu: %zu tokens have no room for %s", l->path, w->n, most,
                            query ? "the query" : "a text");
        if (status != TFT_OK)
            return refuse(w, l, w->n - 1, status);
        w->n_cut += in->whole > in->n;
        w->n_tokens += in->n;
    }
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    if (w->n_cut)
        fprintf(stderr, "tuffet: %zu of %zu texts were cut to %zu tokens\n", w->n_cut, w->n, most);
    return CLI_OK;
}

/* ---- computing */

enum { PART_TEXTS = 256, PART_TOKENS = 16384 };

/* How many of the inputs from `first` on make the next part. */
static size_t part(const struct work *w, size_t first, uint64_t *tokens)
{
    size_t n = 0;
    for (*tokens = 0; first + n < w->n && n < PART_TEXTS; n++) {
        if (n && *tokens + w->in[first + n].n > PART_TOKENS)
            break;
        *tokens += w->in[first + n].n;
    }
    return n;
}

static enum tft_status compute(struct work *w, size_t first, size_t n, float *out)
{
    struct tft_text_tokens texts[PART_TEXTS];
    for (size_t i = 0; i < n; i++)
        texts[i] = input_tokens(&w->in[first + i]);
    return (w->info.pooling == TFT_POOLING_RANK ? tft_rerank : tft_embed)(w->e, texts, n, out);
}

int work_do(struct work *w, const char *what,
            int (*put)(void *user, size_t first, size_t n, const float *results), void *user)
{
    float *out = malloc(PART_TEXTS * (size_t)w->info.width * sizeof *out);
    int status = out ? CLI_OK : cli_fail("out of memory");
    uint64_t done = 0, tokens;
    cli_progress_begin(&progress.line, what);
    for (size_t at = 0, n; at < w->n && status == CLI_OK; at += n, done += tokens) {
        n = part(w, at, &tokens);
        progress.from = (double)done / (double)w->n_tokens;
        progress.share = (double)tokens / (double)w->n_tokens;
        enum tft_status computed = compute(w, at, n, out);
        if (computed == TFT_OK) {
            cli_progress_end(&progress.line);
            status = put(user, at, n, out);
        } else if (computed == TFT_ERR_CANCELLED) {
            status = CLI_INTERRUPTED;
        } else {
            cli_progress_end(&progress.line);
            status = cli_fail("%s", tft_embedder_error(w->e)->msg);
        }
    }
    cli_progress_end(&progress.line);
    free(out);
    return cli_interrupted() ? CLI_INTERRUPTED : status;
}
