#include "tools/quantize/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static void json_choice(struct sink *to, const struct job_prefix *f)
{
    sink_print(to, "[");
    for (uint32_t i = 0; f->tried && i < f->n_choices; i++) {
        const struct check_prefix *p = &f->choice[i];
        sink_print(to, "%s", i ? ",{\"tokens\":[" : "{\"tokens\":[");
        for (uint32_t t = 0; t < p->n; t++)
            sink_print(to, t ? ",%d" : "%d", (int)p->token[t]);
        sink_print(to, "]");
        sink_number(to, "divergence", p->nats);
        sink_print(to, "}");
    }
    sink_print(to, "]");
}

static void json_round(struct sink *to, const struct cushion_round *r)
{
    sink_print(to, "{\"token\":%d,\"place\":\"%s\"", (int)r->token,
               r->tail ? "before last" : "end");
    sink_number(to, "before", r->before);
    sink_number(to, "after", r->after);
    sink_number(to, "nats", r->nats);
    sink_print(to, ",\"taken\":%s,\"why_not\":%s,\"refused\":%u}", r->taken ? "true" : "false",
               r->taken     ? "null"
               : r->refused ? "\"likelihood\""
                            : "\"error\"",
               (unsigned)r->refused);
}

static void json_cushion(struct sink *to, const struct cushion *c)
{
    if (!c) {
        sink_print(to, "null");
        return;
    }
    sink_print(to, "{\"tau\":%.6g", c->tau);
    sink_number(to, "cost", c->cost);
    sink_print(to, ",\"rounds\":[");
    for (uint32_t i = 0; i < c->tried; i++) {
        sink_print(to, "%s", i ? "," : "");
        json_round(to, &c->round[i]);
    }
    sink_print(to, "]}");
}

static void json_tuning(struct sink *to, const struct job_tune *t)
{
    const struct tune_result *r = &t->result;
    if (!r->n_validation) {
        sink_print(to, "null");
        return;
    }
    const struct tft_quantize_opts *o = t->j->o;
    sink_print(to, "{\"loss\":\"%s\",\"rate\":%.6g,\"epochs\":%u,\"kept\":%u,\"validation\":[",
               job_tune_loss(o), (double)o->tune_rate, (unsigned)o->tune_epochs, (unsigned)r->kept);
    for (uint32_t i = 0; i < r->n_validation; i++) {
        sink_print(to, "%s", i ? "," : "");
        if (isfinite(r->validation[i]))
            sink_print(to, "%.7g", (double)r->validation[i]);
        else
            sink_print(to, "null"); /* JSON has no NaN or infinity */
    }
    sink_print(to, "]}");
}

static void json_systems(struct sink *to, const struct job_system *c)
{
    if (!c->n) {
        sink_print(to, "null");
        return;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        sink_print(to, "%s\"%s\":[", i ? "," : "{", c->prefix[i].name);
        for (uint32_t t = 0; t < c->prefix[i].n; t++)
            sink_print(to, t ? ",%d" : "%d", (int)c->prefix[i].tokens[t]);
        sink_print(to, "]");
    }
    sink_print(to, "}");
}

static void json_cache(struct sink *to, const struct kv_measured *h)
{
    sink_print(to, "{\"kv\":\"%s\",\"bytes\":%zu", h->kv, h->bytes);
    sink_number(to, "divergence", h->divergence);
    sink_print(to, "}");
}

static void json_measured(struct sink *to, const char *name, const struct kv_measured *h)
{
    sink_print(to, ",\"%s\":", name);
    json_cache(to, h);
}

static void json_side(struct sink *to, const char *name, const struct kv_search *r,
                      const struct kv_side_found *f, const struct kv_unit_found *unit)
{
    sink_print(to, ",\"%s\":{\"all\":[", name);
    for (uint32_t i = 0; i < f->n; i++)
        sink_print(to, "%s{\"bits\":%g,\"divergence\":%.6g}", i ? "," : "", (double)f->bits[i],
                   f->cost[i]);
    sink_print(to, "],\"alone\":%g,\"layers\":[", (double)f->alone);
    for (uint32_t l = 0; l < r->n_layer; l++)
        sink_print(to, "%s{\"divergence\":%.6g,\"bits\":%g}", l ? "," : "", unit[2 * l].cost,
                   (double)unit[2 * l].bits);
    sink_print(to, "]}");
}

static void json_kv_search(struct sink *to, const struct job_kv *k, const struct fisher_chosen *c)
{
    const struct kv_search *r = &k->result;
    if (*c->kv) {
        sink_print(to, "{\"kv\":\"%s\",\"bytes\":%.6g}", c->kv, c->bytes);
        return;
    }
    if (!r->unit) {
        sink_print(to, "null");
        return;
    }
    sink_print(to, "{\"budget\":%zu,\"floor\":%.6g", r->budget, r->floor);
    json_side(to, "k", r, &r->side[0], r->unit);
    json_side(to, "v", r, &r->side[1], r->unit + 1);
    sink_print(to, ",\"tried\":[");
    for (uint32_t i = 0; i < r->n_tried; i++) {
        sink_print(to, "%s", i ? "," : "");
        json_cache(to, &r->tried[i]);
    }
    sink_print(to, "]");
    json_measured(to, "searched", &r->searched);
    json_measured(to, "uniform", &r->uniform);
    sink_print(to, ",\"kept\":\"%s\"}", r->better ? "searched" : "uniform");
}

static void json_bits(struct sink *to, const struct bits_search *r)
{
    char *text = job_bits_text(r);
    if (!text) {
        sink_print(to, "null");
        return;
    }
    sink_print(to, "{\"bits\":%.6g,\"floor\":%.6g,\"as\":\"%s\",\"matrices\":[", r->bits, r->floor,
               text);
    free(text);
    for (uint32_t i = 0, listed = 0; i < r->n_layer * LAYER_MATS; i++)
        if (r->matrix[i].there)
            sink_print(to, "%s{\"name\":\"blk.%u.%s\",\"loss\":%.6g,\"cost\":%.6g,\"bits\":%u,"
                           "\"group\":%u}",
                       listed++ ? "," : "", i / LAYER_MATS,
                       quantize_matrix_name((int)(i % LAYER_MATS)), r->matrix[i].loss,
                       r->matrix[i].cost, r->matrix[i].bits, r->matrix[i].group);
    sink_print(to, "]}");
}

static void json_ranges(struct sink *to, const struct job_ranges *c, const struct tft_model *m)
{
    char name[64];
    sink_print(to, "[");
    for (uint32_t i = 0; i < c->n; i++) {
        sink_print(to, "%s{\"name\":\"%s\"", i ? "," : "",
                   quantize_input_name(m->n_layer, c->found.order[i], name));
        sink_number(to, "nats", c->found.nats[c->found.order[i]]);
        sink_print(to, "}");
    }
    sink_print(to, "]");
}

static void json_vectors(struct sink *to, const struct job_vectors *v)
{
    if (!v->n) {
        sink_print(to, "null");
        return;
    }
    sink_print(to, "{\"texts\":%u", v->n);
    sink_number(to, "mean", v->mean);
    sink_number(to, "most", v->most);
    sink_print(to, "}");
}

static void json_inputs(struct sink *to, const struct quantize_run *run)
{
    static const char *const kinds[] = {"float", "static", "token"};
    char name[64];
    for (uint32_t i = 0; i < tft_model_inputs(run->m); i++) {
        const struct quantize_input *r = &run->result[i];
        sink_print(to,
                   "%s{\"name\":\"%s\",\"range\":\"%s\",\"scale\":%.9g,\"zero\":%d,\"min\":%.6g,"
                   "\"max\":%.6g,\"error\":%.6g}",
                   i ? "," : "", quantize_input_name(run->m->n_layer, i, name),
                   kinds[run->range[i]], (double)r->affine.scale, (int)r->affine.zero,
                   (double)r->min, (double)r->max, r->error);
    }
}

static void json_plain(struct sink *to, const struct quantize_run *run)
{
    struct plain_made made = plain_plan(&run->m->source, run->plain.mix);
    sink_print(to,
               "{\"seconds\":%.3f,\"gguf\":\"%s\",\"tokens\":%zu,\"tensors\":%zu,\"bytes\":%" PRIu64
               ",\"types\":{",
               run->seconds, run->plain.mix->name, run->plain.n_tokens, made.n_tensor, made.bytes);
    for (uint32_t i = 0, listed = 0; i < PLAIN_TYPES; i++)
        if (made.tensors[i])
            sink_print(to, "%s\"%s\":%zu", listed++ ? "," : "", tft_dtype_name(i), made.tensors[i]);
    sink_print(to, "},\"kv_search\":");
    json_kv_search(to, &run->kv, &run->fisher.chosen);
    sink_print(to, ",\"check\":");
    check_json(to, run->check.loss);
    sink_print(to, "}");
}

void quantize_report_json(struct sink *to, const struct quantize_run *run)
{
    if (run->plain.mix) {
        json_plain(to, run);
        return;
    }
    const struct quantize_opts *o = &run->o;
    sink_print(to, "{\"seconds\":%.3f,\"tokens\":%zu,\"window\":%u,\"prefix\":[", run->seconds,
               o->n_text / o->window * o->window, o->window);
    for (uint32_t i = 0; i < o->n_prefix; i++)
        sink_print(to, i ? ",%d" : "%d", (int)o->prefix[i]);
    sink_print(to, "],\"tried\":");
    json_choice(to, &run->prefix);
    sink_print(to, ",\"cushion\":");
    json_cushion(to, o->cushion);
    sink_print(to, ",\"tune\":");
    json_tuning(to, &run->tune);
    sink_print(to, ",\"system\":");
    json_systems(to, &run->system);
    sink_print(to, ",\"kv_search\":");
    json_kv_search(to, &run->kv, &run->fisher.chosen);
    sink_print(to, ",\"bits_search\":");
    json_bits(to, &run->bits);
    sink_print(to, ",\"vectors\":");
    json_vectors(to, &run->vectors);
    sink_print(to, ",\"dynamic\":");
    json_ranges(to, &run->ranges, run->m);
    sink_print(to, ",\"check\":");
    check_json(to, run->check.loss);
    sink_print(to, ",\"inputs\":[");
    json_inputs(to, run);
    sink_print(to, "]}");
}
