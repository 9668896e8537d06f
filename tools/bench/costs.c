#include "costs.h"

#include <math.h>
#include <string.h>

#include "inside.h"
#include "tools/cli/cli.h"

/* The number of layers up to the last one with keys and values of its own. */
static uint32_t layers_with_kv(const struct tft_model *m) { return m->n_layer - m->n_shared; }

static double macs(const struct tft_linear *l) { return (double)l->w.rows * l->w.cols; }

/* Multiply-adds of a token in a layer whose output for it nothing needs: of keys and values, or of
   the matrices that its mixer's input is multiplied by. */
static double mixed_macs(const struct tft_model *m, const struct tft_layer *b)
{
    double n = 0;
    if (b->latent.k_b.rows)
        return macs(&b->k);
    if (b->mixer == TFT_MIX_ATTENTION)
        return 2.0 * b->kv.n * b->kv.dim * m->n_embd;
    for (uint32_t i = 0; i < tft_layer_reads(b); i++)
        n += macs(&b->reads[i]);
    return n;
}

/* Multiply-adds of n tokens in matrix products. In a prompt, all tokens but the last one skip the
   head and the layers that share keys and values. In the last layer before these, they only go
   through its mixer. */
static double product_macs(const struct tft_model *m, bool decode, double n)
{
    uint32_t own = layers_with_kv(m);
    double head = (double)m->n_vocab * m->n_embd, shared = 0,
           kv = mixed_macs(m, &m->layer[own - 1]);
    for (uint32_t l = own; l < m->n_layer; l++) {
        const struct tft_layer *b = &m->layer[l];
        shared += macs(&b->q) + macs(&b->o) + macs(&b->gate) + macs(&b->up) + macs(&b->down) +
                  macs(&b->embed_gate) + macs(&b->embed_out);
    }
    double layer = ((double)m->matmul_macs - head - shared) / own;
    double through = decode ? n : 1; /* tokens that skip nothing */
    return n * ((own - 1) * layer + kv) + through * (layer - kv + shared + head);
}

/* How many of `depth` positions the attention of a layer sees. */
static double seen_by(const struct tft_layer *b, double depth)
{
    return b->window && b->window < depth ? b->window : depth;
}

/* Multiply-adds of n tokens in the attention of layers with a window, or of layers without. On
   average, a token has `depth` positions before it. */
static double attention_macs(const struct tft_model *m, bool window, bool decode, double n,
                             double depth)
{
    double numbers = 0;
    for (uint32_t l = 0; l < m->n_layer; l++)
        if (m->layer[l].mixer == TFT_MIX_ATTENTION && window == (m->layer[l].window > 0))
            numbers += (l + 1 < layers_with_kv(m) || decode ? n : 1) * m->layer[l].kv.dim *
                       seen_by(&m->layer[l], depth);
    return 2.0 * m->n_head * numbers;
}

/* Bytes of the cache that a token reads at `depth`: all positions in layers without a window, in
   the cache's form; the positions in the window, in floats; and a shared cache once for each layer
   that uses it. */
static double cache_bytes(const struct tft_model *m, const char *kv, double depth)
{
    double bytes = (double)tft_kv_bytes(m, cli_session_options.kv, NULL) * depth,
           size = strcmp(kv, "f32") ? 2 : 4;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_layer *b = &m->layer[l];
        if (b->mixer == TFT_MIX_ATTENTION && (b->window || l >= layers_with_kv(m)))
            bytes += 2.0 * b->kv.n * b->kv.dim * size * seen_by(b, depth);
    }
    return bytes;
}

/* Bytes of experts that n tokens read in one pass beyond the bytes that one token reads: as many
   experts as n tokens choose, on average, if each expert is as likely as any other. */
static double more_experts(const struct tft_model *m, double n)
{
    double one = 0, all = m->n_expert, used = m->n_expert_used;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_experts *x = &m->layer[l].experts;
        const struct tft_linear *mats[] = {&x->gate, &x->up, &x->down};
        for (int i = 0; i < 3 && x->router.rows; i++)
            one += (double)mats[i]->w.format->bytes(&mats[i]->w);
    }
    return m->n_expert ? (all * (1 - pow(1 - used / all, n)) - used) * one : 0;
}

const char *costs_kv(const struct tft_model *m)
{
    return cli_session_options.kv ? cli_session_options.kv : tft_model_kv(m);
}

struct costs costs_of(const struct tft_model *m, const struct work *w)
{
    bool decode = w->decode;
    double n = w->n, sessions = w->sessions, depth = w->depth + (w->n + 1) / 2.0 + m->n_prefix;
    return (struct costs){
        .bytes = (decode ? n : 1) *
                 ((double)m->weight_bytes + sessions * cache_bytes(m, costs_kv(m), depth) +
                  more_experts(m, decode ? sessions : n)),
        .products = 2 * sessions * product_macs(m, decode, n),
        .whole = 2 * sessions * attention_macs(m, false, decode, n, depth),
        .windows = 2 * sessions * attention_macs(m, true, decode, n, depth),
    };
}

struct limits costs_device(const struct tft_model *m)
{
    const struct tft_stage *last = &m->stage[m->n_stage - 1];
    struct limits l, unknown = {NAN, NAN, NAN};
    last->backend->limits(last->device, &l.read_gbps, &l.int8_gops, &l.fma_gflops);
    return m->n_host || isnan(l.read_gbps + l.int8_gops + l.fma_gflops) ? unknown : l;
}
