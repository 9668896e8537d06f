/* The report on activations as one JSON object. */
#include <math.h>
#include <string.h>

#include "activations_report.h"
#include "model/ends.h"
#include "tools/cli/cli.h"
#include "tools/quantize/inside.h"

static void json_real(double x)
{
    if (isfinite(x))
        printf("%.6g", x);
    else
        fputs("null", stdout);
}

static void json_text(const struct report *r, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(r->m, id, true, &n);
    cli_json_string(stdout, p, n);
}

static void json_input(const struct report *r, const struct activations *a,
                       const struct activations_input *in, const char *name)
{
    int32_t id = report_token(a, in->window, in->position);
    printf("{\"name\":\"%s\",\"top\":[", name);
    for (int i = 0; i < MAGNITUDES_TOP; i++) {
        fputs(i ? "," : "", stdout);
        json_real(in->top[i]);
    }
    fputs("],\"top_10_percent\":", stdout);
    json_real(in->tenth);
    fputs(",\"median\":", stdout);
    json_real(in->median);
    fputs(",\"largest\":", stdout);
    json_real((double)in->largest);
    printf(",\"window\":%u,\"position\":%u,\"channel\":%u,\"token\":%d,\"text\":", in->window,
           in->position, in->channel, (int)id);
    json_text(r, id);
}

/* Of linear layers' input `index`; the share at calibration is for its static range. */
static void json_ends(const struct report *r, const struct activations *a, uint32_t index)
{
    double share = activations_ends(&a->linear[index], 1);
    fputs(",\"ends\":", stdout);
    json_real(share);
    fputs(",\"calibrated_ends\":", stdout);
    json_real(isnan(share) ? share : tft_input_ends(r->m, index));
}

static void json_attention(const struct activations *a, uint32_t layer)
{
    fputs(",\"attention\":", stdout);
    json_real(activations_sink(a, layer));
    fputs(",\"heads\":[", stdout);
    for (uint32_t h = 0; h < a->n_head; h++) {
        fputs(h ? "," : "", stdout);
        json_real(a->sink[(size_t)layer * a->n_head + h]);
    }
    putchar(']');
}

static void json_sizes(const double *share)
{
    fputs(",\"output_sizes\":[", stdout);
    for (int i = 0; i < COST_BINS; i++) {
        fputs(i ? "," : "", stdout);
        json_real(share[i]);
    }
    putchar(']');
}

/* Effects of a cache on the attention of a layer. */
static void json_cache(const struct activations *a, uint32_t layer)
{
    static const char *const errors[COST_ERRORS] = {"keys",   "scores", "weights",
                                                         "output", "values", "output"};
    struct cache_cost_found f =
        cache_cost_mean(a->cost + (size_t)layer * a->n_head, a->n_head);
    fputs(",\"kept\":{", stdout);
    for (int rule = 0; rule < COST_RULES; rule++) {
        printf("%s\"%s\":[", rule ? "," : "", cache_cost_rule_name[rule]);
        for (int s = 0; s < COST_SIZES; s++) {
            fputs(s ? "," : "", stdout);
            json_real(f.queries > 0 ? f.kept[rule][s] : NAN);
        }
        putchar(']');
    }
    for (int e = 0; e < COST_ERRORS; e++) {
        fputs(e == COST_KEY     ? "},\"keys_of_2_bits\":{"
              : e == COST_VALUE ? "},\"values_of_2_bits\":{"
                                     : ",",
              stdout);
        printf("\"%s\":", errors[e]);
        json_real(f.queries > 0 ? f.error[e] : NAN);
        if (e == COST_KEY_OUTPUT)
            json_sizes(f.key_sizes);
        if (e == COST_VALUE_OUTPUT)
            json_sizes(f.value_sizes);
    }
    putchar('}');
}

static void json_tokens(const struct report *r, int run)
{
    const struct activations *a = &r->run[run];
    printf(",\"worst\":%u,\"tokens\":[", r->worst);
    for (uint32_t i = 0; i < a->window; i++) {
        int32_t id = report_token(a, 0, i);
        printf("%s{\"token\":%d,\"text\":", i ? "," : "", (int)id);
        json_text(r, id);
        fputs(",\"top\":", stdout);
        json_real((double)a->token_top[(size_t)r->worst * a->window + i]);
        printf(",\"pivot\":%s}", r->pivot[run][i] ? "true" : "false");
    }
    putchar(']');
}

static void json_run(const struct report *r, int run)
{
    const struct activations *a = &r->run[run];
    char name[64];
    printf("%s{\"prefix\":%u,\"window\":%u,\"blocks\":[", run ? "," : "", a->n_prefix, a->window);
    for (uint32_t l = 0; l <= a->n_layer; l++) {
        fputs(l ? "," : "", stdout);
        json_input(r, a, &a->stream[l], report_stream_name(a, l, name));
        if (l < a->n_layer) {
            json_attention(a, l);
            json_cache(a, l);
        }
        putchar('}');
    }
    fputs("],\"inputs\":[", stdout);
    for (uint32_t i = 0; i < tft_model_inputs(r->m); i++) {
        fputs(i ? "," : "", stdout);
        json_input(r, a, &a->linear[i], quantize_input_name(a->n_layer, i, name));
        json_ends(r, a, i);
        putchar('}');
    }
    putchar(']');
    json_tokens(r, run);
    putchar('}');
}

void report_print_json(const struct report *r)
{
    fputs("{\"file\":", stdout);
    cli_json_string(stdout, r->model_path, strlen(r->model_path));
    fputs(",\"text\":", stdout);
    cli_json_string(stdout, r->o->text, strlen(r->o->text));
    printf(",\"tokens\":%u,\"windows\":%u,\"runs\":[", r->run[0].n_window * r->window,
           r->run[0].n_window);
    for (int i = 0; i < r->n_runs; i++)
        json_run(r, i);
    puts("]}");
}
