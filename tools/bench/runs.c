#include "runs.h"

#include <stdlib.h>

#include "inside.h"
#include "tools/cli/cli.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double runs_median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return x[n / 2];
}

/* The logits that a sampler with the options of the command line reads. */
static struct tft_asked asked(const struct tft_session *s)
{
    struct tft_sampler z = cli_sampler();
    size_t n;
    return tft_sampler_asks(&z, s, &n);
}

enum tft_status runs_time(double *seconds, struct tft_session *s, const struct runs *o)
{
    double t[RUNS_MOST];
    struct tft_asked a = asked(s);
    uint32_t step = o->one_by_one ? 1 : o->n;
    for (uint32_t r = 0; r < o->runs + 1; r++) { /* the first run is a warm-up */
        /* tft_sync computes tokens again that have been quantized since */
        enum tft_status status = o->depth ? tft_sync(s, o->ids, o->depth) : tft_rewind(s, 0);
        tft_prompt_end(s);
        uint64_t start = cli_ns();
        for (uint32_t i = 0; i < o->n && status == TFT_OK && !cli_interrupted(); i += step) {
            status = tft_prefill(s, o->ids + i, step);
            if (status == TFT_OK && !tft_session_logits(s, &a)) /* other processes send them */
                status = tft_session_error(s)->code;
        }
        if (status != TFT_OK || cli_interrupted())
            return status;
        if (r)
            t[r - 1] = (double)(cli_ns() - start) / 1e9;
    }
    *seconds = runs_median(t, o->runs);
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
