#include "model/parts.h"

#include <math.h>

/* A part has one of two predicates, or none: then the architecture's formula has it, whatever the
   file says (tft_arch.parts). */
struct row {
    const char *name; /* as in "cuda does not compute NAME" */
    bool (*of_model)(const struct tft_model *m);
    bool (*of_block)(const struct tft_model *m, const struct tft_layer *b);
};

static bool relu2(const struct tft_model *m) { return m->relu2; }
static bool embed_scale(const struct tft_model *m) { return m->embed_scale != 1; }
static bool residual_scale(const struct tft_model *m) { return m->residual_scale != 1; }
static bool logit_scale(const struct tft_model *m) { return m->logit_scale != 1; }
static bool parallel(const struct tft_model *m) { return m->parallel; }
static bool rope_amplitude(const struct tft_model *m) { return m->n_rot && m->rope_amplitude != 1; }
static bool rope_by_context(const struct tft_model *m) { return m->rope_original_ctx; }
static bool score_cap(const struct tft_model *m) { return m->score_cap > 0; }
static bool logit_cap(const struct tft_model *m) { return m->logit_cap > 0; }
static bool query_scale(const struct tft_model *m) { return m->query_growth > 0; }
static bool experts(const struct tft_model *m) { return m->n_expert; }
static bool shared_kv(const struct tft_model *m) { return m->n_shared; }
static bool layer_embed(const struct tft_model *m) { return m->layer_embed.n; }

static bool attn_scale(const struct tft_model *m)
{
    return m->attn_scale != 1.0f / sqrtf((float)m->head_dim);
}

static bool bounded_qkv(const struct tft_model *m) { return m->qkv_bound > 0; }

static bool sinks(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return b->mixer == TFT_MIX_ATTENTION && b->has_sinks;
}

static bool own_qk_norm(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return b->mixer == TFT_MIX_ATTENTION && b->own_norms;
}

static bool window(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return b->mixer == TFT_MIX_ATTENTION && b->window;
}

static bool short_conv(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return b->mixer == TFT_MIX_SHORT_CONV;
}

static bool delta_net(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return b->mixer == TFT_MIX_DELTA_NET;
}

static bool mamba(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return tft_layer_has_mamba(b);
}

static bool weight_factor(const struct tft_model *m, const struct tft_layer *b)
{
    const struct tft_linear *after[] = {&b->o, &b->gate, &b->up, &b->down};
    bool has = false;
    (void)m;
    for (uint32_t i = 0; i < tft_layer_reads(b); i++)
        has |= b->reads[i].w.factor != 0;
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        has |= after[i]->w.factor != 0;
    return has;
}

/* A block with experts alone as feed-forward has no rows of `up`. Shared experts may be narrower
   than dense layers. */
static bool layer_sizes(const struct tft_model *m, const struct tft_layer *b)
{
    bool heads =
        b->mixer == TFT_MIX_ATTENTION && (b->kv.n != m->n_head_kv || b->kv.dim != m->head_dim);
    bool mixed = m->n_ff_dense && m->n_ff_shared;
    return heads || (b->up.w.rows && b->up.w.rows != m->n_ff && !mixed);
}

static bool experts_beside(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return tft_layer_has_experts_beside(b);
}

static bool rounds(const struct tft_model *m) { return m->n_round; }

static bool latent_experts(const struct tft_model *m, const struct tft_layer *b)
{
    (void)m;
    return tft_layer_has_latent_experts(b);
}

static const struct row rows[] = {
    [TFT_PART_GEGLU] = {.name = "GEGLU"},
    [TFT_PART_EMBED_SCALE] = {.name = "scaled embeddings", .of_model = embed_scale},
    [TFT_PART_RESIDUAL_SCALE] = {.name = "a scaled residual stream", .of_model = residual_scale},
    [TFT_PART_LOGIT_SCALE] = {.name = "scaled logits", .of_model = logit_scale},
    [TFT_PART_ATTN_SCALE] = {.name = "a scale of attention other than 1 / sqrt(head size)",
                              .of_model = attn_scale},
    [TFT_PART_NO_PRE_NORM] = {.name = "blocks without norms before them"},
    [TFT_PART_POST_NORM] = {.name = "norms after attention and feed-forward"},
    [TFT_PART_WHOLE_QK_NORM] = {.name = "a norm over all heads of queries and keys"},
    [TFT_PART_LATE_QK_NORM] = {.name = "norms of queries and keys after RoPE"},
    [TFT_PART_OWN_QK_NORM] = {.name = "a LayerNorm of each head of queries and keys",
                               .of_block = own_qk_norm},
    [TFT_PART_PARALLEL] = {.name = "attention and feed-forward side by side",
                            .of_model = parallel},
    [TFT_PART_ROPE_LAYERS] = {.name = "layers without RoPE"},
    [TFT_PART_ROPE_AMPLITUDE] = {.name = "RoPE with an amplitude", .of_model = rope_amplitude},
    [TFT_PART_ROPE_BY_CONTEXT] = {.name = "RoPE that depends on the length of the session",
                                   .of_model = rope_by_context},
    [TFT_PART_SCORE_CAP] = {.name = "soft caps of scores", .of_model = score_cap},
    [TFT_PART_LOGIT_CAP] = {.name = "soft caps of logits", .of_model = logit_cap},
    [TFT_PART_WINDOW] = {.name = "layers with a sliding window", .of_block = window},
    [TFT_PART_QUERY_SCALE] = {.name = "queries scaled by their positions",
                               .of_model = query_scale},
    [TFT_PART_SHORT_CONV] = {.name = "layers with a short convolution", .of_block = short_conv},
    [TFT_PART_DELTA_NET] = {.name = "layers with a delta net", .of_block = delta_net},
    [TFT_PART_OUTPUT_GATE] = {.name = "gates on attention's output"},
    [TFT_PART_EXPERTS] = {.name = "mixtures of experts", .of_model = experts},
    [TFT_PART_SUB_NORM] = {.name = "norms within attention and feed-forward"},
    [TFT_PART_RELU2] = {.name = "gates of squared ReLU", .of_model = relu2},
    [TFT_PART_WEIGHT_FACTOR] = {.name = "factors of weight matrices", .of_block = weight_factor},
    [TFT_PART_VALUE_NORM] = {.name = "norms of values"},
    [TFT_PART_SHARED_KV] = {.name = "layers that share keys and values", .of_model = shared_kv},
    [TFT_PART_LAYER_SIZES] = {.name = "layers of several sizes", .of_block = layer_sizes},
    [TFT_PART_LAYER_EMBED] = {.name = "embeddings for each layer", .of_model = layer_embed},
    [TFT_PART_EXPERTS_BESIDE] = {.name = "experts beside a feed-forward with norms of its own",
                                 .of_block = experts_beside},
    [TFT_PART_SINKS] = {.name = "attention with sinks", .of_block = sinks},
    [TFT_PART_PLAIN_RELU2] = {.name = "squared ReLU without a gate"},
    [TFT_PART_REGLU] = {.name = "gates of ReLU"},
    [TFT_PART_BOUNDED_SWIGLU] = {.name = "SwiGLU of bounded numbers"},
    [TFT_PART_XIELU] = {.name = "xIELU"},
    [TFT_PART_BOUNDED_QKV] = {.name = "bounded queries, keys and values", .of_model = bounded_qkv},
    [TFT_PART_HEAD_BIAS] = {.name = "a bias of logits"},
    [TFT_PART_OWN_GATE] = {.name = "gates on attention's output of a matrix of their own"},
    [TFT_PART_MAMBA] = {.name = "layers with Mamba-2", .of_block = mamba},
    [TFT_PART_SHORT_VALUES] = {.name = "values that are shorter than keys"},
    [TFT_PART_HEAD_GATE] = {.name = "a gate for each head of attention's output"},
    [TFT_PART_RWKV] = {.name = "layers of RWKV-7"},
    [TFT_PART_ENCODER] = {.name = "attention to later tokens"},
    [TFT_PART_ROUNDS] = {.name = "rounds of layers with the same weights", .of_model = rounds},
    [TFT_PART_LATENT_EXPERTS] = {.name = "experts of a width of their own",
                                 .of_block = latent_experts},
    [TFT_PART_HALF_BLOCKS] = {.name = "blocks without either a mixer or a feed-forward"},
    [TFT_PART_PREDICTOR] = {.name = "a block that predicts further tokens"},
    [TFT_PART_LATENT] = {.name = "latent attention"},
    [TFT_PART_ALTUP] = {.name = "several residual streams"},
};
_Static_assert(sizeof rows / sizeof *rows == TFT_FORMULA_PARTS, "a row for each part");
_Static_assert(TFT_FORMULA_PARTS <= 64, "a bit for each part");

uint64_t tft_parts_of(const struct tft_model *m, const struct tft_layer *b)
{
    uint64_t mask = m->arch->parts;
    for (int i = 0; i < TFT_FORMULA_PARTS; i++) {
        const struct row *r = &rows[i];
        bool has = (r->of_model && r->of_model(m)) || (r->of_block && r->of_block(m, b));
        mask |= (uint64_t)has << i;
    }
    return mask;
}

const char *tft_parts_unknown(const struct tft_model *m, uint64_t known)
{
    for (int i = 0; i < TFT_FORMULA_PARTS; i++)
        if (m->parts & ~known & TFT_BIT(i))
            return rows[i].name;
    return NULL;
}
