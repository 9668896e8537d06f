/* Small random models, written as GGUF files. The files have the same bits on every machine. */
#ifndef TFT_TEST_TOY_H
#define TFT_TEST_TOY_H

#include <stdbool.h>
#include <stdint.h>

#include "file/dtype.h"

/* A number of the file, ARCH.key. */
struct toy_number {
    const char *key;
    enum { TOY_F32, TOY_U32, TOY_BOOL } type;
    double x;
};

struct toy {
    const char *arch;
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_rot;
    enum tft_dtype type;  /* of matrices: any that tuffet reads as floats */
    uint32_t floats;      /* bits: layers with matrices in f32 instead */
    bool tied;            /* no output.weight */
    float linear_scaling; /* of RoPE; 0: none */
    float yarn;           /* factor of YaRN, likewise; original context: 40 */
    bool llama3_scaling;  /* of RoPE: rope_freqs.weight */
    uint64_t seed;
    const char *vocab; /* NULL, or "llama" or "gpt2", the kind; n_vocab is then TOY_VOCAB */
    const int32_t *suppress; /* [n_suppress] tokens that are never chosen, if there is a vocab */
    uint32_t n_suppress;
    bool adds_eos;     /* tokenizer.ggml.add_eos_token, if there is a vocab */
    bool endless;      /* the vocabulary has no token that ends generation */
    bool fim;          /* the vocabulary has tokens for fill-in-the-middle */
    bool uniform;      /* all logits are 0: every token is equally likely. Not if tied */
    const char *chat_template, *tool_template; /* tool_template: the one named tool_use */
    const struct toy_number *numbers; /* instead of the usual ones of the architecture; the last has
                                         no key */
    bool large;     /* the form of stablelm's 12B, of falcon's 40B */
    const uint32_t *kv_heads; /* [n_layer] in the file, n_head_kv or 0 each; or NULL */
    const bool *windows;      /* [n_layer] sliding_window_pattern: whether each layer has a window;
                                 or NULL */
    const uint32_t *ffs;      /* [n_layer] feed_forward_length of each layer; or NULL */
    bool keys_as_values;      /* layers without a window have no attn_v */
    bool shared_last;   /* only the last layer has a shared expert */
    bool fused_experts; /* one tensor has the rows of gate and up of each expert */
    bool relu2, weight_factors; /* bitnet: hidden_activation is relu2; matrices have tensors
                                   `scale` */
    bool fused_qkv; /* one tensor has the rows of q, k and v; all numbers are the same */
};

/* Parts of an architecture's formula, as its toys have them. */
bool toy_has_layer_norm(const struct toy *t);
bool toy_has_post_norm(const struct toy *t);
bool toy_has_pre_norm(const struct toy *t);
bool toy_has_experts(const struct toy *t);

/* Both vocabularies have all bytes, a few longer pieces and the special tokens of chat formats.
   "llama" also has printable ASCII and puts <s> before a text. "gpt2" has <|endoftext|> as BOS and
   EOS, and adds neither to a text. */
enum { TOY_VOCAB = 420 };

struct tft_gguf_writer;
void toy_put_vocab(struct tft_gguf_writer *w, const char *kind, bool endless, bool fim);

/* Writes the model to a file. False if that fails. */
bool toy_write(const struct toy *t, const char *path);

/* Makes a token of the file, a toy of f32 with a gate, an outlier each time it comes: it moves one
   input of ffn_down in layer 0 to about 1600, where other tokens have a few. False if that fails.
   */
bool toy_give_outlier(const char *path, int32_t token);

/* Gives the keys' bias in a file, a toy of f32 with two layers, `size` in the pair of channels that
   RoPE turns most slowly, as qwen2 has it: head_dim / 2 apart, in each head. False if that fails.
   */
bool toy_give_key_bias(const char *path, uint32_t head_dim, float size);

/* Multiplies the attention's values in a file, a toy of f32 with two layers, and divides the
   matrices that read them: the model computes the same, but for rounding. False if that fails. */
bool toy_enlarge_values(const char *path, float factor);

/* A random block of a quantized type, with numbers of about spread / 2. */
void toy_block(unsigned char *block, enum tft_dtype type, uint64_t *seed, float spread);

/* n random tokens below n_vocab. */
void toy_tokens(uint64_t seed, uint32_t n_vocab, int32_t *tokens, uint32_t n);

#endif
