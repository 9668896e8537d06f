#include "models/predictor.h"

#include "model/keys.h"
#include "model/load.h"
#include "models/transformer.h"

/* An embedding and a head of its own. */
static bool has_own_tables(const struct tft_load *ld, unsigned layer)
{
    return tft_load_has_linear(ld, "blk.%u.nextn.embed_tokens", layer) ||
           tft_load_has_linear(ld, "blk.%u.nextn.shared_head_head", layer);
}

static void refuse(struct tft_load *ld, unsigned layer)
{
    if (layer >= ld->n_block || !tft_load_has_linear(ld, "blk.%u.nextn.eh_proj", layer))
        tft_load_fail(ld, TFT_ERR_ARG, "there is no block that predicts further tokens in it");
    if (tft_source_value(ld->s, TFT_KEY_PREFIX_TOKENS) ||
        tft_source_value(ld->s, TFT_KEY_PREFIX_NAMES))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "a block that predicts further tokens has no part in the file's prefix: make "
                      "the file with --intact none");
    if (has_own_tables(ld, layer))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "a block that predicts further tokens with an embedding or a head of its own "
                      "is not supported");
}

void tft_predictor_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    struct tft_predictor *r = &m->predictor;
    unsigned layer = m->n_layer;
    uint32_t d = m->n_embd;
    uint64_t before = m->weight_bytes;
    bool w8a8 = ld->w8a8;
    if (!ld->predictor)
        return;
    refuse(ld, layer);
    if (ld->status != TFT_OK)
        return;
    ld->w8a8 = false; /* tuffet quantize copies the block */
    tft_transformer_block(ld, layer);
    r->proj = tft_load_linear(ld, "blk.%u.nextn.eh_proj", layer, d, 2 * d, false);
    r->embed = tft_load_norm(ld, "blk.%u.nextn.enorm", layer, d, false);
    r->hidden = tft_load_norm(ld, "blk.%u.nextn.hnorm", layer, d, false);
    r->out = tft_load_has_norm(ld, "blk.%u.nextn.shared_head_norm", layer)
                 ? tft_load_norm(ld, "blk.%u.nextn.shared_head_norm", layer, d, false)
                 : m->out_norm;
    tft_load_state(ld, tft_load_layer(ld, layer), d);
    ld->w8a8 = w8a8;
    m->parts |= TFT_BIT(TFT_PART_PREDICTOR);
    if (ld->status == TFT_OK)
        r->bytes = m->weight_bytes - before + m->output.w.format->bytes(&m->output.w);
}
