#include "quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "gguf.h"
#include "layers.h"
#include "pack.h"
#include "quantized.h"
#include "smooth.h"

struct work {
    struct tft_model *m;
    const struct quantize_opts *o;
    struct quantize_input *result;
    struct layers y;
    struct tft_gguf_writer *w;
    bool describe; /* the tensors are only named yet */
    bool stopped;
    struct tft_error bad; /* the first problem */

    struct stats *stats; /* [TFT_LAYER_INPUTS, threads] of the layer in hand; the head's are at TFT_IN_ATTN */
    float *row;          /* [threads, widest] */
    size_t widest;
    bool plain;                 /* show the statistics what comes by, untransformed */
    float *smooth[2], *ones;    /* [D] what the inputs of attention and of the FFN are divided by */
    int8_t *panel;              /* [16, widest padded] */
    float *scale;               /* [most rows padded] */
    int32_t *rowsum;
    uint16_t *prefix_k, *prefix_v; /* [n_layer, n_prefix, G, E] */
    uint64_t place[3];             /* of the inputs' arrays in the file */
};

static bool failed(const struct work *k)
{
    return k->bad.code != TFT_OK || k->stopped;
}

static uint32_t largest_block(uint32_t n, uint32_t least_blocks)
{
    uint32_t block = 256;
    while (block > 1 && (n % block || n / block < least_blocks))
        block /= 2;
    return block;
}

uint32_t quantize_head_block(const struct tft_model *m)
{
    return largest_block(m->head_dim, 1);
}

/* Several blocks, so that threads can share them. */
uint32_t quantize_down_block(const struct tft_model *m)
{
    return largest_block(m->n_ff, 8);
}

static uint32_t head_block(const struct work *k)
{
    return k->o->rotate == QUANTIZE_ROTATE_NONE ? 0 : quantize_head_block(k->m);
}

static uint32_t down_block(const struct work *k)
{
    return k->o->rotate == QUANTIZE_ROTATE_O_DOWN ? quantize_down_block(k->m) : 0;
}

/* ------------------------------------------------------------------------------------------------ watching */

static size_t input_width(const struct tft_model *m, uint32_t which)
{
    return which == TFT_IN_O ? (size_t)m->n_head * m->head_dim : which == TFT_IN_DOWN ? m->n_ff : m->n_embd;
}

/* As the quantized model's linear layer will get it. */
static void transform(const struct work *k, uint32_t which, float *x, size_t n)
{
    uint32_t block = which == TFT_IN_O ? head_block(k) : which == TFT_IN_DOWN ? down_block(k) : 0;
    if (which == TFT_IN_ATTN || which == TFT_IN_FFN) {
        const float *s = k->smooth[which == TFT_IN_FFN];
        for (size_t j = 0; j < n; j++)
            x[j] /= s[j];
    }
    if (block)
        k->m->kern.hadamard(x, n, block);
    if (which == TFT_IN_O && block)
        k->m->kern.scale(x, 1 / sqrtf((float)block), n);
}

static void watch(void *user, int tid, const struct tft_input *in, const float *rows, size_t n, size_t stride)
{
    const struct work *k = user;
    uint32_t which = in->index % TFT_LAYER_INPUTS;
    size_t width = input_width(k->m, which);
    float *x = k->row + (size_t)tid * k->widest;
    for (size_t i = 0; i < n; i++) {
        memcpy(x, rows + i * stride, width * sizeof *x);
        if (!k->plain)
            transform(k, which, x, width);
        stats_add(&k->stats[which * (size_t)k->y.s->n_threads + (size_t)tid], x, 1, width);
    }
}

static struct stats *gathered(const struct work *k, uint32_t which)
{
    struct stats *s = &k->stats[which * (size_t)k->y.s->n_threads];
    for (int i = 1; i < k->y.s->n_threads; i++) {
        stats_merge(s, &s[i]);
        stats_clear(&s[i]);
    }
    return s;
}

static void forget(const struct work *k)
{
    for (int i = 0; i < TFT_LAYER_INPUTS * k->y.s->n_threads; i++)
        stats_clear(&k->stats[i]);
}

static const char *input_name(const struct work *k, uint32_t index, char name[64])
{
    static const char *const part[] = {"attn_q", "attn_output", "ffn_up", "ffn_down"};
    if (index == k->m->n_layer * TFT_LAYER_INPUTS)
        snprintf(name, 64, "output");
    else
        snprintf(name, 64, "blk.%u.%s", index / TFT_LAYER_INPUTS, part[index % TFT_LAYER_INPUTS]);
    return name;
}

/* Scale and zero-point of an input from what was seen of it. */
static void settle(struct work *k, uint32_t index)
{
    char name[64];
    struct stats *s = gathered(k, index % TFT_LAYER_INPUTS);
    struct quantize_input *r = &k->result[index];
    if (!stats_finite(s)) {
        tft_fail(&k->bad, TFT_ERR_FORMAT, "%s: the calibration text makes the input of %s infinite or NaN", k->m->source.name,
                 input_name(k, index, name));
        return;
    }
    r->affine = stats_affine(s, k->o->method, k->o->param);
    r->error = stats_error(s, r->affine);
    stats_range(s, &r->min, &r->max);
}

/* ------------------------------------------------------------------------------------------------ folding */

static void keep_smooth(struct work *k, uint32_t which, const struct tft_linear *const *l, size_t n_l)
{
    float *s = k->smooth[which == TFT_IN_FFN];
    smooth_factors(s, gathered(k, which), l, n_l, k->o->smooth);
}

/* What q, k, v and gate, up take is divided by these: Xiao et al. 2023, eq. 4. The layer runs once more to see its inputs. */
static void choose_smooth(struct work *k, struct tft_block *b, uint32_t l)
{
    const struct tft_linear *attn[] = {&b->q, &b->k, &b->v}, *ffn[] = {&b->up, &b->gate};
    if (k->o->smooth == 0)
        return;
    k->plain = true;
    layers_run(&k->y, l, true);
    keep_smooth(k, TFT_IN_ATTN, attn, 3);
    keep_smooth(k, TFT_IN_FFN, ffn, b->gate.w.rows ? 2 : 1);
    forget(k);
    k->plain = false;
}

/* The layer's matrices in memory, changed so that they undo what happens to their inputs. */
static void fold(struct work *k, struct tft_block *b)
{
    const struct tft_model *m = k->m;
    struct tft_linear *attn[] = {&b->q, &b->k, &b->v}, *ffn[] = {&b->up, &b->gate};
    for (int i = 0; i < 3 && k->o->smooth > 0; i++)
        pack_scale_columns(mutable(&attn[i]->w), attn[i]->w.rows, attn[i]->w.cols, k->smooth[0]);
    for (int i = 0; i < 2 && k->o->smooth > 0 && ffn[i]->w.rows; i++)
        pack_scale_columns(mutable(&ffn[i]->w), ffn[i]->w.rows, ffn[i]->w.cols, k->smooth[1]);
    (void)m;
}
