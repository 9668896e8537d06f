#include "tools/quantize/command_ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/open.h"
#include "tools/quantize/command_prefix.h"
#include "tools/quantize/search/range_search.h"
#include "tools/quantize/write/in_place.h"

/* Per-token ranges cost time. So inputs stay static if their total loss is below NEGLIGIBLE_NATS,
   or if per-token ranges gain less than LEAST_GAIN of the loss and still miss the bars. */
#define NEGLIGIBLE_NATS 0.002
#define LEAST_GAIN 0.1

static struct {
    const char *dynamic;
    int per;
} opt = {.dynamic = "auto"};

const struct cli_option command_ranges_option_list[] = {
    {0, "dynamic", CLI_TEXT, &opt.dynamic, "LIST",
     "measure the ranges of these inputs at run time: all, none, or layers and parts like "
     "\"0-3,ffn_down,5.attn_q,output\"; auto: of the inputs that lose most on held-out text "
     "(default auto)"},
    {0, "dynamic-per", CLI_WORD, &opt.per, "token|tensor",
     "measure the ranges of --dynamic for each token, or for all tokens of a pass"},
    {0},
};

static bool is_auto(void) { return strcmp(opt.dynamic, "auto") == 0; }

/* ---- the list */

static enum tft_range dynamic_range(void)
{
    return opt.per ? TFT_RANGE_TENSOR : TFT_RANGE_TOKEN;
}

static bool is(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

/* Parses one item of --dynamic, the n bytes at p: "all", "output", layers, a part, or layers, a dot
   and a part. */
static bool take_item(const struct tft_model *m, enum tft_range *range, const char *p, size_t n)
{
    const char *end = p + n;
    uint32_t from = 0, to = m->n_layer - 1, head = m->n_layer * TFT_LAYER_INPUTS;
    bool every = is(p, n, "all"), found = every;
    if (every || is(p, n, "output"))
        range[head] = dynamic_range();
    if (is(p, n, "output"))
        return true;
    if (*p >= '0' && *p <= '9') {
        if (!quantize_take_layers(&p, &from, &to) || to >= m->n_layer || (p != end && *p != '.'))
            return false;
        every = found = p == end;
        p += p != end;
    }
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
        if (tft_model_has_input(m, i) &&
            (every || is(p, (size_t)(end - p), quantize_part_name(i)))) {
            found = true;
            for (uint32_t l = from; l <= to; l++)
                range[tft_input_index(m, l, i)] = dynamic_range();
        }
    return found;
}

int command_ranges_take(const struct tft_model *m, enum tft_range *range)
{
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        range[i] = TFT_RANGE_STATIC;
    if (is_auto() || strcmp(opt.dynamic, "none") == 0)
        return CLI_OK;
    for (const char *p = opt.dynamic, *next; p; p = next) {
        size_t n = strcspn(p, ",");
        if (!take_item(m, range, p, n))
            return cli_usage("--dynamic: \"%.*s\" is not an input of a model of %u layers", (int)n,
                             p, m->n_layer);
        next = p[n] ? p + n + 1 : NULL;
    }
    return CLI_OK;
}

/* ---- auto */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

bool command_ranges_hold(const struct command_check *c)
{
    bool good = true;
    for (int g = 0; g < CHECK_GROUPS; g++)
        good &= check_within(&c->loss[g], CHECK_PERCENT, CHECK_NATS);
    return good;
}

/* Measures the loss of each input. made: the model of the file */
static int search(struct range_search *r, struct tft_model *made, const struct command_text *t,
                  int n_threads)
{
    struct cli_progress bar;
    struct tft_error err;
    bool stopped;
    uint32_t n[CHECK_GROUPS], all = 0;
    for (int g = 0; g < CHECK_GROUPS; g++)
        all += n[g] = t->group[g].n_windows;
    int32_t *ids = malloc(((size_t)all * t->window + 1) * sizeof *ids);
    if (!ids)
        return cli_fail("out of memory");
    memcpy(ids, t->group[0].ids, (size_t)n[0] * t->window * sizeof *ids);
    memcpy(ids + (size_t)n[0] * t->window, t->group[1].ids,
           (size_t)n[1] * t->window * sizeof *ids);
    struct divergence_opts o = {.text = ids,
                                .n_windows = all,
                                .window = t->window,
                                .n_threads = n_threads,
                                .progress = progress,
                                .user = &bar};
    cli_progress_begin(&bar, "comparing ranges");
    enum tft_status status = range_search(r, made, &o, &stopped, &err);
    cli_progress_end(&bar);
    free(ids);
    if (status != TFT_OK)
        return cli_fail("%s", err.msg);
    if (!stopped)
        return CLI_OK;
    range_search_free(r);
    return CLI_INTERRUPTED;
}

/* How many inputs, the worst first, get per-token ranges at least: all that lose more than half as
   much as the worst one. Any change moves the predictions a little, as all later numbers are
   rounded to other bytes, so every input loses something. */
static uint32_t first_guess(const struct range_search *r, uint32_t most)
{
    uint32_t n = 1;
    while (n < most && r->nats[r->order[n]] > r->nats[r->order[0]] / 2)
        n++;
    return n;
}

static double rest_of(const struct range_search *r, uint32_t from)
{
    double rest = 0;
    for (uint32_t i = from; i < r->n; i++)
        rest += r->nats[r->order[i]];
    return rest;
}

/* How many inputs come next, after n were too few: a quarter more, or as many as make up for the
   file's loss beyond the bar. */
static uint32_t next_guess(const struct range_search *r, uint32_t n, uint32_t most,
                           const struct command_check *c)
{
    double beyond = 0, gained = 0;
    uint32_t next = n + n / 4 + 1;
    for (int g = 0; g < CHECK_GROUPS; g++)
        beyond = fmax(beyond, c->loss[g].divergence - CHECK_NATS);
    for (uint32_t i = n; i < r->n && (i < next || gained < beyond); i++) {
        gained += r->nats[r->order[i]];
        next = i + 1 > next ? i + 1 : next;
    }
    return next < most ? next : most;
}

/* Gives the first n inputs per-token ranges, in the file and in `range`. */
static int give(struct command_ranges *c, uint32_t n, const char *path, enum tft_range *range,
                uint32_t n_inputs)
{
    struct tft_error err;
    for (uint32_t i = 0; i < c->found.n; i++)
        range[c->found.order[i]] = i < n ? TFT_RANGE_TOKEN : TFT_RANGE_STATIC;
    c->n = n;
    return write_ranges(path, range, n_inputs, &err) == TFT_OK ? CLI_OK
                                                               : cli_fail("%s", err.msg);
}

/* Loss of the file measured last, relative to the bars; 1: it just reaches them. */
static double beyond_bars(const struct command_check *check)
{
    double most = 0;
    for (int g = 0; g < CHECK_GROUPS; g++) {
        const struct check_loss *l = &check->loss[g];
        if (l->tokens)
            most = fmax(most, fmax(l->divergence / CHECK_NATS, check_percent(l) / CHECK_PERCENT));
    }
    return most;
}

/* Gives per-token ranges to more inputs, as long as this gains something. */
static int give_more(struct command_ranges *c, struct command_check *check, const char *path,
                     enum tft_range *range, uint32_t n_inputs, int n_threads)
{
    const struct range_search *r = &c->found;
    int status = CLI_OK;
    while (status == CLI_OK && c->n < c->most && !command_ranges_hold(check) &&
           rest_of(r, c->n) > NEGLIGIBLE_NATS) {
        uint32_t before = c->n,
                 n = c->n ? next_guess(r, c->n, c->most, check) : first_guess(r, c->most);
        struct check_loss lost[CHECK_GROUPS];
        double beyond = beyond_bars(check);
        memcpy(lost, check->loss, sizeof lost);
        status = give(c, n, path, range, n_inputs);
        if (status == CLI_OK)
            status = command_check_file(check, path, "checking ranges", n_threads);
        if (status != CLI_OK || command_ranges_hold(check) ||
            beyond_bars(check) < (1 - LEAST_GAIN) * beyond)
            continue;
        memcpy(check->loss, lost, sizeof lost);
        return give(c, before, path, range, n_inputs);
    }
    return status;
}

int command_ranges_choose(struct command_ranges *c, struct command_check *check,
                          const struct command_text *t, const char *path, enum tft_range *range,
                          int n_threads)
{
    struct tft_model_opts mo = {.size = sizeof mo, .n_threads = n_threads};
    struct tft_model *made;
    struct tft_error err;
    if (!is_auto() || command_ranges_hold(check))
        return CLI_OK;
    if (tft_model_open(&made, path, &mo, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    int status = c->searched ? CLI_OK : search(&c->found, made, t, n_threads);
    uint32_t n_inputs = tft_model_inputs(made);
    tft_model_close(made);
    if (status != CLI_OK)
        return status;
    c->searched = true;
    c->most = (c->found.n + 3) / 4;
    return give_more(c, check, path, range, n_inputs, n_threads);
}

void command_ranges_free(struct command_ranges *c)
{
    range_search_free(&c->found);
    *c = (struct command_ranges){0};
}

/* ---- the report */

void command_ranges_report(const struct command_ranges *c, const struct command_check *check,
                           const struct tft_model *m)
{
    char name[64];
    for (uint32_t i = 0; i < c->n; i++)
        fprintf(stderr, "range per token: %s, which lost %.4f nats with a static range\n",
                quantize_input_name(m->n_layer, c->found.order[i], name),
                c->found.nats[c->found.order[i]]);
    for (int g = 0; g < CHECK_GROUPS && c->searched; g++)
        if (!check_within(&check->loss[g], CHECK_PERCENT, CHECK_NATS))
            fprintf(stderr,
                    "note: %s loses more than %g %% or %g nats; %s\n",
                    check_group_name((enum check_group)g), CHECK_PERCENT, CHECK_NATS,
                    c->n == c->most ? "a quarter of the inputs have ranges per token"
                                    : "more ranges per token would gain little");
}

void command_ranges_json(const struct command_ranges *c, const struct tft_model *m)
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
