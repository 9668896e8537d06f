/* llama.cpp's /metrics: the counters of the engines, for Prometheus. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"
#include "tools/cli/clock.h"

enum { MOST = 32 };

/* The counters of a model. */
struct page {
    struct figure {
        const char *name, *type, *help;
        double value; /* NaN: unknown */
    } figure[MOST];
    size_t n;
};

static void metric(struct page *p, const char *name, const char *type, const char *help,
                   double value)
{
    if (p->n < MOST)
        p->figure[p->n++] = (struct figure){name, type, help, value};
}

static double per(double n, double d) { return d > 0 ? n / d : 0; }

static void add_cache(struct page *f, const struct engine_counts *c, const struct store_counts *st)
{
    metric(f, "cache_hits_slot_total", "counter", "Prompts that began with tokens of a slot.",
           (double)c->hits[STORE_NOTHING]);
    metric(f, "cache_hits_memory_total", "counter", "Prompts that began with a session in memory.",
           (double)c->hits[STORE_MEMORY]);
    metric(f, "cache_hits_disk_total", "counter", "Prompts that began with a session on disk.",
           (double)c->hits[STORE_DISK]);
    metric(f, "cache_saved_total", "counter", "Sessions that were saved in memory.",
           (double)c->saved);
    metric(f, "cache_sessions", "gauge", "Sessions in memory, without the slots.",
           (double)st->n_sessions);
    metric(f, "cache_memory_bytes", "gauge", "Bytes of --cache-mem that are in use.",
           (double)st->memory);
    metric(f, "cache_files", "gauge", "Files of --cache-dir that sessions can be loaded from.",
           (double)st->n_files);
    metric(f, "cache_disk_bytes", "gauge", "Bytes of --cache-disk that are in use.",
           (double)st->disk);
}

static void add_counts(struct page *f, const struct engine_counts *c)
{
    metric(f, "prompt_tokens_total", "counter", "Tokens of prompts that were computed.",
           (double)c->prompt_tokens);
    metric(f, "prompt_tokens_cached_total", "counter", "Tokens of prompts that were not computed.",
           (double)c->cached_tokens);
    metric(f, "prompt_seconds_total", "counter", "Time from the start of prompts to their end.",
           c->prompt_seconds);
    metric(f, "tokens_predicted_total", "counter", "Tokens of answers.", (double)c->tokens);
    metric(f, "tokens_predicted_seconds_total", "counter", "Time spent on answers.", c->seconds);
    metric(f, "n_decode_total", "counter", "Passes of the model.", (double)c->passes);
    metric(f, "n_busy_slots_per_decode", "gauge", "Slots that a pass fed, on average.",
           per((double)c->steps, (double)c->passes));
    metric(f, "n_tokens_max", "gauge", "Most tokens that a slot had.", (double)c->most_tokens);
    metric(f, "prompt_tokens_seconds", "gauge", "Tokens of prompts per second, on average.",
           per((double)c->prompt_tokens, c->prompt_seconds));
    metric(f, "predicted_tokens_seconds", "gauge", "Tokens of answers per second, on average.",
           per((double)c->tokens, c->seconds));
    metric(f, "inputs_total", "counter", "Numbers that were rounded to 8 bits in static ranges.",
           (double)c->ends.numbers);
    metric(f, "inputs_at_ends_total", "counter", "Numbers at the ends of static ranges.",
           (double)c->ends.at_ends);
    metric(f, "inputs_at_ends_calibration", "gauge",
           "Share of numbers at the ends of static ranges at calibration.", c->calibrated_ends);
    metric(f, "requests_processing", "gauge", "Requests in progress.", (double)c->running);
    metric(f, "requests_deferred", "gauge", "Waiting requests.", (double)c->waiting);
}

/* A model that is closed keeps its counters, and has no gauges. */
static void fill(struct page *p, const struct served *s)
{
    p->n = 0;
    if (!s->engine && !s->past.passes)
        return;
    struct engine_counts c = s->engine ? engine_counts(s->engine) : s->past;
    struct store_counts st = {0};
    if (s->engine)
        st = engine_stored(s->engine);
    add_counts(p, &c);
    add_cache(p, &c, &st);
    metric(p, "model_bytes", "gauge", "Bytes of the model and of the caches of all slots.",
           (double)s->bytes);
    for (size_t i = 0; i < p->n; i++)
        if (!s->engine && strcmp(p->figure[i].type, "gauge") == 0)
            p->figure[i].value = NAN;
}

/* The answer. */
struct written {
    struct cli_text text;
    bool failed; /* out of memory */
};

/* Appends a piece of less than 512 bytes. */
CLI_PRINTF(2, 3) static void put(struct written *w, const char *form, ...)
{
    char piece[512];
    va_list args;
    va_start(args, form);
    int n = vsnprintf(piece, sizeof piece, form, args);
    va_end(args);
    w->failed = w->failed || n < 0 || (size_t)n >= sizeof piece ||
                !cli_text_append(&w->text, piece, (size_t)n);
}

/* A name as the value of a label. */
static void write_label(struct written *w, const char *name)
{
    put(w, "{model=\"");
    for (; *name; name++)
        put(w, "%s%c", *name == '"' || *name == '\\' ? "\\" : "", *name == '\n' ? ' ' : *name);
    put(w, "\"}");
}

/* The lines of one counter: one for each model that has it, with its name if there may be
   several. */
static void write_figure(struct written *w, const struct server *s, const struct page *all,
                         size_t at)
{
    bool first = true;
    for (size_t i = 0; i < s->n_models; i++) {
        const struct figure *g = at < all[i].n ? &all[i].figure[at] : NULL;
        if (!g || isnan(g->value))
            continue;
        if (first)
            put(w, "# HELP tuffet:%s %s\n# TYPE tuffet:%s %s\n", g->name, g->help, g->name,
                g->type);
        first = false;
        put(w, "tuffet:%s", g->name);
        if (s->several)
            write_label(w, s->models[i]->id);
        put(w, " %.17g\n", g->value);
    }
}

/* Of the machine: without a model. */
static void write_clock(struct written *w)
{
    static const char form[] = "# HELP tuffet:%s %s\n# TYPE tuffet:%s gauge\ntuffet:%s %.17g\n";
    static const char *const name[] = {"cpu_clock_hertz", "cpu_clock_most_hertz"};
    struct clock c;
    if (!clock_read(&c, CLOCK_FOLDER))
        return;
    put(w, form, name[0], "Clock of the CPUs now, on average.", name[0], name[0], c.mhz * 1e6);
    put(w, form, name[1], "Largest clock of the CPUs, on average.", name[1], name[1],
        c.most_mhz * 1e6);
}

/* False: out of memory. The caller frees w->text.p. */
static bool write_all(struct written *w, const struct server *s, const struct page *all)
{
    for (size_t at = 0; at < MOST; at++)
        write_figure(w, s, all, at);
    write_clock(w);
    return !w->failed;
}

void native_metrics(struct exchange *x)
{
    const struct server *s = x->server;
    struct page *all = calloc(s->n_models, sizeof *all);
    struct written w = {0};
    for (size_t i = 0; all && i < s->n_models; i++)
        fill(&all[i], s->models[i]);
    if (all && write_all(&w, s, all))
        reply_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", w.text.p, w.text.n);
    else
        reply_error(x, 500, "server_error", "out of memory");
    free(w.text.p);
    free(all);
}
