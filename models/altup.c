#include "models/altup.h"

#include "model/load.h"

enum { LAUREL_RANK = 64 };

void tft_altup_shape(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    uint32_t n = tft_load_dim(ld, "altup.num_inputs", 4, TFT_MAX_STREAMS);
    if (n < 2 || tft_load_count(ld, "altup.active_idx", 0, n) != 0)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "%u residual streams, of which layers compute with one but the first", n);
    m->altup = (struct tft_altup){.n = n, .rank = LAUREL_RANK};
}

void tft_altup_load(struct tft_load *ld)
{
    struct tft_altup *a = &ld->m->altup;
    uint32_t d = ld->m->n_embd;
    a->begin = tft_load_matrices(ld, "altup_proj", 0, a->n - 1, d, d);
    a->end = tft_load_matrices(ld, "altup_unembd_proj", 0, a->n - 1, d, d);
}

/* An element of the list activation_sparsity_scale. Without the list, the first ten layers leave a
   twentieth of a normal distribution. */
static float sparsity(struct tft_load *ld, unsigned layer)
{
    const char *key = "activation_sparsity_scale";
    const struct tft_value *v = tft_load_by_layer(ld, key);
    double x = layer < 10 ? 1.6448535 : 0;
    if (!v && tft_load_has(ld, key))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not a list", key);
    if (v && (!tft_value_real(v, layer, &x) || !(x < 100)))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s has an element out of range", key);
    return x > 0 ? (float)x : 0;
}

void tft_altup_load_layer(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_altup_layer *a = &tft_load_layer(ld, layer)->altup;
    uint32_t d = m->n_embd, n = m->altup.n, rank = m->altup.rank;
    a->router_norm = tft_load_norm(ld, "blk.%u.altup_router_norm", layer, d, false);
    a->router = tft_load_router(ld, "blk.%u.altup_router", layer, n);
    a->predict = tft_load_head_norms(ld, "blk.%u.altup_predict_coef", layer, n * n, n).w;
    a->correct = tft_load_head_norms(ld, "blk.%u.altup_correct_coef", layer, n, n).w;
    a->scale = tft_load_norm(ld, "blk.%u.altup_correct_scale", layer, d, false);
    a->scale.plain = true;
    a->left = tft_load_plain_linear(ld, "blk.%u.laurel_l", layer, rank, d);
    a->right = tft_load_plain_linear(ld, "blk.%u.laurel_r", layer, d, rank);
    a->norm = tft_load_norm(ld, "blk.%u.laurel_post_norm", layer, d, false);
    a->sparsity = sparsity(ld, layer);
}
