/*
 * nanbeige: Nanbeige 4.2 3B (Nanbeige Lab 2026). The block of llama; the layers run num_loops
 * times. Each round has keys and values of its own.
 *
 *      x = embed[token]
 *      per round:
 *          x = rms(x) g_out                  after the first round, unless skip_loop_final_norm
 *          per layer:
 *              h = rms(x) g_attn
 *              q, k, v = Wq h, Wk h, Wv h    q, k rotated in neighbouring pairs
 *              x = x + Wo attend(q, K, V)
 *              h = rms(x) g_ffn
 *              x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

enum { MOST_ROUNDS = 64 };

static const struct tft_transformer nanbeige = {.rope = TFT_ROPE_PAIRS};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_load_rounds(ld, tft_load_dim(ld, "num_loops", 1, MOST_ROUNDS));
    ld->m->round_norm = !tft_load_flag(ld, "skip_loop_final_norm", false);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

/* X = rms(X) g_out */
static void norm_between(struct tft_pass *p)
{
    const struct tft_input floats = {.index = TFT_NO_INDEX, .range = TFT_RANGE_FLOAT};
    const struct tft_linear l = {.w.cols = p->m->n_embd, .in = &floats};
    tft_norm(p, &p->m->out_norm, &l);
    tft_copy(p, TFT_X, TFT_XN, &l);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    uint32_t round = p->m->n_round;
    if (round && l && l % round == 0 && p->m->round_norm)
        norm_between(p);
    tft_llama_layer(p, l);
}

const struct tft_arch tft_arch_nanbeige = {
    .name = "nanbeige",
    .load = load,
    .layer = layer,
    .transformer = &nanbeige,
};
