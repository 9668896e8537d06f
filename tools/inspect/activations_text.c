/* The report on activations as text. */
#include <math.h>
#include <string.h>

#include "activations_report.h"
#include "model/ends.h"
#include "model/keys.h"
#include "tools/cli/cli.h"
#include "tools/quantize/inside.h"

static const char *const run_names[RUNS] = {"without", "with"};

static void put_token(const struct report *r, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(r->m, id, true, &n);
    printf("%d \"", (int)id);
    cli_put_escaped(stdout, p, n);
    putchar('"');
}

static void show_heading(const struct report *r)
{
    const struct activations *a = &r->run[WITHOUT_PREFIX];
    const struct tft_value *v = r->n_runs == RUNS
                                    ? tft_source_value(&r->m->source, TFT_KEY_PREFIX_TOKENS)
                                    : NULL;
    fputs("text     ", stdout);
    cli_put_escaped(stdout, r->o->text, strlen(r->o->text));
    printf(", %u tokens in %u window%s of %u%s\n", a->n_window * r->window, a->n_window,
           a->n_window > 1 ? "s" : "", r->window, a->window > r->window ? " after BOS" : "");
    for (uint64_t i = 0; v && i < v->n; i++) {
        int64_t id = -1;
        tft_value_int(v, i, &id);
        fputs(i ? ", " : "prefix   ", stdout);
        put_token(r, (int32_t)id);
    }
    puts(v ? "\n" : "");
}

/* Columns of a row's name and the name of the run. */
static int name_width(const struct report *r)
{
    return r->n_runs == RUNS ? 21 : 12;
}

/* The name of a row is printed once; a model with a prefix has a row for each run. */
static void put_row_name(const struct report *r, const char *name, int run)
{
    printf("%-12s", run ? "" : name);
    if (r->n_runs == RUNS)
        printf(" %-8s", run_names[run]);
}

static void show_stream_row(const struct report *r, uint32_t layer, int run)
{
    const struct activations *a = &r->run[run];
    const struct activations_input *in = &a->stream[layer];
    char name[64];
    put_row_name(r, report_stream_name(a, layer, name), run);
    printf("%9.4g %9.4g %9.4g %9.4g %9.4g", in->top[0], in->top[1], in->top[2], in->tenth,
           in->median);
    double sink = layer < a->n_layer ? activations_sink(a, layer) : NAN;
    if (isnan(sink))
        printf(" %10s", layer < a->n_layer ? "-" : "");
    else
        printf(" %8.1f %%", 100 * sink);
    printf("  channel %-5u ", in->channel);
    put_token(r, report_token(a, in->window, in->position));
    printf(" at %u", in->position);
    printf(a->n_window > 1 ? " of window %u\n" : "\n", in->window);
}

static void show_stream(const struct report *r)
{
    printf("%-*s%9s %9s %9s %9s %9s %10s  %s\n", name_width(r), "input of", "top-1", "top-2",
           "top-3", "top 10 %", "median", "attention", "largest");
    for (uint32_t l = 0; l <= r->m->n_layer; l++)
        for (int i = 0; i < r->n_runs; i++)
            show_stream_row(r, l, i);
    printf("Attention: the share that %s receives.\n",
           r->n_runs == RUNS ? "the first token, or the prefix," : "the first token");
}

static void show_linear(const struct report *r)
{
    char name[64];
    bool bytes = r->m->embed.format->takes_bytes;
    printf("\nInputs of linear layers%s: top-1, median\n%-*s", bytes ? ", dequantized" : "",
           name_width(r), "");
    for (uint32_t i = 0; i < TFT_LAYER_INPUTS; i++)
        printf(" %18s", quantize_part_name(i));
    putchar('\n');
    for (uint32_t l = 0; l <= r->m->n_layer; l++)
        for (int run = 0; run < r->n_runs; run++) {
            const struct activations_input *in = &r->run[run].linear[l * TFT_LAYER_INPUTS];
            bool head = l == r->m->n_layer;
            put_row_name(r, head ? "output" : report_stream_name(&r->run[run], l, name), run);
            for (uint32_t i = 0; i < (head ? 1 : TFT_LAYER_INPUTS); i++)
                printf(" %9.4g %8.3g", in[i].top[0], in[i].median);
            putchar('\n');
        }
}

/* Whether input i has a larger share of numbers at the ends than input k; of equal shares, the
   first input counts as larger. */
static bool more_ends(const struct activations *a, uint32_t i, uint32_t k)
{
    double x = activations_ends(&a->linear[i], 1), y = activations_ends(&a->linear[k], 1);
    return x > y || (x >= y && i < k);
}

/* The input with the largest share after that of input `last`; of all if `last` is n. n: no further
   share above 0. */
static uint32_t next_ends(const struct activations *a, uint32_t n, uint32_t last)
{
    uint32_t next = n;
    for (uint32_t i = 0; i < n; i++)
        if (a->linear[i].at_ends && (last == n || more_ends(a, last, i)) &&
            (next == n || more_ends(a, i, next)))
            next = i;
    return next;
}

static void show_ends_row(const char *name, double share, double calibrated)
{
    printf("%-20s %12.4f", name, 100 * share);
    if (isnan(calibrated))
        printf(" %12s", "-");
    else
        printf(" %12.4f", 100 * calibrated);
    puts(cli_ends_unlike(share, calibrated) ? "  more than ten times" : "");
}

/* Numbers at the ends of static ranges, in the run with the prefix, if there is one: of the inputs
   with the largest shares, and of all inputs with far larger shares than at calibration. */
static void show_ends(const struct report *r)
{
    enum { SHOWN = 8 };
    const struct activations *a = &r->run[r->n_runs - 1];
    uint32_t n = tft_model_inputs(r->m), shown = 0;
    double all = activations_ends(a->linear, n);
    char name[64];
    if (isnan(all))
        return; /* no range is static */
    printf("\nNumbers at the ends of static ranges, in percent\n%-20s %12s %12s\n", "",
           "this text", "calibration");
    for (uint32_t i = next_ends(a, n, n); i < n; i = next_ends(a, n, i)) {
        double share = activations_ends(&a->linear[i], 1),
               calibrated = tft_input_ends(r->m, i);
        if (shown++ < SHOWN || cli_ends_unlike(share, calibrated))
            show_ends_row(quantize_input_name(a->n_layer, i, name), share, calibrated);
    }
    show_ends_row("all", all, tft_calibrated_ends(r->m));
}

enum { SHOWN_SIZE = 1 }; /* of cache_cost_size */

static void show_cache_row(const char *name, const struct cache_cost_found *f)
{
    double keys = f->error[COST_KEY_OUTPUT], values = f->error[COST_VALUE_OUTPUT];
    printf("%-12s", name);
    for (int rule = 0; rule < COST_RULES; rule++)
        printf(" %8.1f", 100 * f->kept[rule][SHOWN_SIZE]);
    printf(" %12.3g %12.3g %8.3g\n", keys, values, keys / values);
}

/* Effects of quantized caches, in the run with the prefix, if there is one. */
static void show_cache(const struct report *r)
{
    const struct activations *a = &r->run[r->n_runs - 1];
    char name[64];
    struct cache_cost_found all = cache_cost_mean(a->cost, a->n_layer * a->n_head);
    if (all.queries == 0)
        return; /* the windows are too short */
    printf("\nEffect of a quantized KV cache: share of attention, in percent, of the %u tokens "
           "that it\nkeeps in f16; mean squared error of attention's output with keys, or values, "
           "of 2 bits\n%-12s",
           (unsigned)cache_cost_size[SHOWN_SIZE], "");
    for (int rule = 0; rule < COST_RULES; rule++)
        printf(" %8s", cache_cost_rule_name[rule]);
    printf(" %12s %12s %8s\n", "keys", "values", "ratio");
    for (uint32_t l = 0; l < a->n_layer; l++) {
        struct cache_cost_found f = cache_cost_mean(a->cost + (size_t)l * a->n_head, a->n_head);
        if (f.queries > 0) /* the layer has attention */
            show_cache_row(report_stream_name(a, l, name), &f);
    }
    show_cache_row("all", &all);
}

static void show_pivots(const struct report *r, int run)
{
    enum { SHOWN = 8 };
    const struct activations *a = &r->run[run];
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->window; i++) {
        if (!r->pivot[run][i] || n++ >= SHOWN)
            continue;
        printf("  %9.4g  ", (double)a->token_top[(size_t)r->worst * a->window + i]);
        put_token(r, report_token(a, 0, i));
        printf(" at %u\n", i);
    }
    if (n > SHOWN)
        printf("  and %u more\n", n - SHOWN);
    if (!n)
        puts("  none");
}

void report_print_text(const struct report *r)
{
    char name[64];
    show_heading(r);
    show_stream(r);
    show_linear(r);
    show_ends(r);
    show_cache(r);
    for (int i = 0; i < r->n_runs; i++) {
        printf("\nTokens that stand out at the input of %s, more than %d times the median token",
               report_stream_name(&r->run[i], r->worst, name), ACTIVATIONS_PIVOT);
        printf(r->n_runs == RUNS ? ", %s the prefix:\n" : ":\n", run_names[i]);
        show_pivots(r, i);
    }
}
