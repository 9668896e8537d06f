/* The ranges of a W8A8 file, restated from the inputs of a session of the float model. Include it
   after test.h and after the #define that folder.h wants. */
#ifndef TFT_TEST_RANGES_H
#define TFT_TEST_RANGES_H

#include "w8a8.h"

/* The numbers at the inputs of a float model: rows, the least and the largest number. Hidden
   activations are transformed first, in blocks of `block` numbers; 1: they are not. */
struct input_ranges {
    uint32_t n_layer, block;
    size_t rows[MOST_INPUTS];
    float min[MOST_INPUTS], max[MOST_INPUTS];
};

/* Number k of a row after the Hadamard transform. Its matrix has -1 where i and k have an odd
   number of bits in common. */
static inline float transformed(const float *row, uint32_t k, uint32_t block)
{
    double sum = 0;
    for (uint32_t i = 0; i < block; i++) {
        uint32_t common = i & k % block, odd = 0;
        for (; common; common &= common - 1)
            odd ^= 1;
        sum += odd ? -(double)row[k / block * block + i] : (double)row[k / block * block + i];
    }
    return (float)sum;
}

static inline void see_range(void *user, int tid, const struct tft_input *in, size_t first,
                             size_t n, const float *rows, size_t stride)
{
    struct input_ranges *seen = user;
    uint32_t head = seen->n_layer * TFT_LAYER_INPUTS;
    bool of_shared = in->index > head && in->index <= head + seen->n_layer,
         hidden = of_shared || (in->index < head && in->index % 4 == TFT_IN_DOWN);
    (void)tid;
    (void)first;
    if (in->index == TFT_NO_INDEX)
        return;
    seen->rows[in->index] += n;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < in->width; k++) {
            float x = transformed(rows + i * stride, k, hidden ? seen->block : 1);
            seen->min[in->index] = fminf(seen->min[in->index], x);
            seen->max[in->index] = fmaxf(seen->max[in->index], x);
        }
}

/* Runs n_prefix tokens of the prefix, and after them the windows of the calibration text. */
static inline void see_text(const struct tft_model *m, uint32_t n_prefix, struct input_ranges *seen)
{
    for (int i = 0; i < TEXT / WINDOW; i++) {
        struct tft_session *s = session(
            m, (struct tft_session_opts){.n_threads = 1, .n_logits = WINDOW, .kv = "f16"});
        if (n_prefix)
            assert_int_equal(tft_prefill(s, prefix, n_prefix), TFT_OK);
        s->work->tap = (struct tft_tap){see_range, seen};
        assert_int_equal(tft_prefill(s, text + i * WINDOW, WINDOW), TFT_OK);
        tft_session_close(s);
    }
}

/* The range of input `which` of layer l is the range of the numbers seen there. That of attention's
   output is not compared if its heads are rotated. */
static inline void has_range(const struct tft_model *q, const struct input_ranges *seen,
                             uint32_t l, uint32_t which)
{
    const struct tft_input *got = &q->layer[l].in[which];
    uint32_t in = tft_input_index(q, l, which);
    double range = (double)seen->max[in] - (double)seen->min[in];
    assert_int_equal(got->index, in);
    assert_true(got->affine.scale == result[in].affine.scale);
    if (!(which == TFT_IN_O && seen->block > 1))
        assert_true(fabs((double)got->affine.scale - (seen->rows[in] ? range / 255 : 1)) < 1e-6);
}

#endif
