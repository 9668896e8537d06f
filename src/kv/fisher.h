/*
 * Keys and values with bits by the cost of an error: the axis TFT_KV_FISHER.
 *
 * Levels and bits of a channel are constants of the file. So a token's codes depend on the token
 * alone. Layers with a window have no codes; all others have the same heads, G of E channels. A
 * head of a layer has a table for its keys, and one for its values, [rows, E]:
 *
 *      mean    of the channel
 *      gain    the channel's weight in a token's gain
 *      step    4 rows: the distance of the levels of 1 to 4 bits, of (x - mean) / g, where g is
 *              the token's gain
 *      loss    5 rows: the loss, in any unit, with 0 to 4 bits
 *
 * A token's key, or value, x has one gain, a power of 2^(1/8) in 6 bits, and a code c for each
 * channel of b bits:
 *
 *      g    = sqrt(sum over the channels of gain (x - mean)^2), rounded
 *      x    is about mean + g step (c - (2^b - 1) / 2)
 *
 * and a channel of 0 bits has no code: x is about its mean. A unit of channels has 0 to 4 bits: two
 * pairs of keys' channels that RoPE turns together, panels of 16 values, in the order of the
 * pairs', or channels', losses with 1 bit. Keys may also have 8 bits: an eighth of the step of 4
 * bits, and a 64th of the loss. A unit has
 * the bits at which its loss, plus a price for each bit, is least, and at least the bits of the
 * unit before. The price is the same for all layers, heads, keys and values (reverse
 * water-filling): the least at which codes and gains fit in the policy's bits a number.
 *
 * Keys are coded before RoPE: slots have keys after RoPE, so a block's keys are turned back by
 * their positions first (turn.h). Before RoPE, a channel has one mean at all positions, and
 * channels differ more. A key is rebuilt and turned when it is read, once for all queries of a
 * tile.
 *
 * A block, 32 tokens of a head's keys or values. The codes of a head's blocks are consecutive, as
 * are their gains:
 *
 *      keys    two panels of 16 tokens, quads of the coded channels, narrow codes first. In a quad,
 *              code number 16 * column + row of codes.h is that of token `row` and channel `column`
 *      values  codes.h, the panels of 16 channels, narrow codes first, columns are tokens
 *      gains   6 bits a token: 3 bytes for 4 tokens, the first token in the lowest bits
 *
 * With the gains of the tokens, y = (x - mean) / g, the kernels compute (kernels.h)
 *
 *      k_j = the turn of mean, plus g_j times the turn of step (c_j - half)          turn_keys
 *      sum of p_j v_j[d] = step[d] sum over j of (p_j g_j) (c_j[d] - half[d])        mix_widths
 *                          + mean[d] sum of p_j
 */
#ifndef TFT_FISHER_H
#define TFT_FISHER_H

#include "kv.h"

/* Rows of a head's table. */
enum { TFT_FISHER_BITS = 4 }; /* the most of a code */
enum tft_fisher_row {
    TFT_FISHER_MEAN,
    TFT_FISHER_GAIN,
    TFT_FISHER_STEP,                                     /* of 1 bit, and so on */
    TFT_FISHER_LOSS = TFT_FISHER_STEP + TFT_FISHER_BITS, /* of 0 bits, and so on */
    TFT_FISHER_ROWS = TFT_FISHER_LOSS + TFT_FISHER_BITS + 1
};

/* The bits that a channel may have, ascending; the last are of keys alone. */
enum { TFT_FISHER_CHOICES = TFT_FISHER_BITS + 2 };
extern const uint8_t tft_fisher_choices[TFT_FISHER_CHOICES];

enum { TFT_FISHER_BLOCK = 32, TFT_FISHER_GAIN_BYTES = TFT_FISHER_BLOCK / 4 * 3 };

/* A head's keys, or values. A place is a channel in the order of codes, narrow first. The last
   place has the last channel: if E is no multiple of the unit, the first places have no channel. */
struct tft_fisher_head {
    uint16_t units[TFT_BITS_COUNT]; /* by width: quads of a panel of keys, panels of values */
    uint32_t first;                 /* the first place with a code */
    uint32_t pad;                   /* the first place with a channel */
    uint32_t end;                   /* the places: pad + E */
    uint16_t *channel;              /* [E] the channel of place pad + i */
    uint16_t *pair;                 /* [E / 2] keys: the pair at places 2 i and 2 i + 1 */
    float *mean, *gain;             /* [end] of the file; a place without a channel has zeros */
    float *step, *half;             /* [end] 0 before `first` */
    float *fine;                    /* [end] the step of 4 bits */
    size_t codes_at, gains_at;      /* the first byte in kv->codes of the head's codes and gains */
    size_t exact_at;                /* the same of its exact tokens; with the keys */
    size_t codes;                   /* bytes of the codes of a block */
};

/* The heads of the first layer without a window; and whether all such layers have them, with as
   many channels as codes take. */
struct tft_kv_heads tft_fisher_heads(const struct tft_kv_shape *shape);
bool tft_fisher_fits(const struct tft_kv_shape *shape);

/* Places of a head of `dim` channels. */
uint32_t tft_fisher_places(enum tft_kv_which which, uint32_t dim);

/* The price of a bit at which codes and gains of the layers without a window take at most `bits` a
   number. shape->fisher must have tables. */
float tft_fisher_price(const struct tft_kv_shape *shape, float bits);

/* Sets all of *h but the first bytes at a price. table: [rows, E] of a head; the arrays of *h have
   memory, or are all NULL and stay so. */
void tft_fisher_share(struct tft_fisher_head *h, const struct tft_kv_shape *shape,
                      enum tft_kv_which which, const float *table, float price);

/* How many channels of the head have each of tft_fisher_choices. */
void tft_fisher_count(const struct tft_fisher_head *h, enum tft_kv_which which,
                      uint32_t channels[TFT_FISHER_CHOICES]);

/* Takes memory for the heads of a layer's keys, or values, and room for n_blocks of them from byte
   *used on. Sets all if the arena has memory; else NULL. */
struct tft_fisher_head *tft_fisher_layout(struct tft_arena *a, const struct tft_kv_shape *shape,
                                          enum tft_kv_which which, uint32_t layer, float price,
                                          uint32_t n_blocks, size_t *used);

/* Bytes of a block over all heads of the layers without a window. */
uint64_t tft_fisher_block_bytes(const struct tft_kv_shape *shape, float price);

/* The table of a head. */
static inline const float *tft_fisher_table(const struct tft_kv_shape *shape,
                                            enum tft_kv_which which, uint32_t layer, uint32_t head)
{
    struct tft_kv_heads own = tft_fisher_heads(shape);
    return shape->fisher[which] + ((size_t)layer * own.n + head) * TFT_FISHER_ROWS * own.dim;
}

/* ---- exact tokens */

/*
 * A later token may become a sink: in some layers it draws most of the attention, and its value is
 * near 0. An error in its key or value is an error in the attention of all. So in each head the key
 * and value of the first tokens with a small value also stay as they are in slots, beside their
 * codes, and attention takes them from there. A value is small if its square is less than a fifth
 * of the mean square of the file's values, about 0.45 of their norm. This is a rule of the token
 * alone, so it does not matter how tokens are fed.
 */
enum { TFT_FISHER_EXACT = 8 };
struct tft_fisher_exact {
    uint32_t n, unused;
    uint32_t place[TFT_FISHER_EXACT]; /* 32 * block + the token's place in the block, ascending */
    uint16_t number[];                /* [TFT_FISHER_EXACT, key and value, E] */
};
size_t tft_fisher_exact_bytes(uint32_t dim);
uint64_t tft_fisher_exact_all(const struct tft_kv_shape *shape); /* of all heads */
struct tft_fisher_exact *tft_fisher_exact(const struct tft_kv *kv, const struct tft_fisher_head *h);

/* The least square of a value that is not small. */
float tft_fisher_least(const struct tft_fisher_head *values);

/* Keeps the exact tokens of block b, in slot: [32], before their keys and values leave these. */
void tft_fisher_keep_exact(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b,
                           const uint32_t *slot);

/* The key, or value, of exact token i, [E]. */
static inline const uint16_t *tft_fisher_exact_row(const struct tft_fisher_exact *e,
                                                   enum tft_kv_which which, uint32_t i,
                                                   uint32_t dim)
{
    return e->number + ((size_t)i * TFT_KV_SIDES + which) * dim;
}

/* Drops the tokens of the first n blocks. */
void tft_fisher_drop_exact(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n);

/* ---- blocks */

/* The bytes of a block. */
struct tft_fisher_block {
    char *codes; /* [codes] */
    char *gains; /* [TFT_FISHER_GAIN_BYTES] */
};
struct tft_fisher_block tft_fisher_block(const struct tft_kv *kv, const struct tft_fisher_head *h,
                                         uint32_t b);

/* Makes a block. x: [32, E], rows ldx apart, keys before RoPE; code: [32, end] a workspace. */
void tft_fisher_put(const struct tft_fisher_head *h, enum tft_kv_which which, const float *x,
                    size_t ldx, uint8_t *code, struct tft_fisher_block to);

/* gain: [n_blocks, 32] of consecutive blocks' bytes */
void tft_fisher_gains(const char *gains, uint32_t n_blocks, float *gain);

/* A block of keys for turn_keys, without gains, angles, means and the result. */
struct tft_turn_keys tft_fisher_keys(const struct tft_fisher_head *h, const char *codes);

/* Consecutive blocks of values for mix_widths, without the weights and the result: h->end channels.
   gain: [n_blocks, 32] */
struct tft_mix_widths tft_fisher_values(const struct tft_fisher_head *h, const char *codes,
                                        uint32_t n_blocks, const float *gain);

#endif
