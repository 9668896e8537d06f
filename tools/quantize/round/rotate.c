#include "tools/quantize/round/rotate.h"

#include <math.h>

size_t rotate_block(size_t n)
{
    size_t block = 1;
    while (block < ROTATE_MAX && n % (2 * block) == 0)
        block *= 2;
    return block;
}

/* x: [n] floats, `step` apart. x = H x * factor */
static void transform(float *x, size_t step, size_t n, double factor)
{
    double t[ROTATE_MAX];
    for (size_t i = 0; i < n; i++)
        t[i] = x[i * step];
    for (size_t h = 1; h < n; h *= 2)
        for (size_t i = 0; i < n; i++)
            if (!(i & h)) {
                double a = t[i], b = t[i + h];
                t[i] = a + b;
                t[i + h] = a - b;
            }
    for (size_t i = 0; i < n; i++)
        x[i * step] = (float)(t[i] * factor);
}

static void columns(float *w, size_t stride, size_t rows, size_t cols, size_t block, double factor)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j += block)
            transform(w + i * stride + j, 1, block, factor);
}

void rotate_columns_online(float *w, size_t stride, size_t rows, size_t cols, size_t block)
{
    columns(w, stride, rows, cols, block, 1.0 / (double)block);
}

void rotate_columns(float *w, size_t stride, size_t rows, size_t cols, size_t block)
{
    columns(w, stride, rows, cols, block, 1 / sqrt((double)block));
}

void rotate_rows(float *w, size_t stride, size_t rows, size_t cols, size_t block)
{
    for (size_t i = 0; i < rows; i += block)
        for (size_t j = 0; j < cols; j++)
            transform(w + i * stride + j, stride, block, 1 / sqrt((double)block));
}
