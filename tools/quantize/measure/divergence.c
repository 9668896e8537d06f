#include "tools/quantize/measure/divergence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/exp_log.h"
#include "port/port.h"
#include "run/session.h"
#include "tools/quantize/array.h"
#include "tools/quantize/measure/held_out.h"

static bool failed(const struct divergence *d)
{
    return d->bad->code != TFT_OK || d->stopped;
}

void divergence_open(struct divergence *d, const struct tft_model *m,
                     const struct divergence_opts *o, struct tft_error *bad)
{
    *d = (struct divergence){.m = m, .o = *o, .bad = bad, .scored = o->window / 2};
    d->picked = malloc((o->n_windows + 1) * sizeof *d->picked);
    d->each = malloc((d->scored + 1) * sizeof *d->each);
    if (!d->picked || !d->each)
        tft_fail(bad, TFT_ERR_NOMEM, "%s: out of memory to compare logits", m->source.name);
}

void divergence_close(struct divergence *d)
{
    free(d->picked);
    free(d->reference);
    free(d->each);
    *d = (struct divergence){0};
}

uint32_t divergence_pick(struct divergence *d, enum divergence_part part, uint32_t tokens)
{
    uint32_t have = 0, want = (tokens + d->o.window - 1) / d->o.window;
    for (uint32_t i = 0; i < d->o.n_windows && !failed(d); i++)
        if (part == DIVERGENCE_ALL || held_out(i, d->o.n_windows) == (part == DIVERGENCE_HELD))
            d->picked[have++] = i;
    d->n_picked = have < want ? have : want;
    for (uint32_t i = 0; i < d->n_picked; i++)
        d->picked[i] = d->picked[(size_t)i * have / d->n_picked];
    return d->n_picked;
}

/* Computes the logits of the second half of a window. Returns the session with these logits, which
   the caller closes. */
static struct tft_session *run_window(struct divergence *d, const char *kv, uint32_t window)
{
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = d->o.window,
                                  .n_batch = d->scored,
                                  .n_logits = d->scored,
                                  .n_threads = d->o.n_threads,
                                  .kv = kv};
    struct tft_session *s = NULL;
    const int32_t *ids = d->o.text + (size_t)window * d->o.window;
    if (tft_session_open(&s, d->m, &so, d->bad) == TFT_OK &&
        tft_prefill(s, ids, d->o.window) != TFT_OK)
        *d->bad = *tft_session_error(s);
    d->work++;
    if (d->o.progress && !d->o.progress(d->o.user, fmin(d->work / d->total_work, 1)))
        d->stopped = true;
    return s;
}

struct compare_task {
    const struct divergence *d;
    const struct tft_session *s;
    const float *reference; /* [scored, V] */
};

/* The sum of p ln (p / q), p and q given as logits. */
static double divergence(const float *p, const float *q, uint32_t n)
{
    double p_max = -INFINITY, q_max = -INFINITY, p_sum = 0, q_sum = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        p_max = fmax(p_max, (double)p[i]);
        q_max = fmax(q_max, (double)q[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        double e = tft_exp((double)p[i] - p_max);
        p_sum += e;
        q_sum += tft_exp((double)q[i] - q_max);
        sum += e * ((double)p[i] - (double)q[i]);
    }
    return sum / p_sum - (p_max + tft_log(p_sum)) + (q_max + tft_log(q_sum));
}

static void compare(void *arg, int tid, int n_threads)
{
    const struct compare_task *c = arg;
    uint32_t n = c->d->scored, vocab = c->d->m->n_vocab;
    for (uint32_t i = (uint32_t)tid; i < n; i += (uint32_t)n_threads)
        c->d->each[i] = divergence(c->reference + (size_t)i * vocab, tft_logits(c->s, n - 1 - i),
                                   vocab);
}

void divergence_refer(struct divergence *d, const char *kv)
{
    size_t each = (size_t)d->scored * d->m->n_vocab;
    if (failed(d))
        return;
    free(d->reference);
    d->reference =
        array_alloc(sizeof *d->reference, d->scored, d->m->n_vocab, d->n_picked);
    if (!d->reference)
        tft_fail(d->bad, TFT_ERR_NOMEM, "%s: out of memory for the logits of %u tokens",
                 d->m->source.name, d->scored * d->n_picked);
    for (uint32_t i = 0; i < d->n_picked && !failed(d); i++) {
        struct tft_session *s = run_window(d, kv, d->picked[i]);
        for (uint32_t j = 0; j < d->scored && !failed(d); j++)
            memcpy(d->reference + i * each + (size_t)j * d->m->n_vocab,
                   tft_logits(s, d->scored - 1 - j), d->m->n_vocab * sizeof(float));
        tft_session_close(s);
    }
}

int divergence_threads(const struct divergence *d)
{
    return !tft_port_threaded() ? 1 : d->o.n_threads ? d->o.n_threads : tft_port_cpus();
}

double divergence_measure(struct divergence *d, const char *kv)
{
    double sum = 0;
    for (uint32_t i = 0; i < d->n_picked && !failed(d); i++) {
        struct tft_session *s = run_window(d, kv, d->picked[i]);
        struct compare_task c = {d, s, d->reference + (size_t)i * d->scored * d->m->n_vocab};
        if (!failed(d))
            tft_port_team(divergence_threads(d), compare, &c);
        tft_session_close(s);
        for (uint32_t j = 0; j < d->scored && !failed(d); j++)
            sum += d->each[j];
    }
    if (!failed(d) && !isfinite(sum))
        tft_fail(d->bad, TFT_ERR_UNSUPPORTED, "%s: the model computes logits with NaN or infinity",
                 d->m->source.name);
    return failed(d) ? 0 : sum / ((double)d->scored * d->n_picked);
}
