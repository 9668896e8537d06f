/* Small random models, the same bits on every machine, written as GGUF files. */
#ifndef TFT_TEST_TOY_H
#define TFT_TEST_TOY_H

#include <stdbool.h>
#include <stdint.h>

#include "file/dtype.h"

struct toy {
    const char *arch;
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_rot;
    enum tft_dtype type;  /* of matrices: F32, F16, BF16 or Q8_0 */
    bool tied;            /* no output.weight */
    float linear_scaling; /* 0: none */
    bool llama3_scaling;  /* rope_freqs.weight */
    uint64_t seed;
    const char *vocab; /* "llama" or "gpt2": it has a vocabulary of that kind, and n_vocab must be
                          TOY_VOCAB */
    bool endless;      /* the vocabulary has no token at which generation ends */
    bool uniform;      /* every token is as likely, whatever came before; not if tied */
    const char *chat_template;
};

/* The vocabularies have all bytes, a few longer pieces, and the special tokens of the chat formats.
   That of "llama" has printable ASCII, and <s> goes first; that of "gpt2" has <|endoftext|> for
   both ends of a sequence, and adds neither. */
enum { TOY_VOCAB = 420 };

struct tft_gguf_writer;
void toy_put_vocab(struct tft_gguf_writer *w, const char *kind, bool endless);

/* False if it could not be written. */
bool toy_write(const struct toy *t, const char *path);

/* n tokens below n_vocab. */
void toy_tokens(uint64_t seed, uint32_t n_vocab, int32_t *tokens, uint32_t n);

#endif
