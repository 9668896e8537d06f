/*
 * Compares quantized caches with the papers that they come from. The methods of the papers are
 * written again here, in double precision, plainly, one token at a time. Given the keys and values
 * of a session with an f16 cache, this second version says which tokens stay f16 and in which
 * order, which tokens each block has, its codes and scales, and the output of attention.
 *
 *   KIVI       Liu et al. 2024, as LogQuant (section 3.4) and AsymKV (section 5.1) describe it: at
 *              most the newest R tokens are in full precision
 *   LogQuant   section 3.4: which tokens stay. Of the values of PartialLogQuant the newest stay.
 *              Section 3.3: the order of tokens does not matter
 *   AsymKV     Equ. 4 and 5: round to nearest; section 4: bits by layer
 *   SKVQ       section 3.1, eq. 1: the order of channels, eq. 2 and 3: clipping; section 3.2 and
 *              algorithm 1: the window, the sinks, the filter, and prompts in full precision;
 *              section 4.1: E4M3
 *   IntactKV   section 4.3: the prefix stays FP16
 *
 * Two differences are known and part of the checks here:
 *
 *   - The papers quantize single tokens, tuffet whole blocks. So a token that RTN would quantize at
 *     once, that has left SKVQ's window, or that KIVI or LogQuant quantizes, waits in a slot until
 *     its block is full.
 *   - The papers quantize after a token has attended, tuffet before the next token is stored. No
 *     token sees a difference.
 */
#ifndef TFT_TEST_PAPERS_H
#define TFT_TEST_PAPERS_H

#include "test.h"

#include <math.h>
#include <string.h>

#include "simd/half.h"
#include "run/session.h"

enum { MAX_POSITIONS = 330, MAX_DIM = 40, HEADS = 2, LAYERS = 2, PREFIX = 3 };
enum { NEVER = MAX_POSITIONS }; /* later than any position */
enum rule { KIVI, LOGQUANT, SKVQ };
enum axis { CHANNEL, TOKEN, MIXED };
enum clip { WHOLE, CENTRE, ZERO, CALIBRATED };
enum { KEYS, VALUES };

/* A cache, described in the terms of the papers. */
struct paper {
    const char *kv; /* the same cache, as tuffet names it */
    int toy;        /* index of the toy model */
    uint32_t n;     /* tokens that are fed */
    uint32_t n_prefix;
    enum rule rule;  /* which tokens stay f16 */
    uint32_t window; /* R of KIVI, W of LogQuant and SKVQ */
    bool apart;      /* the reads are of the keys. Of the values: */
    enum rule v_rule;
    uint32_t v_window;
    uint32_t sinks;
    enum axis axis[2];          /* that scales belong to, of keys and of values */
    uint32_t levels[2][LAYERS]; /* L of keys and of values; 0: f16 */
    uint32_t group;             /* channels that share a scale, if axis is TOKEN */
    uint32_t block;             /* tokens of a block */
    enum clip clip;
    bool f8;                /* scales are E4M3, else f16 */
    double average[LAYERS]; /* bits of MIXED keys; 0: f16 */
    bool reorder;           /* keys are stored in the file's order */
    uint32_t prefill;       /* a prompt of up to this many tokens is not quantized before its end */
    uint32_t keep;          /* the most tokens that the filter keeps */
};

/* ---- papers_tokens.c: which tokens stay as they are */

/* Which positions of keys, or of values, are where. Positions count the prefix too. */
struct paper_cache {
    uint32_t sinks, named, waiting, kept, blocks; /* how many there are of each: kv/retain.h */
    uint32_t sink[MAX_POSITIONS], name[MAX_POSITIONS], wait[MAX_POSITIONS], keep[MAX_POSITIONS];
    uint32_t block[MAX_POSITIONS / 16][256];
    uint32_t since[MAX_POSITIONS]; /* queries from this position on see the position as codes */
};

/* The filter of these tests: tft_session_opts.keep */
bool paper_filter(void *user, uint64_t position, int32_t token);

extern int32_t paper_tokens[MAX_POSITIONS]; /* the tokens that are fed */

/* Adds the token of `position`, the next one, to the cache of a side. */
void paper_append(const struct paper *p, int side, struct paper_cache *c, uint32_t position);

/* ---- papers_codes.c: the codes and scales of a block */

/* The keys or values of a head. */
struct paper_numbers {
    uint16_t row[MAX_POSITIONS][MAX_DIM]; /* f16, as they were computed */
    /* once they are quantized: the value of a code c, its scale, and c - (L - 1) / 2 */
    double x[MAX_POSITIONS][MAX_DIM], scale[MAX_POSITIONS][MAX_DIM], c[MAX_POSITIONS][MAX_DIM];
};
extern struct paper_numbers paper_numbers[2][LAYERS][HEADS];

/* The cache computes in floats. So a number that it rounds may differ by this much, relative to the
   ends of the range, from the one that is rounded here: three roundings of floats. */
#define FLOAT_SLACK (4 * 0x1p-24)

/* Calibration data of a model file, for models of one layer: the order of keys (SKVQ eq. 1), and
   alpha of each head's groups (eq. 2). */
extern int32_t paper_key_order[HEADS * MAX_DIM];
extern float paper_alpha[2][HEADS * ((MAX_DIM + 15) / 16)];
extern float paper_importance[LAYERS * HEADS * MAX_DIM]; /* all different */

/* The channel that is stored at each place, and its levels. */
struct paper_order {
    uint32_t channel[MAX_DIM], levels[MAX_DIM];
};
struct paper_order paper_order_of(const struct paper *p, int side, uint32_t layer, uint32_t head,
                                  uint32_t dim);

/* Asserts that a block of a side of the session is as the paper says, and records the values of its
   codes in paper_numbers. */
void paper_assert_block(const struct paper *p, const struct tft_session *s, int side,
                        const struct paper_cache *c, uint32_t number);

/* ---- papers_attention.c */

/* Asserts that attention of the query in a row of the pass agrees with the paper, and with
   kernels.h, which rounds queries and probabilities. The allowed error is computed. For codes of up
   to 4 bits its mean is 10 to 90 % of the output for the paper's result, a worst case that does not
   happen (0.4 to 1.4 % are seen), and 1 to 8 % for the rounded one (0.1 to 0.7 %). */
void paper_assert_attention(const struct paper *p, const struct tft_session *s,
                            const struct paper_cache c[2], uint32_t position, uint32_t row);

#endif
