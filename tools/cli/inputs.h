/* Texts, and pairs of texts, as the tokens that an embedder takes (tft_embed, tft_rerank). */
#ifndef INPUTS_H
#define INPUTS_H

#include "cli.h"

/* Starts from all zero. */
struct input {
    int32_t *ids;    /* [n] */
    uint8_t *types;  /* [n] of a pair; else NULL */
    size_t n, whole; /* tokens, and the tokens before the cut */
};
void input_free(struct input *in);

/* The tokens of the prompt, which may be empty, and the text as one text, with the tokens at its
   start and end. most: tokens that fit; cut: a longer text loses its last tokens before the end.
   TFT_ERR_FULL: it is longer, and not to be cut; in->whole has its tokens. TFT_ERR_ARG: there are
   none. TFT_ERR_NOMEM, TFT_ERR_UNSUPPORTED as tft_tokenize. Call input_free in any case. */
enum tft_status input_text(struct input *in, const struct tft_model *m, struct cli_text prompt,
                           struct cli_text text, size_t most, bool cut);

/* The tokens of a pair, by tft_tokenize_pair, or by the model's template of pairs. cut: a document
   that is too long loses its end. TFT_ERR_FULL also: the query alone is too long. Otherwise as
   input_text. */
enum tft_status input_pair(struct input *in, const struct tft_model *m, struct cli_text query,
                           struct cli_text document, size_t most, bool cut);

/* The same for tft_embed and tft_rerank. */
struct tft_text_tokens input_tokens(const struct input *in);

#endif
