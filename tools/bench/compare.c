#include "compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs.h"
#include "tools/chat/process.h"

enum { ROWS_MOST = 64, PATIENCE = 24 * 3600, OUTPUT_MOST = 1 << 20 };

/* One row of bench --json. */
struct measured {
    char what[96];           /* its beginning, by which the programs' rows are held together */
    double tok_s, cpu_tok_s; /* NaN: the program does not tell */
};

struct table {
    struct measured own[RUNS_MOST][ROWS_MOST], other[RUNS_MOST][ROWS_MOST]; /* [pairs][n] */
    int n;
};

/* The number `name` in the text of a row, which ends at `end`; NaN: it has none, or null. */
static double number_of(const char *row, const char *end, const char *name)
{
    const char *at = strstr(row, name);
    char *rest;
    if (!at || at >= end)
        return NAN;
    at += strlen(name);
    double x = strtod(at, &rest);
    return rest > at ? x : NAN;
}

/* Reads the rows of bench --json. Returns how many, or 0 if the text is something else. */
static int read_rows(struct measured *rows, const char *json)
{
    int n = 0;
    for (const char *at = strstr(json, "{\"what\":"); at; at = strstr(at + 1, "{\"what\":")) {
        const char *end = strchr(at, '}'), *head = strstr(at, ",\"session\":");
        size_t len = head ? (size_t)(head - at) : 0;
        if (!end || !head || head > end || len >= sizeof rows->what || n == ROWS_MOST)
            return 0;
        struct measured *r = &rows[n++];
        memcpy(r->what, at, len);
        r->what[len] = 0;
        r->tok_s = number_of(at, end, "\"tok_s\":");
        r->cpu_tok_s = number_of(at, end, "\"cpu_tok_s\":");
        if (!(r->tok_s > 0))
            return 0;
    }
    return n;
}

static int explain(const char *program, const struct process_result *r)
{
    switch (r->end) {
    case PROCESS_INTERRUPT: return CLI_INTERRUPTED;
    case PROCESS_NOT_STARTED:
        if (r->code == ENOSYS)
            return cli_fail("--compare: a build for Windows starts no other programs");
        return cli_fail("%s: %s", program, strerror(r->code));
    case PROCESS_SIGNAL: return cli_fail("%s: ended by signal %d", program, r->code);
    case PROCESS_TIME: return cli_fail("%s: took longer than a day", program);
    case PROCESS_EXITED: break;
    }
    return r->code ? cli_fail("%s: ended with status %d", program, r->code) : CLI_OK;
}

/* Runs one program once. */
static int measure(struct measured *rows, int *n, const struct compare *c, const char *program)
{
    const char *argv[COMPARE_ARGS + 6] = {program, "bench"};
    int k = 2;
    for (int i = 0; i < c->n_args; i++)
        argv[k++] = c->args[i];
    argv[k++] = "--runs=1";
    argv[k++] = "--json";
    const struct process p = {.argv = argv, .most = OUTPUT_MOST, .seconds = PATIENCE};
    struct process_result r;
    process_run(&p, &r);
    int status = explain(program, &r);
    bool complete = !r.left_out && cli_text_append(&r.out, "", 1);
    *n = complete && status == CLI_OK ? read_rows(rows, r.out.p) : 0;
    free(r.out.p);
    if (status == CLI_OK && !*n)
        return cli_fail("%s: its bench --json prints no rows", program);
    return status;
}

/* Both programs once. */
static int measure_pair(struct table *t, const struct compare *c, uint32_t pair)
{
    int n[2], status = CLI_OK;
    for (uint32_t k = 0; k < 2 && status == CLI_OK; k++) {
        bool other = (k + pair) % 2;
        status =
            measure(other ? t->other[pair] : t->own[pair], &n[other], c, other ? c->other : c->own);
    }
    if (status != CLI_OK)
        return status;
    bool same = n[0] == n[1] && (!pair || n[0] == t->n);
    for (int i = 0; same && i < n[0]; i++)
        same = strcmp(t->own[pair][i].what, t->other[pair][i].what) == 0;
    t->n = n[0];
    return same ? CLI_OK
                : cli_fail("%s measures something else: its rows differ; perhaps its default of "
                           "--kv or -t does",
                           c->other);
}

/* ---- the rows */

struct ratios {
    double own, other; /* tokens/s, the medians */
    struct spread ratio;
    bool known;
};

static double speed_of(const struct measured *m, bool cpu) { return cpu ? m->cpu_tok_s : m->tok_s; }

static struct ratios ratios_of(const struct table *t, int row, uint32_t pairs, bool cpu)
{
    double own[RUNS_MOST], other[RUNS_MOST], ratio[RUNS_MOST];
    struct ratios r = {.known = true};
    for (uint32_t i = 0; i < pairs; i++) {
        own[i] = speed_of(&t->own[i][row], cpu);
        other[i] = speed_of(&t->other[i][row], cpu);
        ratio[i] = own[i] / other[i];
        r.known = r.known && isfinite(ratio[i]);
    }
    if (!r.known)
        return r;
    r.own = spread_of(own, pairs).median;
    r.other = spread_of(other, pairs).median;
    r.ratio = spread_of(ratio, pairs);
    return r;
}

/* All pairs have to agree. */
static const char *verdict(const struct spread *ratio, uint32_t pairs)
{
    if (pairs < COMPARE_FEWEST)
        return "too few pairs";
    return ratio->least > 1 ? "faster" : ratio->most < 1 ? "slower" : "within noise";
}

/* The text or number `name` of a row's beginning, without quotes. */
static const char *part_of(char out[32], const char *what, const char *name)
{
    const char *at = strstr(what, name);
    size_t len = 0;
    if (at) {
        at += strlen(name);
        at += *at == '"';
        len = strcspn(at, "\",");
        len = len < 31 ? len : 31;
        memcpy(out, at, len);
    }
    out[len] = 0;
    return out;
}

static void print_row(const char *what, const struct ratios *wall, const struct ratios *cpu,
                      uint32_t pairs)
{
    char name[32], tokens[32], depth[32], threads[32], kv[32], range[32];
    snprintf(range, sizeof range, "%.3f..%.3f", wall->ratio.least, wall->ratio.most);
    printf("%-8s %6s %6s %7s  %-4s %10.1f %10.1f %6.3f %12s ", part_of(name, what, "\"what\":"),
           part_of(tokens, what, "\"tokens\":"), part_of(depth, what, "\"depth\":"),
           part_of(threads, what, "\"threads\":"), part_of(kv, what, "\"kv\":"), wall->own,
           wall->other, wall->ratio.median, range);
    if (cpu->known)
        snprintf(range, sizeof range, "%.3f..%.3f", cpu->ratio.least, cpu->ratio.most);
    if (cpu->known)
        printf("%6.3f %12s", cpu->ratio.median, range);
    else
        printf("%6s %12s", "-", "-");
    printf("  %s\n", verdict(&wall->ratio, pairs));
}

static void print_table(const struct table *t, const struct compare *c)
{
    printf("%s against %s, %u pair%s\n\n%-8s %6s %6s %7s  %-4s %10s %10s %6s %12s %6s %12s\n",
           c->own, c->other, c->pairs, c->pairs > 1 ? "s" : "", "", "tokens", "depth", "threads",
           "kv", "tokens/s", "other", "ratio", "range", "by CPU", "range");
    for (int i = 0; i < t->n; i++) {
        struct ratios wall = ratios_of(t, i, c->pairs, false),
                      cpu = ratios_of(t, i, c->pairs, true);
        print_row(t->own[0][i].what, &wall, &cpu, c->pairs);
    }
}

static void print_ratio(const char *name, const struct ratios *r)
{
    if (r->known)
        printf(",\"%s\":{\"median\":%.6g,\"least\":%.6g,\"most\":%.6g}", name, r->ratio.median,
               r->ratio.least, r->ratio.most);
    else
        printf(",\"%s\":null", name);
}

static void print_json(const struct table *t, const struct compare *c)
{
    printf("{\"pairs\":%u,\"rows\":[", c->pairs);
    for (int i = 0; i < t->n; i++) {
        struct ratios wall = ratios_of(t, i, c->pairs, false),
                      cpu = ratios_of(t, i, c->pairs, true);
        printf("%s%s,\"tok_s\":%.6g,\"other_tok_s\":%.6g", i ? "," : "", t->own[0][i].what,
               wall.own, wall.other);
        print_ratio("ratio", &wall);
        print_ratio("cpu_ratio", &cpu);
        printf(",\"verdict\":\"%s\"}", verdict(&wall.ratio, c->pairs));
    }
    printf("]}\n");
}

int compare_programs(const struct compare *c)
{
    struct table *t = calloc(1, sizeof *t);
    int status = t ? CLI_OK : cli_fail("out of memory");
    for (uint32_t i = 0; i < c->pairs && status == CLI_OK; i++)
        status = measure_pair(t, c, i);
    if (status == CLI_OK && c->json)
        print_json(t, c);
    else if (status == CLI_OK)
        print_table(t, c);
    free(t);
    return status;
}
