#include "work.h"

#include <string.h>

/* Normalised rows: one for each token of a pass, and at least one for each thread, which may make a
   row for itself (tft_cpu_own_row). The other byte buffers have the same number of rows. */
static uint32_t byte_rows(const struct tft_work *w)
{
    return w->n_batch > (uint32_t)w->n_threads ? w->n_batch : (uint32_t)w->n_threads;
}

/* Whether a buffer has rows of floats. If all linear layers take bytes of a static range, their
   input buffers have none. Hidden activations are rows of floats for some kinds of input only. */
static bool has_floats(const struct tft_model *m, enum tft_buf b)
{
    if (b == TFT_G || b == TFT_U || b == TFT_H)
        return m->float_hidden;
    return m->float_inputs || (b != TFT_XN && b != TFT_A);
}

static size_t rows_of(const struct tft_work *w, enum tft_buf b)
{
    return b == TFT_XN  ? byte_rows(w)
           : b == TFT_H ? (size_t)w->n_batch * w->m->n_expert_used
                        : w->n_batch;
}

static bool is_used(const struct tft_model *m, enum tft_buf b)
{
    switch (b) {
    case TFT_M: return m->mixer_width;
    case TFT_Y:
        return tft_model_adds_y(m) || m->n_expert || tft_model_predicts(m) || m->encoder ||
               m->parts & TFT_BIT(TFT_PART_RWKV);
    case TFT_Z:
        return m->parts & (TFT_BIT(TFT_PART_EXPERTS_BESIDE) | TFT_BIT(TFT_PART_ALTUP) |
                           TFT_BIT(TFT_PART_RWKV)) ||
               tft_model_predicts(m);
    case TFT_J: return tft_model_predicts(m);
    case TFT_R:
    case TFT_E:
    case TFT_H: return m->n_expert;
    case TFT_P:
    case TFT_I: return m->layer_embed.n;
    case TFT_L: return m->latent.q_rank + m->altup.rank;
    case TFT_LOGITS: return false;
    default: return true;
    }
}

/* The copies of inputs that threads multiply experts by. */
static void layout_expert_inputs(struct tft_work *w, struct tft_arena *a)
{
    const struct tft_model *m = w->m;
    size_t tokens = TFT_EXPERT_TOKENS;
    struct tft_expert_inputs *all = tft_arena_take(a, (size_t)w->n_threads, sizeof *all);
    for (int i = 0; i < w->n_threads; i++) {
        struct tft_expert_inputs own = {0};
        if (m->float_inputs)
            own.x = tft_arena_take(a, tokens, tft_buf_stride(m, TFT_XN) * sizeof *own.x);
        if (m->byte_inputs || m->group_inputs)
            own.bytes = tft_arena_take(a, tokens, tft_buf_byte_stride(m, TFT_XN));
        if (m->byte_inputs && m->float_inputs)
            own.affine = tft_arena_take(a, tokens, sizeof *own.affine);
        if (all)
            all[i] = own;
    }
    w->expert_inputs = all;
}

static void layout_hidden(struct tft_work *w, struct tft_arena *a)
{
    struct tft_hidden_scratch *all = tft_arena_take(a, (size_t)w->n_threads, sizeof *all);
    for (int i = 0; i < w->n_threads; i++) {
        struct tft_hidden_scratch own;
        own.gate = tft_arena_take(a, TFT_HIDDEN_TOKENS, TFT_HIDDEN_ROWS * sizeof(float));
        own.up = tft_arena_take(a, TFT_HIDDEN_TOKENS, TFT_HIDDEN_ROWS * sizeof(float));
        if (all)
            all[i] = own;
    }
    w->hidden = all;
}

/* Rows of activations. A device has rows of its own, except the rows that go to and from it. */
static void layout_rows(struct tft_work *w, struct tft_arena *a)
{
    const struct tft_model *m = w->m;
    bool has_device = m->n_host < m->n_layer;
    for (enum tft_buf b = 0; b < TFT_N_BUF; b++) {
        bool feeds = b == TFT_XN || b == TFT_A || b == TFT_G || b == TFT_H || b == TFT_I ||
                     b == TFT_J || b == TFT_L;
        size_t rows = rows_of(w, b);
        if (!is_used(m, b) || (has_device && !m->n_host && b != TFT_X))
            continue;
        if (has_floats(m, b))
            w->buf[b] = tft_arena_take(a, rows, tft_buf_stride(m, b) * sizeof(float));
        if ((m->byte_inputs || m->group_inputs) && feeds) {
            w->bytes[b] = tft_arena_take(a, rows > byte_rows(w) ? rows : byte_rows(w),
                                         tft_buf_byte_stride(m, b));
            if (m->byte_inputs && m->float_inputs)
                w->affine[b] = tft_arena_take(a, rows, sizeof *w->affine[b]);
        }
    }
    w->embed_row = tft_arena_take(a, m->layer_embed.n ? (size_t)w->n_threads : 0,
                                  tft_buf_stride(m, TFT_P) * sizeof(float));
    if (m->n_expert) {
        tft_routes_layout(&w->routes, a, m, w->n_batch);
        layout_expert_inputs(w, a);
    }
    if (m->byte_inputs || m->group_inputs || m->n_expert)
        layout_hidden(w, a);
}

static void layout_texts(struct tft_work *w, struct tft_arena *a)
{
    struct tft_texts_work *x = &w->texts;
    size_t dim = w->m->head_dim;
    x->n_panels = tft_text_panels(w->n_batch);
    size_t tokens = (size_t)x->n_panels * TFT_KEY_PANEL;
    x->keys = tft_arena_take(a, tokens, w->m->n_head_kv * dim * sizeof *x->keys);
    x->values = tft_arena_take(a, tokens, w->m->n_head_kv * dim * sizeof *x->values);
    x->scratch = tft_arena_take(a, (size_t)w->n_threads, sizeof *x->scratch);
    for (int i = 0; i < w->n_threads; i++) {
        struct tft_attend_scratch own = {0};
        own.q = tft_arena_take(a, TFT_TILE, dim * sizeof *own.q);
        own.o = tft_arena_take(a, TFT_TILE, dim * sizeof *own.o);
        own.part = tft_arena_take(a, TFT_TILE, dim * sizeof *own.part);
        own.scores = tft_arena_take(a, TFT_TILE, TFT_SPAN * sizeof *own.scores);
        if (x->scratch)
            x->scratch[i] = own;
    }
}

struct tft_work *tft_work_layout(struct tft_arena *a, const struct tft_model *m, uint32_t n_batch,
                                 int n_threads)
{
    struct tft_work counted, *place = tft_arena_take(a, 1, sizeof *place),
                             *w = place ? place : &counted;
    *w = (struct tft_work){.m = m, .n_batch = n_batch, .n_threads = n_threads};
    layout_rows(w, a);
    size_t angles = (size_t)m->n_rot + m->n_rot_window;
    w->rope_cos = tft_arena_take(a, n_batch, angles * sizeof(float));
    w->rope_sin = tft_arena_take(a, n_batch, angles * sizeof(float));
    if (m->encoder) {
        layout_texts(w, a);
        return place;
    }
    w->candidates = tft_arena_take(a, m->n_vocab, sizeof *w->candidates);
    w->tops = tft_arena_take(a, tft_likely_layers(m->n_vocab), sizeof *w->tops);
    w->penalized = tft_arena_take(a, m->n_vocab, sizeof *w->penalized);
    return place;
}

void tft_work_open(struct tft_work *w)
{
    for (enum tft_buf b = 0; b < TFT_N_BUF && w->m->byte_inputs; b++) {
        size_t rows = b == TFT_H ? rows_of(w, b) : byte_rows(w),
               stride = tft_buf_byte_stride(w->m, b), width = tft_buf_width(w->m, b);
        for (size_t t = 0; w->bytes[b] && t < rows; t++)
            memset(w->bytes[b] + t * stride + width, 0, tft_panel_cols(width) - width);
    }
}

void tft_attend_work_layout(struct tft_attend_work *w, struct tft_arena *a,
                            const struct tft_model *m, const struct tft_kv *kv, int n_threads)
{
    bool quantizes = tft_kv_quantizes(&kv->policy), split = tft_kv_split(&kv->policy) && kv->n_host,
         i8 = kv->policy.i8, fisher = tft_kv_is_fisher(&kv->policy);
    size_t dim = kv->head_dim,
           key_scales = quantizes ? 2 * tft_kv_scales(kv, &kv->policy.k, kv->head_dim) : 0,
           value_scales =
               quantizes ? TFT_SPAN / kv->block * 2 * tft_kv_scales(kv, &kv->policy.v, kv->head_dim)
                         : 0;
    struct tft_attend_scratch *scratch = tft_arena_take(a, (size_t)n_threads, sizeof *scratch);
    for (int i = 0; i < n_threads; i++) {
        struct tft_attend_scratch own;
        own.q = tft_arena_take(a, TFT_TILE, dim * sizeof(float));
        own.o = tft_arena_take(a, TFT_TILE, dim * sizeof(float));
        own.part = tft_arena_take(a, TFT_TILE, dim * sizeof(float));
        own.scores = tft_arena_take(a, TFT_TILE, TFT_SPAN * sizeof(float));
        own.all_scores = split ? tft_arena_take(a, TFT_TILE, kv->max_tokens * sizeof(float)) : NULL;
        own.bytes = tft_arena_take(a, i8 ? TFT_TILE : 0, tft_panel_cols(dim));
        own.weights = tft_arena_take(a, i8 ? TFT_TILE : 0, TFT_SPAN);
        own.affine = tft_arena_take(a, i8 ? 2 * TFT_TILE : 0, sizeof *own.affine);
        own.lacking = tft_arena_take(a, i8 ? TFT_TILE : 0, sizeof *own.lacking);
        own.ordered_q = tft_arena_take(a, quantizes ? TFT_TILE : 0, dim * sizeof(float));
        own.key_scales = tft_arena_take(a, key_scales, sizeof(float));
        own.value_scales = tft_arena_take(a, value_scales, sizeof(float));
        own.turned_q = tft_arena_take(a, fisher ? TFT_TILE : 0, dim * sizeof(float));
        own.turned_means = tft_arena_take(a, fisher ? kv->block : 0, dim * sizeof(float));
        own.turned_keys = tft_arena_take(a, fisher ? kv->block : 0, dim * sizeof(float));
        own.exact_keys = tft_arena_take(a, fisher ? TFT_KEY_PANEL : 0, dim * sizeof(uint16_t));
        own.exact_scores = tft_arena_take(a, fisher ? TFT_TILE : 0, TFT_KEY_PANEL * sizeof(float));
        own.coded_o = tft_arena_take(a, fisher ? TFT_TILE : 0,
                                     tft_kv_padded_dim(kv->head_dim) * sizeof(float));
        if (scratch)
            scratch[i] = own;
    }
    w->scratch = scratch;

    size_t parts = (size_t)m->n_head *
                   (tft_spans(kv->most_slots) + tft_spans(kv->n_blocks * kv->block));
    w->part_o = tft_arena_take(a, parts, m->head_dim * sizeof(float));
    w->part_max = tft_arena_take(a, parts, sizeof(float));
    w->part_sum = tft_arena_take(a, parts, sizeof(float));
    w->all_scores = split ? tft_arena_take(a, m->n_head, kv->max_tokens * sizeof(float)) : NULL;
}
