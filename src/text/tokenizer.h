/*
 * The folder text/ turns text into tokens and tokens into text: SentencePiece-style BPE with byte
 * fallback (spm.c), SentencePiece's Unigram model (unigram.c), byte-level BPE (bpe.c, with the
 * pre-tokenizers of pretokenize.c), BERT's WordPiece (wordpiece.c), and RWKV's longest match
 * (longest.c). Other folders include only this header of text/.
 *
 * A tokenizer is built from the tokenizer.ggml.* values of a source; the source may be closed
 * afterwards. A tokenizer never changes, so any number of threads may use it.
 */
#ifndef TFT_TOKENIZER_H
#define TFT_TOKENIZER_H

#include "file/file.h"
#include "keys.h"

struct tft_tokenizer;

/* TFT_ERR_UNSUPPORTED: an unknown kind of vocabulary or pre-tokenizer. TFT_ERR_FORMAT: the values
   are damaged or contradict each other. TFT_ERR_NOMEM. */
enum tft_status tft_tokenizer_open(struct tft_tokenizer **out, const struct tft_source *s,
                                   const struct tft_allocator *a, struct tft_error *err);
void tft_tokenizer_close(struct tft_tokenizer *t); /* t may be NULL */

uint32_t tft_tokenizer_size(const struct tft_tokenizer *t); /* n_vocab */

/* The *n tokens that generation never chooses; an id may occur twice. */
const int32_t *tft_tokenizer_suppressed(const struct tft_tokenizer *t, uint32_t *n);

enum { TFT_HAS_BOS = 1 << 30 }; /* a flag beside those of tuffet.h: BOS precedes the text, and a BOS
                                   at the start of the text is left out */

/* The public functions tft_tokenize*, tft_token_* and tft_text_push: see tuffet.h. */
enum tft_status tft_tokenizer_encode(const struct tft_tokenizer *t, const char *text, size_t len,
                                     unsigned flags, int32_t *ids, size_t cap, size_t *n);
enum tft_status tft_tokenizer_encode_spans(const struct tft_tokenizer *t, const char *text,
                                           size_t len, const struct tft_span *span, size_t n_span,
                                           unsigned flags, int32_t *ids, size_t cap, size_t *n);
enum tft_status tft_tokenizer_encode_pair(const struct tft_tokenizer *t, struct tft_str first,
                                          struct tft_str second, unsigned flags, int32_t *ids,
                                          unsigned char *types, size_t cap, size_t *n);
const char *tft_tokenizer_text(const struct tft_tokenizer *t, int32_t id, bool special,
                               size_t *len);
int32_t tft_tokenizer_bos(const struct tft_tokenizer *t);
int32_t tft_tokenizer_eos(const struct tft_tokenizer *t);
int32_t tft_tokenizer_fim(const struct tft_tokenizer *t, enum tft_fim part);
bool tft_tokenizer_adds_eos(const struct tft_tokenizer *t);
bool tft_tokenizer_ends(const struct tft_tokenizer *t, int32_t id);
size_t tft_tokenizer_push(const struct tft_tokenizer *t, struct tft_text *state, int32_t id,
                          char out[TFT_TEXT_MAX]);

#endif
