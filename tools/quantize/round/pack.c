#include "tools/quantize/round/pack.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The largest |w|, or an infinity or NaN if the row has one. Magnitudes sort like their bits as
   integers, infinity and NaN last, and compilers vectorize the maximum of integers. */
static float row_max(const float *w, size_t cols)
{
    int32_t most = 0;
    float max;
    for (size_t k = 0; k < cols; k++) {
        int32_t bits;
        memcpy(&bits, &w[k], sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    memcpy(&max, &most, sizeof max);
    return max;
}

size_t pack_max(float *max, const float *w, size_t stride, size_t rows, size_t cols)
{
    for (size_t n = 0; n < rows; n++) {
        max[n] = row_max(w + n * stride, cols);
        if (!(max[n] <= FLT_MAX)) /* NaN too */
            return n;
    }
    return rows;
}

float pack_scale(float max)
{
    return max > 0 ? fmaxf(max / 127, FLT_MIN) : 1;
}

static int8_t quantize(float w, float scale)
{
    float q = rintf(w / scale);
    return (int8_t)(q < -127 ? -127 : q > 127 ? 127 : q);
}

void pack_panel(int8_t *data, int32_t *rowsum, const float *scale, const float *w, size_t stride,
                size_t rows, size_t cols)
{
    size_t padded = tft_panel_cols(cols);
    memset(data, 0, TFT_PANEL * padded);
    memset(rowsum, 0, TFT_PANEL * sizeof *rowsum);
    for (size_t n = 0; n < rows; n++, w += stride)
        for (size_t k = 0; k < cols; k++) {
            int8_t q = quantize(w[k], scale[n]);
            data[tft_panel_at(n, k, padded)] = q;
            rowsum[n] += q;
        }
}

static void fill_with_largest(float *max, size_t n)
{
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, max[i]);
    for (size_t i = 0; i < n; i++)
        max[i] = largest;
}

size_t pack_matrix(int8_t *data, int32_t *rowsum, float *scale, const float *w, size_t stride,
                   size_t rows, size_t cols, bool same)
{
    size_t good = pack_max(scale, w, stride, rows, cols);
    if (good != rows)
        return good;
    if (same)
        fill_with_largest(scale, rows);
    for (size_t n = 0; n < tft_panel_rows(rows); n++)
        scale[n] = n < rows ? pack_scale(scale[n]) : 1;
    for (size_t n = 0; n < rows; n += TFT_PANEL) {
        size_t left = rows - n < TFT_PANEL ? rows - n : TFT_PANEL;
        pack_panel(data + n * tft_panel_cols(cols), rowsum + n, scale + n, w + n * stride, stride,
                   left, cols);
    }
    return rows;
}
