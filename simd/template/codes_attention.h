/*
 * score_codes, mix_codes, mix_widths and turn_keys of kernels.h: attention on the codes of a
 * quantized cache; and fill_codes(), which enters the kernels in the table. An ISA level's .c file
 * defines the parameters below and includes this file.
 *
 * Algorithm: the factors of a batch of queries (the queries, or the probabilities) are folded into
 * integers (codes_fold.h). Each panel of codes is unpacked to a byte per code, in a buffer that
 * stays in the L1 cache (codes_unpack.h), and multiplied by the factors of all queries of the batch
 * (codes_dot.h). With A = the sum of x * c, the sum t of kernels.h is 2 A - shift, where shift is
 * the sum of x * (L - 1). The integer sums are exact, so only the float operations before and after
 * them (codes_score.h, codes_mix.h) follow the order of the contract.
 *
 * Folded factors have two sizes. Codes of up to 4 bits take i8 factors (TFT_FOLD_I8). If any code
 * of the block has 8 bits, factors are i16 (TFT_FOLD_I16), and a code of 8 bits is unpacked as
 * c - 128, so every code is a signed byte; L - 1 is then -1. In the functions below, `i16` is true
 * for i16 factors.
 *
 * Parameters, besides lanes.h and load_i8.h:
 *
 *   ISA(name)                    the name of a function of this ISA level
 *
 *   breg, BYTES                  a register of 16, 32 or 64 bytes
 *   b_set, b_and, b_add          in every byte
 *   b_subs, b_min                unsigned, in every byte; b_subs saturates at 0
 *   b_repeat(p, r, period)       the r-th BYTES of the bytes p[0] .. p[period - 1] repeated; period
 *                                is a constant 8, 16, 32 or 64
 *   b_shift(a, n)                shifts each group of 8 bytes, as a number, right by n[0], n[1] ..
 *   or unpack_bits of quad.h     if HAVE_UNPACK_BITS
 *
 *   c_put(to, a)                 stores the codes of a quad, 64 bytes, in the order of c_dot;
 *                                a: [64 / BYTES]
 *   c_put_x(to, a, i16)          stores 16 folded factors, 16 or 32 bytes
 *   c_codes, c_load(p, i16)      a quad from c_put
 *   c_x, c_factors(p, i16)       16 factors from c_put_x
 *   c_acc, c_zero()              the sums of 16 rows
 *   c_dot(acc, c, x, s, i16)     acc + products of a quad and the s-th four factors
 *   c_store(sum, acc, i16, add)  stores the 16 sums in order of rows, or, if `add`, adds to `sum`
 *
 *   CODED_I8                     1 if i8 factors are faster than i16 factors, otherwise 0
 *   CODED_RUN                    for i8 factors: the number of c_dot of 16 factors that a c_acc can
 *                                sum before a c_store; CODED_SPANS if c_acc never overflows
 *   CODED_TILE                   queries multiplied at once, at most 8
 *   CODED_WAYS                   4 if few queries need several accumulators each, to hide the
 *                                latency of c_dot; otherwise 1
 *   CODED_DIRECT                 up to this number of queries (at most 8), codes are unpacked in
 *                                registers and never stored; 0 if never. If not 0, there are also
 *                                c_take(a), the c_load of the bytes of c_put, and c_add(a, b) of
 *                                two c_acc
 */
#ifndef TFT_TEMPLATE_CODES_ATTENTION_H
#define TFT_TEMPLATE_CODES_ATTENTION_H

#include "codes_mix.h"
#include "codes_score.h"
#include "codes_turn.h"
#include "codes_widths.h"

static void fill_codes(struct tft_kernels *k)
{
    k->score_codes = ISA(score_codes);
    k->mix_codes = ISA(mix_codes);
    k->mix_widths = ISA(mix_widths);
    k->turn_keys = ISA(turn_keys);
}

#endif
