#include "models/encoder.h"

#include "model/load.h"
#include "models/layers.h"
#include "models/pooled.h"
#include "models/transformer.h"

void tft_encoder_gelu(struct tft_load *ld)
{
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_GELU);
    struct tft_str form = {0};
    ld->m->gelu_erf = v && tft_value_str(v, &form) && tft_str_is(form, "erf");
    if (v && !ld->m->gelu_erf && !tft_str_is(form, "tanh"))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "%s is neither erf nor tanh", TFT_KEY_GELU);
}

/* A type of a token is a byte. */
static struct tft_mat load_types(struct tft_load *ld)
{
    const char *name = "token_types.weight";
    const struct tft_tensor *t = tft_source_tensor(ld->s, name);
    if (!t)
        return (struct tft_mat){0};
    if (t->ne[1] < 1 || t->ne[1] > UINT8_MAX)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "the tensor %s has %llu rows: not 1 to %d", name,
                      (unsigned long long)t->ne[1], UINT8_MAX);
    return tft_load_table(ld, name, (uint32_t)t->ne[1], ld->m->n_embd);
}

void tft_encoder_embedding(struct tft_load *ld, bool bias)
{
    struct tft_model *m = ld->m;
    m->type_embed = load_types(ld);
    m->token_norm = tft_load_norm(ld, "token_embd_norm", 0, m->n_embd, bias);
    if (!bias)
        m->token_norm.b = tft_load_equal(ld, m->n_embd, 0);
    tft_encoder_gelu(ld);
}

void tft_encoder_post_norms(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = ld->m->n_embd;
    b->attn_post_norm = tft_load_norm(ld, "blk.%u.attn_output_norm", layer, d, true);
    b->ffn_post_norm = tft_load_norm(ld, "blk.%u.layer_output_norm", layer, d, true);
}

void tft_encoder_load(struct tft_load *ld)
{
    tft_transformer_load(ld);
    tft_encoder_embedding(ld, true);
    tft_pooled_load(ld, (struct tft_pooled){.from = TFT_POOLING_CLS});
}

static void feed_forward(struct tft_pass *p, const struct tft_layer *b)
{
    tft_take(p, &b->up);
    if (b->gate.w.rows)
        tft_gated(p, b, TFT_SILU);
    else
        tft_plain(p, b, tft_encoder_activation(p->m));
    tft_residual_then_norm(p, &b->down, TFT_G, &b->ffn_post_norm);
}

void tft_encoder_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_take(p, &b->q);
    tft_qkv(p, b);
    if (p->m->n_rot)
        tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_then_norm(p, &b->o, TFT_A, &b->attn_post_norm);

    if (tft_layer_has_experts(b))
        tft_mixture_then_norm(p, b, tft_encoder_activation(p->m), &b->ffn_post_norm);
    else
        feed_forward(p, b);
}
