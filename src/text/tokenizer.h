/*
 * Text to tokens and back: SentencePiece-style BPE with byte fallback (spm.c) and byte-level BPE
 * (bpe.c, with the pre-tokenizers of pretokenize.c). Built from the tokenizer.ggml.* values of a
 * source; owns all it needs, so the source may be closed. Immutable: any number of threads may use
 * it.
 */
#ifndef TFT_TOKENIZER_H
#define TFT_TOKENIZER_H

#include "file/file.h"

struct tft_tokenizer;

/* TFT_ERR_UNSUPPORTED names a model or pre-tokenizer that is not known; TFT_ERR_FORMAT whatever
   makes no sense. */
enum tft_status tft_tokenizer_open(struct tft_tokenizer **out, const struct tft_source *s,
                                   const struct tft_allocator *a, struct tft_error *err);
void tft_tokenizer_close(struct tft_tokenizer *t); /* NULL is fine */

uint32_t tft_tokenizer_size(const struct tft_tokenizer *t); /* n_vocab */

/* The bodies of the public functions of the same name. */
enum tft_status tft_tokenizer_encode(const struct tft_tokenizer *t, const char *text, size_t len,
                                     unsigned flags, int32_t *ids, size_t cap, size_t *n);
const char *tft_tokenizer_text(const struct tft_tokenizer *t, int32_t id, bool special,
                               size_t *len);
int32_t tft_tokenizer_bos(const struct tft_tokenizer *t);
int32_t tft_tokenizer_eos(const struct tft_tokenizer *t);
bool tft_tokenizer_ends(const struct tft_tokenizer *t, int32_t id);
size_t tft_tokenizer_push(const struct tft_tokenizer *t, struct tft_text *state, int32_t id,
                          char out[TFT_TEXT_MAX]);

#endif
