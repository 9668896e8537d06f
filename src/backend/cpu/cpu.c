#include "cpu.h"

/* A pass through layers first .. end - 1 by the whole team. */
struct stage_pass {
    const struct tft_pass *p;
    uint32_t first, end;
};

/* What every thread of the team does. */
static void run_thread(void *arg, int tid, int n_threads)
{
    const struct stage_pass *stage = arg;
    struct tft_pass p = *stage->p;
    p.tid = tid;
    p.n_threads = n_threads;
    if (stage->first < stage->end)
        tft_pass_positions(&p);
    tft_pass_layers(&p, stage->first, stage->end);
}

static enum tft_status run(struct tft_pass *p, uint32_t first, uint32_t end)
{
    tft_port_team(p->s->n_threads, run_thread, &(struct stage_pass){p, first, end});
    return TFT_OK;
}

static enum tft_status drop(void *state, struct tft_session *s, const struct tft_kv_drop *d)
{
    (void)state;
    tft_kv_drop(&s->kv, d);
    return TFT_OK;
}

const struct tft_backend tft_backend_cpu = {
    .name = "cpu",
    .ops = {
        .embed = tft_cpu_embed,
        .norm = tft_cpu_norm,
        .qkv = tft_cpu_qkv,
        .rmsnorm_heads = tft_cpu_rmsnorm_heads,
        .rope = tft_cpu_rope,
        .kv_append = tft_cpu_kv_append,
        .attend = tft_cpu_attend,
        .hidden = tft_cpu_hidden,
        .linear_add = tft_cpu_linear_add,
        .logits = tft_cpu_logits,
    },
    .run = run,
    .drop = drop,
};
