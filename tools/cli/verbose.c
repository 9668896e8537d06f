#define _POSIX_C_SOURCE 200809L
#include "verbose.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "port/port.h"

const struct cli_option cli_verbose_option_list[] = {
    {0, "verbose", CLI_FLAG, &cli_model_options.verbose, NULL,
     "print to standard error which kernels, threads, cache, prefix and memory MODEL runs with; "
     "chat and serve also say how many tokens of each prompt were cached, and where the prompt "
     "first differs"},
    {0},
};

static atomic_size_t held; /* bytes of the model */

static void *count_alloc(void *user, size_t size, size_t align)
{
    void *p = tft_port_alloc(size, align);
    (void)user;
    if (p)
        held += size;
    return p;
}

static void count_free(void *user, void *p, size_t size)
{
    (void)user;
    if (p)
        held -= size;
    tft_port_free(p);
}

const struct tft_allocator *verbose_allocator(void)
{
    static const struct tft_allocator counts = {.alloc = count_alloc, .free = count_free};
    held = 0;
    return cli_model_options.verbose ? &counts : NULL;
}

/* ---- the model */

static const char *weights_of(enum tft_weights w)
{
    switch (w) {
    case TFT_WEIGHTS_I8: return "W8A8: int8, perhaps as codes of fewer bits";
    case TFT_WEIGHTS_PACKED: return "packed codes of 1 to 8 bits";
    case TFT_WEIGHTS_F32: return "f32";
    case TFT_WEIGHTS_F16: return "f16";
    case TFT_WEIGHTS_BF16: return "bf16";
    case TFT_WEIGHTS_STORED: break;
    }
    return "unknown";
}

void verbose_model(const struct tft_model *m, const char *path)
{
    struct tft_model_info info = {.size = sizeof info};
    struct stat st;
    if (!cli_model_options.verbose)
        return;
    tft_model_describe(m, &info);
    fputs("file     ", stderr);
    cli_put_escaped(stderr, path, strlen(path));
    if (stat(path, &st) == 0)
        fprintf(stderr, ", %s", cli_amount((uint64_t)st.st_size).text);
    fprintf(stderr, "\nweights  %s; a token reads %s\n", weights_of(info.weights),
            cli_amount(info.weight_bytes).text);
    fprintf(stderr, "kernels  %s%s\n", tft_cpu_name(), cli_model_options.cpu ? ", by --cpu" : "");
    if (info.n_device)
        fprintf(stderr, "device   %" PRIu32 " of %" PRIu32 " layers\n", info.n_device,
                info.n_layer);
    fprintf(stderr, "model    %s of memory beside the file\n", cli_amount(held).text);
}

/* ---- the session */

CLI_PRINTF(2, 3) static void append(struct cli_text *t, const char *fmt, ...)
{
    char piece[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(piece, sizeof piece, fmt, args);
    va_end(args);
    if (n > 0)
        cli_text_append(t, piece, (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1);
}

/* The default number of threads, and its reason. */
static void append_default_threads(struct cli_text *t, const struct tft_cpus *c)
{
    const char *each = c->fast < c->cores      ? "one for each fast core"
                       : c->cores < c->allowed ? "one for each core"
                                               : "one for each CPU";
    append(t, "%d, %s (CPUs %d, cores %d, fast cores %d", tft_cpu_threads(),
           c->quota && c->quota < c->fast ? "by the quota of the cgroup" : each, c->allowed,
           c->cores, c->fast);
    if (c->quota)
        append(t, ", quota %d", c->quota);
    append(t, ")");
}

static void append_threads(struct cli_text *t, int n)
{
    struct tft_cpus c;
    if (!tft_port_threaded()) {
        append(t, "threads  1, as this build has no others\n");
        return;
    }
    tft_port_count_cpus(&c);
    append(t, "threads  ");
    if (n) {
        append(t, "%d; ", n);
        if (n > c.allowed)
            append(t, "a pass uses at most %d, one for each CPU; ", c.allowed);
        append(t, "the default is ");
    }
    append_default_threads(t, &c);
    append(t, "\n");
}

static void append_cache(struct cli_text *t, const struct tft_model *m,
                         const struct tft_model_info *info, const char *kv)
{
    const char *name = kv ? kv : info->kv;
    append(t, "cache    ");
    cli_text_escaped(t, name, strlen(name));
    append(t, ", %s; %zu bytes a token\n", kv ? "by --kv" : "the default of the model",
           tft_kv_bytes(m, kv, NULL));
}

static void append_prefix(struct cli_text *t, const struct tft_model *m,
                          const struct tft_model_info *info, const char *name)
{
    struct tft_prefix_info named;
    append(t, "prefix   ");
    if (cli_find_prefix(m, name, &named)) {
        cli_text_escaped(t, named.name, strlen(named.name));
        append(t, ", %" PRIu32 " positions, %" PRIu32 " tokens of text\n", named.positions,
               named.n_tokens);
    } else if (info->n_prefix) {
        append(t, "without a name, %" PRIu32 " positions\n", info->n_prefix);
    } else {
        append(t, "none\n");
    }
}

static void append_memory(struct cli_text *t, const struct tft_session *s,
                          const struct tft_model *m, const struct tft_session_opts *o)
{
    append(t, "session  %s of memory for %zu tokens%s\n",
           cli_amount(tft_session_bytes(m, o, NULL)).text, tft_capacity(s),
           o->batch ? ", beside the workspace that sessions share" : "");
}

void verbose_session(const struct tft_session *s, const struct tft_model *m,
                     const struct tft_session_opts *o)
{
    static char last[1024]; /* the beginning of the lines before */
    struct tft_model_info info = {.size = sizeof info};
    struct cli_text t = {0};
    if (!cli_model_options.verbose)
        return;
    tft_model_describe(m, &info);
    append_threads(&t, o->n_threads);
    append_cache(&t, m, &info, o->kv);
    append_prefix(&t, m, &info, o->prefix);
    append_memory(&t, s, m, o);
    size_t n = t.n < sizeof last ? t.n : sizeof last - 1;
    if (n && (strlen(last) != n || memcmp(last, t.p, n) != 0)) {
        fwrite(t.p, 1, t.n, stderr);
        memcpy(last, t.p, n);
        last[n] = 0;
    }
    free(t.p);
}

/* ---- a prompt */

/* The text of a few tokens, between quotes. */
static void append_text(struct cli_text *t, const struct tft_model *m, const int32_t *ids, size_t n)
{
    enum { SHOWN = 8 };
    append(t, "\"");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        size_t len;
        const char *p = tft_token_text(m, ids[i], true, &len);
        cli_text_escaped(t, p ? p : "", p ? len : 0);
    }
    append(t, n > SHOWN ? "...\"" : "\"");
}

void verbose_prompt(const struct tft_model *m, const int32_t *ids, size_t n,
                    const struct tft_session *s, size_t cached, bool text)
{
    struct cli_text t = {0};
    const int32_t *had = tft_tokens(s);
    size_t n_had = tft_pos(s), same = 0;
    if (!cli_model_options.verbose)
        return;
    while (same < n && same < n_had && ids[same] == had[same])
        same++;
    append(&t, "prompt   %zu tokens, %zu of them cached", n, cached);
    if (same < n && same < n_had) {
        append(&t, "; the first difference is token %zu", same);
        if (text) {
            append(&t, ", ");
            append_text(&t, m, ids + same, n - same);
            append(&t, " and not ");
            append_text(&t, m, had + same, n_had - same);
        }
    }
    append(&t, "\n");
    fwrite(t.p ? t.p : "", 1, t.n, stderr);
    free(t.p);
}
