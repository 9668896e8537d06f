/*
 * bert: BERT, and with it MiniLM, bge, gte, e5, arctic-embed, mxbai; RoBERTa and XLM-R (Conneau et
 * al. 2020, arXiv 1911.02116): bge-m3, multilingual-e5; DistilBERT, without types of tokens. The
 * formula is that of encoder.h. A reranker of this kind has a classifier after tanh (pooled.h).
 */
#include "model/load.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer bert = {
    .layer_norm = true,
    .no_gate = true,
    .no_out_norm = true,
    .block = tft_encoder_post_norms,
};

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_encoder_load(ld);
    m->pos_embed = tft_load_table(ld, "position_embd.weight", m->n_ctx, m->n_embd);
}

const struct tft_arch tft_arch_bert = {
    .name = "bert",
    .parts = TFT_BIT(TFT_PART_ENCODER) | TFT_BIT(TFT_PART_NO_PRE_NORM),
    .load = load,
    .layer = tft_encoder_layer,
    .transformer = &bert,
};
