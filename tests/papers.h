/*
 * The presets of quantized caches against their papers, restated here in double precision, plainly,
 * a token at a time. The restatement takes the keys and values of a session with an f16 cache and
 * says which tokens stay f16 and in which order, which tokens each block has, its codes and scales,
 * and what attention is to return.
 *
 *   KIVI       Liu et al. 2024, as LogQuant (section 3.4) and AsymKV (section 5.1) describe it: the
 *              newest R tokens at most are in full precision
 *   LogQuant   section 3.4: which tokens stay; section 3.3: their order does not matter
 *   AsymKV     Equ. 4 and 5: round to nearest; section 4: bits by layer
 *   SKVQ       section 3.1, eq. 1: the order of channels, eq. 2 and 3: clipping; section 3.2 and
 *              algorithm 1: the window, the sinks, the filter, and prompts in full precision;
 *              section 4.1: E4M3
 *   IntactKV   section 4.3: the prefix stays FP16
 *
 * Where they are and we are not token by token: tuffet.h quantizes `block` tokens together. What
 * RTN would quantize as it comes waits for its block to be full, up to a block of what has left
 * SKVQ's window is still there, and what KIVI and LogQuant give up waits until it fills blocks.
 * Papers attend first and then quantize; here what is due is quantized when the next token comes,
 * which no token can tell.
 */
#ifndef TFT_TEST_PAPERS_H
#define TFT_TEST_PAPERS_H

#include "test.h"

#include <math.h>
#include <string.h>

#include "simd/half.h"
#include "run/session.h"

enum { MOST = 330, WIDE = 40, HEADS = 2, LAYERS = 2, PREFIX = 3, NEVER = MOST };
enum rule { KIVI, LOGQUANT, SKVQ };
enum axis { CHANNEL, TOKEN, MIXED };
enum clip { WHOLE, CENTRE, ZERO, CALIBRATED };
enum { KEYS, VALUES };

/* A cache, said in the words of the papers. */
struct paper {
    const char *kv;
    int toy;
    uint32_t n, n_prefix;
    enum rule rule;
    uint32_t window, sinks; /* R of KIVI, W of LogQuant and SKVQ */
    enum axis axis[2];      /* of keys, values */
    uint32_t levels[2][LAYERS]; /* 0: f16 */
    uint32_t group, block;
    enum clip clip;
    bool f8;
    double average[LAYERS]; /* bits of MIXED keys; 0: f16 */
    bool reorder;
    uint32_t prefill, keep;
};

/* ---- papers_tokens.c: which tokens stay as they are */

/* Positions, those of the prefix among them. */
struct paper_cache {
    uint32_t sinks, named, waiting, kept, blocks;
    uint32_t sink[MOST], name[MOST], wait[MOST], keep[MOST], block[MOST / 16][256];
    uint32_t since[MOST]; /* a token is coded for queries from this position on */
};

/* What the filter of these tests wants to keep: tft_session_opts.keep */
bool paper_wanted(void *user, uint64_t position, int32_t token);

extern int32_t paper_tokens[MOST]; /* that are fed */

/* The next token comes. */
void paper_come(const struct paper *p, struct paper_cache *c, uint32_t position);

/* ---- papers_codes.c: the codes and scales of a block */

/* Of each position: what it had as it came; once it is coded, what that stands for, with the scale
   and c - (L - 1) / 2 of each number. */
struct paper_numbers {
    uint16_t row[MOST][WIDE];
    double x[MOST][WIDE], scale[MOST][WIDE], c[MOST][WIDE];
};
extern struct paper_numbers paper_numbers[2][LAYERS][HEADS];

/* The cache works in floats: what it rounds may be this much beside what is rounded here. Relative
   to the ends of the range: three roundings. */
#define FLOAT (4 * 0x1p-24)

/* What a file may have been calibrated for, models of one layer: eq. 1's order of keys, and eq. 2's
   alpha of each head's groups. */
extern int32_t paper_key_order[HEADS * WIDE];
extern float paper_alpha[2][HEADS * ((WIDE + 15) / 16)];
extern float paper_importance[LAYERS * HEADS * WIDE]; /* no two alike */

/* Which channel is stored where, and its levels. */
struct paper_order {
    uint32_t channel[WIDE], levels[WIDE];
};
struct paper_order paper_order_of(const struct paper *p, int side, uint32_t layer, uint32_t head,
                                  uint32_t dim);

/* That the session's block is as the paper has it; and notes what it stands for, by which attention
   is judged. */
void paper_assert_block(const struct paper *p, const struct tft_session *s,
                        const struct paper_cache *c, uint32_t number);

/* ---- papers_attention.c */

/* That attention of the query in a row of the pass is as the paper has it, and as kernels.h rounds
   it. What is allowed is, in the mean and where codes have up to 4 bits, 10 to 90 % of attention's
   output for the former: a worst case that never comes (seen: 0.4 to 1.4 %). For the latter it is 1
   to 8 %, and 0.1 to 0.7 % are seen. */
void paper_assert_attention(const struct paper *p, const struct tft_session *s,
                            const struct paper_cache *c, uint32_t position, uint32_t row);

#endif
