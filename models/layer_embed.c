#include "models/layer_embed.h"

#include "model/load.h"
#include "run/ops.h"

void tft_layer_embed_shape(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    uint32_t most = INT32_MAX / m->n_layer;
    uint32_t n = tft_load_count(ld, "embedding_length_per_layer_input", 0, most);
    m->layer_embed = (struct tft_layer_embed){.n = n};
}

void tft_layer_embed_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    struct tft_layer_embed *e = &m->layer_embed;
    uint32_t all = m->n_layer * e->n;
    if (!e->n)
        return;
    e->embed = tft_load_rows(ld, "per_layer_token_embd.weight", m->n_vocab, all);
    e->w = tft_load_plain_linear(ld, "per_layer_model_proj", 0, all, m->n_embd);
    e->norm = tft_load_norm(ld, "per_layer_proj_norm", 0, e->n, false);
}

void tft_layer_embed_load_layer(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t n = m->layer_embed.n;
    if (!n)
        return;
    b->embed_gate = tft_load_plain_linear(ld, "blk.%u.inp_gate", layer, n, m->n_embd);
    b->embed_out = tft_load_plain_linear(ld, "blk.%u.proj", layer, m->n_embd, n);
    b->embed_norm = tft_load_norm(ld, "blk.%u.post_norm", layer, m->n_embd, false);
}

void tft_layer_embed_begin(struct tft_pass *p)
{
    tft_take(p, &p->m->layer_embed.w);
    tft_layer_embed(p);
}

void tft_layer_embed_add(struct tft_pass *p, uint32_t layer, const float *scale)
{
    const struct tft_layer *b = &p->m->layer[layer];
    tft_take(p, &b->embed_gate);
    tft_embed_gate(p, layer);
    tft_linear_y(p, &b->embed_out, TFT_I);
    tft_add_y(p, &b->embed_norm, scale);
}
