#include "tools/quantize/round/keep_codes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "port/port.h"
#include "simd/half.h"
#include "tools/quantize/round/pack_low.h"

enum {
    BLOCK = 32,
    BYTES = 2 + BLOCK / 2, /* d, then nibbles: the first half of the codes in the low ones */
    TRIALS = 96            /* scales of a row */
};

/* The most that the squared error may be, as a part of the squared weights. Rounding to 4 bits
   again would cost about a hundredth. */
static const double most_error = 1.0 / 400;

static int code_at(const unsigned char *block, size_t k)
{
    return k < BLOCK / 2 ? block[2 + k] & 15 : block[2 + k - BLOCK / 2] >> 4;
}

static float step_of(const unsigned char *block) { return tft_f16_to_f32(tft_load_u16(block)); }

/* ---------------------------------------------------------------------------------------- a row */

/* Copies the codes of a row, and the zeros of its groups. step: [groups] gets |d|, size: [groups]
   the squares of the codes. False if the blocks are not w's numbers, or differ within a group. */
static bool copy_row(struct low_bits *q, size_t row, const unsigned char *block, const float *w,
                     float *step, float *size)
{
    uint8_t *code = q->code + row * q->cols, *factors = q->factors + row * q->groups;
    for (size_t k = 0; k < q->cols; k += BLOCK, block += BYTES) {
        float d = step_of(block);
        size_t g = k / q->group;
        bool turned = d < 0;
        int zero = turned ? 7 : 8;
        if (k % q->group == 0) {
            step[g] = fabsf(d);
            size[g] = 0;
            factors[g] = pack_low_factors(1, zero);
        }
        if (step[g] != fabsf(d) || pack_low_zero(factors[g]) != zero)
            return false;
        for (size_t i = 0; i < BLOCK; i++) {
            int c = code_at(block, i), from_zero = c - 8;
            if (w[k + i] != d * (float)from_zero)
                return false;
            code[k + i] = (uint8_t)(d == 0 ? zero : turned ? 15 - c : c);
            size[g] += (float)(from_zero * from_zero);
        }
    }
    return true;
}

/* s for |d|. */
static float multiple_of(float step, double scale)
{
    return (float)fmin(fmax(rint((double)step / scale), 1), LOW_BITS_SCALE);
}

/* The sum of squared errors of the row's weights. */
static double error_of(const float *step, const float *size, size_t n, double scale)
{
    double sum = 0;
    for (size_t g = 0; g < n; g++) {
        double e = (double)step[g] - scale * (double)multiple_of(step[g], scale);
        sum += step[g] > 0 ? (double)size[g] * e * e : 0;
    }
    return sum;
}

/* The best scale for the multiples that `scale` gives. */
static double refined(const float *step, const float *size, size_t n, double scale)
{
    double product = 0, square = 0;
    for (size_t g = 0; g < n; g++) {
        double s = (double)multiple_of(step[g], scale), weight = step[g] > 0 ? (double)size[g] : 0;
        product += weight * s * (double)step[g];
        square += weight * s * s;
    }
    return square > 0 ? product / square : scale;
}

/* The scale with the least error. The largest |d| has a multiple of 8 to 15: smaller ones would
   only make others coarser. */
static double choose_scale(const float *step, const float *size, size_t n)
{
    double largest = 0, best = 1, least = INFINITY;
    for (size_t g = 0; g < n; g++)
        largest = fmax(largest, (double)step[g]);
    for (int i = 0; largest > 0 && i < TRIALS; i++) {
        double scale = largest / (15.45 - 7.95 * i / TRIALS);
        for (int again = 0; again < 2; again++)
            scale = refined(step, size, n, scale);
        double error = error_of(step, size, n, scale);
        if (error < least) {
            least = error;
            best = scale;
        }
    }
    return best;
}

/* ------------------------------------------------------------------------------------- a matrix */

struct keep_task {
    struct low_bits *q;
    const struct tft_mat *from;
    const float *w;
    float *step, *size;           /* [threads, groups] */
    double *error, *all;          /* [rows] squared errors, and squared weights */
    bool other[TFT_PORT_THREADS]; /* the thread found a row that cannot be kept */
};

static const unsigned char *blocks_of(const struct tft_mat *all, size_t row)
{
    struct tft_mat w = tft_mat_expert(all, (uint32_t)(row / all->rows));
    return w.tensor->data + (w.first + row % w.rows) * (w.cols / BLOCK * BYTES);
}

static void keep_row(const struct keep_task *task, size_t row, const float *step, const float *size)
{
    struct low_bits *q = task->q;
    float scale = fmaxf((float)choose_scale(step, size, q->groups), FLT_MIN);
    uint8_t *factors = q->factors + row * q->groups;
    q->row_scale[row] = scale;
    task->error[row] = error_of(step, size, q->groups, (double)scale);
    task->all[row] = 0;
    for (size_t g = 0; g < q->groups; g++) {
        factors[g] =
            pack_low_factors((int)multiple_of(step[g], (double)scale), pack_low_zero(factors[g]));
        task->all[row] += (double)size[g] * (double)step[g] * (double)step[g];
    }
}

static void keep_rows(void *arg, int tid, int n_threads)
{
    struct keep_task *task = arg;
    const struct low_bits *q = task->q;
    float *step = task->step + (size_t)tid * q->groups,
          *size = task->size + (size_t)tid * q->groups;
    for (size_t row = (size_t)tid; row < q->rows && !task->other[tid]; row += (size_t)n_threads)
        if (copy_row(task->q, row, blocks_of(task->from, row), task->w + row * q->cols, step, size))
            keep_row(task, row, step, size);
        else
            task->other[tid] = true;
}

/* Whether all rows are kept, with little error. */
static bool is_kept(const struct keep_task *task, int n_threads)
{
    double error = 0, all = 0;
    for (int i = 0; i < n_threads; i++)
        if (task->other[i])
            return false;
    for (size_t row = 0; row < task->q->rows; row++) {
        error += task->error[row];
        all += task->all[row];
    }
    return error <= most_error * all;
}

bool keep_codes(struct low_bits *q, const struct tft_mat *from, const float *w, int n_threads)
{
    struct keep_task task = {.q = q, .from = from, .w = w};
    size_t threads = (size_t)n_threads;
    if (q->bits != 4 || q->group % BLOCK || !from->tensor || from->tensor->type != TFT_Q4_0 ||
        from->factor != 0)
        return false;
    task.step = calloc(threads * q->groups, sizeof *task.step);
    task.size = calloc(threads * q->groups, sizeof *task.size);
    task.error = calloc(q->rows, sizeof *task.error);
    task.all = calloc(q->rows, sizeof *task.all);
    bool room = task.step && task.size && task.error && task.all;
    if (room)
        tft_port_team(n_threads, keep_rows, &task);
    bool kept = room && is_kept(&task, n_threads);
    free(task.step);
    free(task.size);
    free(task.error);
    free(task.all);
    return kept;
}
