#include "tools/commands/quantize_report.h"

#include <stdlib.h>

#include "tools/cli/cli.h"
#include "tools/quantize/inside.h"

void quantize_report_choice(const struct job_prefix *f)
{
    for (uint32_t i = 0; f->tried && i < f->n_choices; i++) {
        const struct check_prefix *p = &f->choice[i];
        fprintf(stderr, "prefix: divergence %.4f nats with", p->nats);
        for (uint32_t t = 0; t < p->n; t++) {
            size_t len;
            const char *piece = tft_token_text(f->j->m, p->token[t], true, &len);
            fprintf(stderr, " %d \"", (int)p->token[t]);
            cli_put_escaped(stderr, piece, len);
            putc('"', stderr);
        }
        fputs(p->n ? "\n" : " no prefix\n", stderr);
    }
}

static void report_round(const struct tft_model *m, const struct cushion_round *r)
{
    size_t len;
    const char *piece = tft_token_text(m, r->token, true, &len);
    fprintf(stderr, "cushion: error %.4g -> %.4g, %.2g nats per token: token %d, \"", r->before,
            r->after, r->nats, (int)r->token);
    cli_put_escaped(stderr, piece, len);
    fputs(r->tail ? "\", before the last" : "\"", stderr);
    if (r->taken && r->refused)
        fprintf(stderr, "; %u with less error raised -ln p too much", (unsigned)r->refused);
    else if (!r->taken)
        fputs(r->refused ? ": refused, it raises -ln p too much"
                         : ": refused, the error falls too little",
              stderr);
    fputc('\n', stderr);
}

static void report_tuning(const struct job_tune *t)
{
    const struct tune_result *r = &t->result;
    if (!r->n_validation)
        return;
    const struct tft_quantize_opts *o = t->j->o;
    fprintf(stderr, "tuning: %s on held-out text %.4g -> %.4g",
            o->tune == TFT_TUNE_OUTPUTS ? "squared error" : "loss", (double)r->validation[0],
            (double)r->validation[r->kept]);
    if (r->kept)
        fprintf(stderr, ", after %.1f of %u epochs\n",
                (double)r->kept * o->tune_epochs / (r->n_validation - 1), (unsigned)o->tune_epochs);
    else
        fputs(": no step was better than the prefix before tuning, which is kept\n", stderr);
}

static void report_systems(const struct job_system *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        fprintf(stderr, "prefix %s: %u tokens\n", c->prefix[i].name, c->prefix[i].n);
}

static void report_bits(const struct bits_search *r)
{
    char *text = job_bits_text(r);
    if (text)
        fprintf(stderr, "weights: %.4g bits each in the layers: --bits %s\n", r->bits, text);
    free(text);
}

static void report_cache(const struct job_kv *k)
{
    const struct kv_search *r = &k->result;
    if (!r->unit)
        return;
    const struct kv_measured *is = job_kv_kept(k), *other = r->better ? &r->uniform : &r->searched;
    for (uint32_t i = 0; i < r->n_tried; i++)
        fprintf(stderr, "%s %zu bytes per token, %.4g nats: %s\n",
                i ? "      " : "tried:", r->tried[i].bytes, r->tried[i].divergence, r->tried[i].kv);
    fprintf(stderr, "cache: %zu bytes per token, %.4g nats from f16 on held-out text: %s\n",
            is->bytes, is->divergence, is->kv);
    fprintf(stderr, "       %zu bytes, %.4g nats %s: %s\n", other->bytes, other->divergence,
            r->better ? "with equal bits in all layers" : "with bits by layer, which is no better",
            other->kv);
}

static void report_ranges(const struct job_ranges *c, const struct job_check *check,
                          const struct tft_model *m)
{
    char name[64];
    for (uint32_t i = 0; i < c->n; i++)
        fprintf(stderr, "range per token: %s, which lost %.4f nats with a static range\n",
                quantize_input_name(m->n_layer, c->found.order[i], name),
                c->found.nats[c->found.order[i]]);
    for (int g = 0; g < CHECK_GROUPS && c->searched; g++)
        if (!check_within(&check->loss[g], CHECK_PERCENT, CHECK_NATS))
            fprintf(stderr, "note: %s loses more than %g %% or %g nats; %s\n",
                    check_group_name((enum check_group)g), CHECK_PERCENT, CHECK_NATS,
                    c->n == c->most ? "a quarter of the inputs have ranges per token"
                                    : "more ranges per token would gain little");
}

void quantize_report(const struct quantize_run *run)
{
    struct worst_inputs worst = {0};
    const struct tft_model *m = run->m;
    const struct cushion *cushion = run->o.cushion;
    for (uint32_t i = 0; cushion && i < cushion->tried; i++)
        report_round(m, &cushion->round[i]);
    report_tuning(&run->tune);
    report_systems(&run->system);
    report_bits(&run->bits);
    report_cache(&run->kv);
    report_ranges(&run->ranges, &run->check, m);
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        if (run->range[i] == TFT_RANGE_STATIC)
            worst_inputs_add(&worst,
                             (struct input_error){i, run->result[i].error, run->result[i].affine});
    worst_inputs_print(stderr, &worst, m->n_layer);
    check_print(stderr, run->check.loss, m->n_vocab);
}
