/* What the commands embed and rerank share: a model and its embedder, the texts of lines as tokens,
   and results in parts, with progress. */
#ifndef EMBED_WORK_H
#define EMBED_WORK_H

#include "lines.h"
#include "tools/cli/inputs.h"

struct work {
    struct tft_model *m;
    struct tft_embedder *e;
    struct tft_embedder_info info;
    struct input *in; /* [n] */
    size_t n, n_cut;  /* n_cut: texts that were cut */
    uint64_t n_tokens;
};

/* Opens the model and an embedder. rank: the model must be a reranker, else it must make vectors.
   All functions return CLI_OK, or another status after an error message; call work_close in any
   case. */
int work_open(struct work *w, const char *model, struct tft_embedder_opts o, bool rank);
void work_close(struct work *w);

/* Makes w->in of the lines: texts after the prompt, or, if query is not NULL, pairs with the query.
   A text that is too long is cut, or refused by its number. Then prints how many were cut. */
int work_read(struct work *w, const struct lines *l, struct cli_text prompt,
              const struct cli_text *query, bool cut);

/* Computes all results, and calls put with some at a time, in their order: those of the inputs
   [first, first + n). */
int work_do(struct work *w, const char *what,
            int (*put)(void *user, size_t first, size_t n, const float *results), void *user);

#endif
