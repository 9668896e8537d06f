/*
 * A slice of the channels of a convolution over time (tft_conv of kernels.h): first the rows of the
 * last tokens, from the state, then the rows of the pass. One thread takes a slice through all
 * tokens:
 *
 *      tft_slice_open
 *      for each token:     write its numbers to tft_slice_newest; tft_slice_conv; tft_slice_next
 *      tft_slice_close
 */
#ifndef TFT_CPU_CONV_H
#define TFT_CPU_CONV_H

#include "base/exp_log.h"
#include "cpu.h"

enum { TFT_SLICE = 128 }; /* channels, at most */

struct tft_slice {
    const struct tft_taps *taps;
    float *state;   /* of the layer: [taps - 1, channels], the oldest token first */
    size_t from, n; /* channels */
    float *x[TFT_CONV_TAPS]; /* [taps] the last tokens, the newest last; in `room` */
    float room[TFT_CONV_TAPS][TFT_SLICE];
};

void tft_slice_open(struct tft_slice *s, const struct tft_taps *taps, float *state, size_t from,
                    size_t n);
void tft_slice_conv(const struct tft_slice *s, const struct tft_kernels *kern, float *y, bool silu);
void tft_slice_next(struct tft_slice *s);
void tft_slice_close(const struct tft_slice *s);

static inline float *tft_slice_newest(const struct tft_slice *s)
{
    return s->x[s->taps->n - 1];
}

/* The convolution of M's columns [at, at + channels), then SiLU, in place. */
void tft_cpu_silu_conv(struct tft_pass *p, const struct tft_layer *b, size_t at);

/* The same of channels [from, from + n) and tokens [begin, end), in this thread. */
void tft_cpu_silu_tokens(const struct tft_pass *p, const struct tft_layer *b, size_t at,
                         size_t from, size_t n, uint32_t begin, uint32_t end);

/* ln(1 + exp(x)) */
static inline double tft_cpu_softplus(double x) { return x > 30 ? x : tft_log(1 + tft_exp(x)); }

/* The state of the block's layer. */
float *tft_cpu_state(const struct tft_pass *p, const struct tft_layer *b);

#endif
