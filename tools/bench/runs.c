#include "runs.h"

#include "inside.h"
#include "tools/cli/cli.h"
#include "tools/cli/system.h"

/* The logits that a sampler with the options of the command line reads. */
static struct tft_asked asked(const struct tft_session *s)
{
    struct tft_sampler z = cli_sampler();
    size_t n;
    return tft_sampler_asks(&z, s, &n);
}

/* The session then has `depth` tokens. tft_sync computes tokens again that have been quantized
   since. */
static enum tft_status begin(struct tft_session *s, const struct runs *o)
{
    enum tft_status status = o->depth ? tft_sync(s, o->ids, o->depth) : tft_rewind(s, 0);
    tft_prompt_end(s);
    return status;
}

/* Measures the limits, if it is time for it. Their buffer takes the place of the weights in the
   CPU's caches, and a token brings these back. Not after a depth: a model with states would compute
   it twice. */
static enum tft_status between(struct tft_session *s, const struct runs *o)
{
    if (!samples_between(o->limits) || o->depth)
        return TFT_OK;
    enum tft_status status = tft_rewind(s, 0);
    return status == TFT_OK ? tft_prefill(s, o->ids, 1) : status;
}

static enum tft_status run(struct tft_session *s, const struct runs *o)
{
    struct tft_asked a = asked(s);
    uint32_t step = o->one_by_one ? 1 : o->n;
    enum tft_status status = TFT_OK;
    for (uint32_t i = 0; i < o->n && status == TFT_OK && !cli_interrupted(); i += step) {
        status = tft_prefill(s, o->ids + i, step);
        if (status == TFT_OK && !tft_session_logits(s, &a)) /* other processes send them */
            status = tft_session_error(s)->code;
    }
    return status;
}

enum tft_status runs_time(struct runs_time *time, struct tft_session *s, const struct runs *o)
{
    double t[RUNS_MOST], cpu[RUNS_MOST];
    for (uint32_t r = 0; r < o->runs + 1; r++) { /* the first run is a warm-up */
        enum tft_status status = r ? between(s, o) : TFT_OK;
        if (status == TFT_OK)
            status = begin(s, o);
        uint64_t start = cli_ns();
        double used = system_thread_seconds();
        if (status == TFT_OK)
            status = run(s, o);
        if (status != TFT_OK || cli_interrupted())
            return status;
        if (r) {
            t[r - 1] = (double)(cli_ns() - start) / 1e9;
            cpu[r - 1] = system_thread_seconds() - used;
        }
    }
    *time = (struct runs_time){spread_of(t, o->runs), spread_of(cpu, o->runs).median};
    return TFT_OK;
}

bool runs_has_processes(const struct tft_model *m)
{
    return m->stage[m->n_stage - 1].backend->exchanged;
}

size_t runs_exchanged(const struct tft_model *m, const struct tft_session *s)
{
    const struct tft_stage *last = &m->stage[m->n_stage - 1];
    struct tft_asked a = asked(s);
    return runs_has_processes(m) ? last->backend->exchanged(last->device, &a) : 0;
}
