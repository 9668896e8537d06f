#include "tools/commands/quantize_report.h"

#include <math.h>
#include <stdlib.h>

#include "tools/cli/cli.h"

static void json_choice(const struct job_prefix *f)
{
    putchar('[');
    for (uint32_t i = 0; f->tried && i < f->n_choices; i++) {
        const struct check_prefix *p = &f->choice[i];
        fputs(i ? ",{\"tokens\":[" : "{\"tokens\":[", stdout);
        for (uint32_t t = 0; t < p->n; t++)
            printf(t ? ",%d" : "%d", (int)p->token[t]);
        putchar(']');
        cli_json_number("divergence", p->nats);
        putchar('}');
    }
    putchar(']');
}

static void json_round(const struct cushion_round *r)
{
    printf("{\"token\":%d,\"place\":\"%s\"", (int)r->token, r->tail ? "before last" : "end");
    cli_json_number("before", r->before);
    cli_json_number("after", r->after);
    cli_json_number("nats", r->nats);
    printf(",\"taken\":%s,\"why_not\":%s,\"refused\":%u}", r->taken ? "true" : "false",
           r->taken     ? "null"
           : r->refused ? "\"likelihood\""
                        : "\"error\"",
           (unsigned)r->refused);
}

static void json_cushion(const struct cushion *c)
{
    if (!c) {
        fputs("null", stdout);
        return;
    }
    printf("{\"tau\":%.6g", c->tau);
    cli_json_number("cost", c->cost);
    fputs(",\"rounds\":[", stdout);
    for (uint32_t i = 0; i < c->tried; i++) {
        fputs(i ? "," : "", stdout);
        json_round(&c->round[i]);
    }
    fputs("]}", stdout);
}

static void json_tuning(const struct job_tune *t)
{
    const struct tune_result *r = &t->result;
    if (!r->n_validation) {
        fputs("null", stdout);
        return;
    }
    const struct tft_quantize_opts *o = t->j->o;
    printf("{\"loss\":\"%s\",\"rate\":%.6g,\"epochs\":%u,\"kept\":%u,\"validation\":[",
           job_tune_loss(o), (double)o->tune_rate, (unsigned)o->tune_epochs, (unsigned)r->kept);
    for (uint32_t i = 0; i < r->n_validation; i++) {
        fputs(i ? "," : "", stdout);
        if (isfinite(r->validation[i]))
            printf("%.7g", (double)r->validation[i]);
        else
            fputs("null", stdout); /* JSON has no NaN or infinity */
    }
    fputs("]}", stdout);
}

static void json_systems(const struct job_system *c)
{
    if (!c->n) {
        fputs("null", stdout);
        return;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        printf("%s\"%s\":[", i ? "," : "{", c->prefix[i].name);
        for (uint32_t t = 0; t < c->prefix[i].n; t++)
            printf(t ? ",%d" : "%d", (int)c->prefix[i].tokens[t]);
        putchar(']');
    }
    putchar('}');
}

static void json_cache(const struct kv_measured *h)
{
    printf("{\"kv\":\"%s\",\"bytes\":%zu", h->kv, h->bytes);
    cli_json_number("divergence", h->divergence);
    putchar('}');
}

static void json_measured(const char *name, const struct kv_measured *h)
{
    printf(",\"%s\":", name);
    json_cache(h);
}

static void json_side(const char *name, const struct kv_search *r, const struct kv_side_found *f,
                      const struct kv_unit_found *unit)
{
    printf(",\"%s\":{\"all\":[", name);
    for (uint32_t i = 0; i < f->n; i++)
        printf("%s{\"bits\":%g,\"divergence\":%.6g}", i ? "," : "", (double)f->bits[i], f->cost[i]);
    printf("],\"alone\":%g,\"layers\":[", (double)f->alone);
    for (uint32_t l = 0; l < r->n_layer; l++)
        printf("%s{\"divergence\":%.6g,\"bits\":%g}", l ? "," : "", unit[2 * l].cost,
               (double)unit[2 * l].bits);
    fputs("]}", stdout);
}

static void json_kv_search(const struct job_kv *k)
{
    const struct kv_search *r = &k->result;
    if (!r->unit) {
        fputs("null", stdout);
        return;
    }
    printf("{\"budget\":%zu,\"floor\":%.6g", r->budget, r->floor);
    json_side("k", r, &r->side[0], r->unit);
    json_side("v", r, &r->side[1], r->unit + 1);
    fputs(",\"tried\":[", stdout);
    for (uint32_t i = 0; i < r->n_tried; i++) {
        fputs(i ? "," : "", stdout);
        json_cache(&r->tried[i]);
    }
    putchar(']');
    json_measured("searched", &r->searched);
    json_measured("uniform", &r->uniform);
    printf(",\"kept\":\"%s\"}", r->better ? "searched" : "uniform");
}

static void json_bits(const struct bits_search *r)
{
    char *text = job_bits_text(r);
    if (!text) {
        fputs("null", stdout);
        return;
    }
    printf("{\"bits\":%.6g,\"floor\":%.6g,\"as\":\"%s\",\"matrices\":[", r->bits, r->floor, text);
    free(text);
    for (uint32_t i = 0, listed = 0; i < r->n_layer * LAYER_MATS; i++)
        if (r->matrix[i].there)
            printf("%s{\"name\":\"blk.%u.%s\",\"loss\":%.6g,\"bits\":%u}", listed++ ? "," : "",
                   i / LAYER_MATS, quantize_matrix_name((int)(i % LAYER_MATS)), r->matrix[i].loss,
                   r->matrix[i].bits);
    fputs("]}", stdout);
}

static void json_ranges(const struct job_ranges *c, const struct tft_model *m)
{
    char name[64];
    putchar('[');
    for (uint32_t i = 0; i < c->n; i++) {
        printf("%s{\"name\":\"%s\"", i ? "," : "",
               quantize_input_name(m->n_layer, c->found.order[i], name));
        cli_json_number("nats", c->found.nats[c->found.order[i]]);
        putchar('}');
    }
    putchar(']');
}

static void json_inputs(const struct quantize_run *run)
{
    static const char *const kinds[] = {"float", "static", "token", "tensor"};
    char name[64];
    for (uint32_t i = 0; i < tft_model_inputs(run->m); i++) {
        const struct quantize_input *r = &run->result[i];
        printf("%s{\"name\":\"%s\",\"range\":\"%s\",\"scale\":%.9g,\"zero\":%d,\"min\":%.6g,"
               "\"max\":%.6g,\"error\":%.6g}",
               i ? "," : "", quantize_input_name(run->m->n_layer, i, name), kinds[run->range[i]],
               (double)r->affine.scale, (int)r->affine.zero, (double)r->min, (double)r->max,
               r->error);
    }
}

void quantize_report_json(const struct quantize_run *run)
{
    const struct quantize_opts *o = &run->o;
    printf("{\"seconds\":%.3f,\"tokens\":%zu,\"window\":%u,\"prefix\":[", run->seconds,
           o->n_text / o->window * o->window, o->window);
    for (uint32_t i = 0; i < o->n_prefix; i++)
        printf(i ? ",%d" : "%d", (int)o->prefix[i]);
    fputs("],\"tried\":", stdout);
    json_choice(&run->prefix);
    fputs(",\"cushion\":", stdout);
    json_cushion(o->cushion);
    fputs(",\"tune\":", stdout);
    json_tuning(&run->tune);
    fputs(",\"system\":", stdout);
    json_systems(&run->system);
    fputs(",\"kv_search\":", stdout);
    json_kv_search(&run->kv);
    fputs(",\"bits_search\":", stdout);
    json_bits(&run->bits);
    fputs(",\"dynamic\":", stdout);
    json_ranges(&run->ranges, run->m);
    fputs(",\"check\":", stdout);
    check_json(stdout, run->check.loss);
    fputs(",\"inputs\":[", stdout);
    json_inputs(run);
    puts("]}");
}
