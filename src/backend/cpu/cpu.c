#include "cpu.h"

/* A pass through layers first .. end - 1 by the whole team. */
struct stage_pass {
    const struct tft_pass *p;
    uint32_t first, end;
    bool stops[2]; /* whether the caller stops the pass before a layer of even, of odd number */
};

/* Asks before layer l. Every layer has a barrier, so that no thread is still here when the answer
   for layer l + 2 is written. */
static bool goes_on(struct stage_pass *stage, struct tft_pass *p, uint32_t l)
{
    if (p->tid == 0)
        stage->stops[l % 2] = !tft_pass_goes_on(p, l);
    tft_port_barrier();
    p->read = p->written = p->by_head = 0;
    return !stage->stops[l % 2];
}

/* The pass of one thread of the team. */
static void run_thread(void *arg, int tid, int n_threads)
{
    struct stage_pass *stage = arg;
    uint32_t l = stage->first;
    struct tft_pass p = *stage->p;
    p.tid = tid;
    p.n_threads = n_threads;
    p.counts_ends = tft_cpu_counts_ends(&p);
    if (stage->first < stage->end)
        tft_pass_positions(&p);
    for (; p.stops && l + 1 < stage->end; l++) {
        tft_pass_layers(&p, l, l + 1);
        if (!goes_on(stage, &p, l + 1))
            return;
    }
    tft_pass_layers(&p, l, stage->end);
}

static enum tft_status run(struct tft_pass *p, uint32_t first, uint32_t end)
{
    struct stage_pass stage = {p, first, end, {false, false}};
    tft_port_team(p->n_threads, run_thread, &stage);
    return stage.stops[0] || stage.stops[1] ? TFT_ERR_CANCELLED : TFT_OK;
}

static enum tft_status drop(void *state, struct tft_session *s, const struct tft_kv_drop *d)
{
    (void)state;
    tft_kv_drop(&s->kv, d);
    return TFT_OK;
}

const struct tft_backend tft_backend_cpu = {
    .name = "cpu",
    .parts = UINT64_MAX,
    .has_fisher = true,
    .ops = {
        .embed = tft_cpu_embed,
        .norm = tft_cpu_norm,
        .qkv = tft_cpu_qkv,
        .rmsnorm_heads = tft_cpu_rmsnorm_heads,
        .rmsnorm_whole = tft_cpu_rmsnorm_whole,
        .layernorm_heads = tft_cpu_layernorm_heads,
        .rope = tft_cpu_rope,
        .bound_qkv = tft_cpu_bound_qkv,
        .pad_values = tft_cpu_pad_values,
        .scale_queries = tft_cpu_scale_queries,
        .kv_append = tft_cpu_kv_append,
        .attend = tft_cpu_attend,
        .attend_texts = tft_cpu_attend_texts,
        .latent_qkv = tft_cpu_latent_qkv,
        .latent_values = tft_cpu_latent_values,
        .altup_begin = tft_cpu_altup_begin,
        .altup_predict = tft_cpu_altup_predict,
        .laurel = tft_cpu_laurel,
        .laurel_join = tft_cpu_laurel_join,
        .altup_correct = tft_cpu_altup_correct,
        .altup_add = tft_cpu_altup_add,
        .altup_end = tft_cpu_altup_end,
        .sparse_hidden = tft_cpu_sparse_hidden,
        .project = tft_cpu_project,
        .short_conv = tft_cpu_short_conv,
        .gated_qkv = tft_cpu_gated_qkv,
        .delta_gates = tft_cpu_delta_gates,
        .delta_net = tft_cpu_delta_net,
        .mamba = tft_cpu_mamba,
        .shift = tft_cpu_shift,
        .lerp = tft_cpu_lerp,
        .time_mix = tft_cpu_time_mix,
        .hidden = tft_cpu_hidden,
        .quantize = tft_cpu_quantize_for,
        .route = tft_cpu_route,
        .experts = tft_cpu_experts,
        .set_aside = tft_cpu_set_aside,
        .add_aside = tft_cpu_add_aside,
        .linear_add = tft_cpu_linear_add,
        .linear_y = tft_cpu_linear_y,
        .add_y = tft_cpu_add_y,
        .norm_sum = tft_cpu_norm_sum,
        .copy = tft_cpu_copy,
        .layer_embed = tft_cpu_layer_embed,
        .embed_gate = tft_cpu_embed_gate,
        .keep_hidden = tft_cpu_keep_hidden,
        .norm_y = tft_cpu_norm_y,
        .predict_input = tft_cpu_predict_input,
        .gather = tft_pass_gather,
        .logits = tft_cpu_logits,
    },
    .run = run,
    .drop = drop,
};
