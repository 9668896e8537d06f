#include "tools/quantize/report.h"

#include <stdlib.h>

#include "tools/quantize/measure/worst_inputs.h"

static void report_choice(struct sink *to, const struct job_prefix *f)
{
    for (uint32_t i = 0; f->tried && i < f->n_choices; i++) {
        const struct check_prefix *p = &f->choice[i];
        sink_print(to, "prefix: divergence %.4f nats with", p->nats);
        for (uint32_t t = 0; t < p->n; t++) {
            size_t len;
            const char *piece = tft_token_text(f->j->m, p->token[t], true, &len);
            sink_print(to, " %d \"", (int)p->token[t]);
            sink_escaped(to, piece, len);
            sink_print(to, "\"");
        }
        sink_print(to, "%s", p->n ? "\n" : " no prefix\n");
    }
}

static void report_round(struct sink *to, const struct tft_model *m, const struct cushion_round *r)
{
    size_t len;
    const char *piece = tft_token_text(m, r->token, true, &len);
    sink_print(to, "cushion: error %.4g -> %.4g, %.2g nats per token: token %d, \"", r->before,
               r->after, r->nats, (int)r->token);
    sink_escaped(to, piece, len);
    sink_print(to, "%s", r->tail ? "\", before the last" : "\"");
    if (r->taken && r->refused)
        sink_print(to, "; %u with less error raised -ln p too much", (unsigned)r->refused);
    else if (!r->taken)
        sink_print(to, "%s",
                   r->refused ? ": refused, it raises -ln p too much"
                              : ": refused, the error falls too little");
    sink_print(to, "\n");
}

static void report_tuning(struct sink *to, const struct job_tune *t)
{
    const struct tune_result *r = &t->result;
    if (!r->n_validation)
        return;
    const struct tft_quantize_opts *o = t->j->o;
    sink_print(to, "tuning: %s on held-out text %.4g -> %.4g",
               o->tune == TFT_TUNE_OUTPUTS ? "squared error" : "loss", (double)r->validation[0],
               (double)r->validation[r->kept]);
    if (r->kept)
        sink_print(to, ", after %.1f of %u epochs\n",
                   (double)r->kept * o->tune_epochs / (r->n_validation - 1),
                   (unsigned)o->tune_epochs);
    else
        sink_print(to, ": no step was better than the prefix before tuning, which is kept\n");
}

static void report_systems(struct sink *to, const struct job_system *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        sink_print(to, "prefix %s: %u tokens\n", c->prefix[i].name, c->prefix[i].n);
}

static void report_bits(struct sink *to, const struct bits_search *r)
{
    char *text = job_bits_text(r);
    if (text)
        sink_print(to, "weights: %.4g bits each in the layers: --bits %s\n", r->bits, text);
    free(text);
}

static void report_cache(struct sink *to, const struct job_kv *k)
{
    const struct kv_search *r = &k->result;
    if (!r->unit)
        return;
    const struct kv_measured *is = job_kv_kept(k), *other = r->better ? &r->uniform : &r->searched;
    for (uint32_t i = 0; i < r->n_tried; i++)
        sink_print(to, "%s %zu bytes per token, %.4g nats: %s\n",
                   i ? "      " : "tried:", r->tried[i].bytes, r->tried[i].divergence,
                   r->tried[i].kv);
    sink_print(to, "cache: %zu bytes per token, %.4g nats from f16 on held-out text: %s\n",
               is->bytes, is->divergence, is->kv);
    sink_print(to, "       %zu bytes, %.4g nats %s: %s\n", other->bytes, other->divergence,
               r->better ? "with equal bits in all layers"
                         : "with bits by layer, which is no better",
               other->kv);
}

static void report_fisher(struct sink *to, const struct fisher_chosen *c)
{
    if (*c->kv)
        sink_print(to, "cache: %.1f bytes per token: %s\n", c->bytes, c->kv);
}

static void report_ranges(struct sink *to, const struct job_ranges *c,
                          const struct job_check *check, const struct tft_model *m)
{
    char name[64];
    for (uint32_t i = 0; i < c->n; i++)
        sink_print(to, "range per token: %s, which lost %.4f nats with a static range\n",
                   quantize_input_name(m->n_layer, c->found.order[i], name),
                   c->found.nats[c->found.order[i]]);
    for (int g = 0; g < CHECK_GROUPS && c->searched; g++)
        if (!check_within(&check->loss[g], CHECK_PERCENT, CHECK_NATS))
            sink_print(to, "note: %s loses more than %g %% or %g nats; %s\n",
                       check_group_name((enum check_group)g), CHECK_PERCENT, CHECK_NATS,
                       c->n == c->most ? "a quarter of the inputs have ranges per token"
                                       : "more ranges per token would gain little");
}

static void report_vectors(struct sink *to, const struct job_vectors *v)
{
    if (v->n_ranges)
        sink_print(to, "ranges per token: %u inputs, so that vectors lose less\n", v->n_ranges);
    if (v->n)
        sink_print(to, "vectors: 1 - cosine %.2g on average, at most %.2g, of %u held-out texts\n",
                   v->mean, v->most, v->n);
}

static void report_plain(struct sink *to, const struct quantize_run *run)
{
    struct plain_made made = plain_plan(&run->m->source, run->plain.mix);
    sink_print(to, "%s: %.1f MB, tensors:", run->plain.mix->name, (double)made.bytes / 1e6);
    for (uint32_t i = 0, listed = 0; i < PLAIN_TYPES; i++)
        if (made.tensors[i])
            sink_print(to, "%s %zu %s", listed++ ? "," : "", made.tensors[i], tft_dtype_name(i));
    sink_print(to, "\n");
    report_fisher(to, &run->fisher.chosen);
    check_print_groups(to, run->check.loss, run->m->n_vocab);
}

void quantize_report(struct sink *to, const struct quantize_run *run)
{
    struct worst_inputs worst = {0};
    if (run->plain.mix) {
        report_plain(to, run);
        return;
    }
    const struct tft_model *m = run->m;
    const struct cushion *cushion = run->o.cushion;
    report_choice(to, &run->prefix);
    for (uint32_t i = 0; cushion && i < cushion->tried; i++)
        report_round(to, m, &cushion->round[i]);
    report_tuning(to, &run->tune);
    report_systems(to, &run->system);
    report_bits(to, &run->bits);
    report_cache(to, &run->kv);
    report_fisher(to, &run->fisher.chosen);
    report_ranges(to, &run->ranges, &run->check, m);
    report_vectors(to, &run->vectors);
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        if (run->range[i] == TFT_RANGE_STATIC)
            worst_inputs_add(&worst,
                             (struct input_error){i, run->result[i].error, run->result[i].affine});
    worst_inputs_print(to, &worst, m->n_layer);
    if (!m->encoder)
        check_print(to, run->check.loss, m->n_vocab);
}
