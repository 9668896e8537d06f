/*
 * tuffet bench: speed, compared with the limits of the machine.
 *
 * Arithmetic limits prefill; the bytes that each token reads limit decoding. The share is the time
 * that the tighter limit alone would take, divided by the measured time.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "port/port.h"
#include "run/backend.h"
#include "run/session.h"
#include "tools/bench/limits.h"
#include "tools/bench/sessions.h"
#include "tools/bench/shape.h"
#include "tools/cli/system.h"
#include "tools/commands/commands.h"

static struct {
    uint32_t prefill, decode, depth, runs, bits;
    const char *threads, *sessions, *shape;
    int dynamic;
    bool json;
} opt = {.runs = 5, .bits = 8};

static const struct cli_option options[] = {
    {'p', "prefill", CLI_COUNT, &opt.prefill, "N",
     "prompt length in tokens (default 512, or fewer in a short context)"},
    {'n', "decode", CLI_COUNT, &opt.decode, "N",
     "tokens to generate one by one (default 128, or fewer in a short context)"},
    {'d', "depth", CLI_COUNT, &opt.depth, "N",
     "tokens in the KV cache before the first measured one (default 0)"},
    {'r', "runs", CLI_COUNT, &opt.runs, "N", "runs of each measurement; the median counts"},
    {'t', "threads", CLI_TEXT, &opt.threads, "LIST",
     "numbers of threads, \"1,2,4\" (default 1, and one for each CPU)"},
    {0, "sessions", CLI_TEXT, &opt.sessions, "LIST",
     "measure this many sessions that generate at the same time, \"1,2,4,8\", instead of a prompt, "
     "with the last number of threads"},
    {0, "shape", CLI_TEXT, &opt.shape, "NAME:" SHAPE_NAMES,
     "use random weights in the shape of a known model, instead of MODEL: " SHAPE_NAMES},
    {0, "bits", CLI_COUNT, &opt.bits, "N", "bits of a weight of --shape: 8, 4, 3 or 2"},
    {0, "dynamic", CLI_WORD, &opt.dynamic, "no|token|tensor",
     "let --shape measure the ranges of activations while it runs, for each token or over all "
     "tokens of a pass, as a model of quantize --dynamic does"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: limits, measured with the most threads of the list; rows, where "
     "session is the memory of the session in bytes; sample_us, the microseconds to sample a "
     "token; and exchanged, the bytes of a token that processes of mpirun exchange"},
    {0},
};

enum { MAX_LIST = 16, MAX_RUNS = 64 };

struct row {
    const char *what;
    uint32_t tokens, sessions;
    int threads;
    double tok_s, gbps, gflops, share;
    size_t session; /* bytes */
};

/* Reads numbers of 1 to 1024 like 1,2,4. Returns how many the list has, or 0 if it is invalid or
   too long. */
static int parse_list(int list[MAX_LIST], const char *text)
{
    int n = 0;
    for (const char *p = text; *p; n++) {
        char *end;
        long v = strtol(p, &end, 10);
        if (n == MAX_LIST || end == p || v < 1 || v > TFT_PORT_THREADS || (*end && *end != ','))
            return 0;
        list[n] = (int)v;
        p = *end ? end + 1 : end;
    }
    return n;
}

/* Reads --threads, as parse_list. */
static int parse_threads(int list[MAX_LIST])
{
    int n = 0, all = tft_cpu_threads();
    if (opt.threads) {
        n = parse_list(list, opt.threads);
        for (int i = 0; i < n && !tft_port_threaded(); i++)
            list[i] = 1; /* as many as the program would use */
        return n;
    }
    list[n++] = 1;
    if (all > 1)
        list[n++] = all;
    return n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The logits that a sampler with the defaults of tuffet run reads. */
static struct tft_asked asked(const struct tft_session *s)
{
    struct tft_sampler z = cli_sampler();
    size_t n;
    return tft_sampler_asks(&z, s, &n);
}

/* *seconds: the median over the runs of n tokens after opt.depth others. */
static enum tft_status time_runs(double *seconds, struct tft_session *s, const int32_t *ids,
                                 uint32_t n, bool one_by_one)
{
    double t[MAX_RUNS];
    struct tft_asked a = asked(s);
    for (uint32_t r = 0; r < opt.runs + 1; r++) { /* the first run is a warm-up */
        /* tft_sync computes tokens again that have been quantized since */
        enum tft_status status = opt.depth ? tft_sync(s, ids, opt.depth) : tft_rewind(s, 0);
        tft_prompt_end(s);
        uint64_t start = cli_ns();
        for (uint32_t i = 0; i < n && status == TFT_OK && !cli_interrupted();
             i += one_by_one ? 1 : n) {
            status = tft_prefill(s, ids + i, one_by_one ? 1 : n);
            if (status == TFT_OK && !tft_session_logits(s, &a)) /* other processes send them */
                status = tft_session_error(s)->code;
        }
        if (status != TFT_OK || cli_interrupted())
            return status;
        if (r)
            t[r - 1] = (double)(cli_ns() - start) / 1e9;
    }
    qsort(t, opt.runs, sizeof *t, by_value);
    *seconds = t[opt.runs / 2];
    return TFT_OK;
}

/* The number of layers up to the last one with keys and values of its own. */
static uint32_t layers_with_kv(const struct tft_model *m)
{
    return m->n_layer - m->n_shared;
}

static double macs(const struct tft_linear *l)
{
    return (double)l->w.rows * l->w.cols;
}

/* Multiply-adds of a token in a layer whose output for it nothing needs: of keys and values, or of
   the matrices that its mixer's input is multiplied by. */
static double mixed_macs(const struct tft_model *m, const struct tft_block *b)
{
    double n = 0;
    if (b->mixer == TFT_MIX_ATTENTION)
        return 2.0 * b->kv.n * b->kv.dim * m->n_embd;
    for (uint32_t i = 0; i < tft_block_reads(b); i++)
        n += macs(&b->reads[i]);
    return n;
}

/* Multiply-adds of n tokens in matrix products. In a prompt, all tokens but the last one skip the
   head and the layers that share keys and values. In the last layer before these, they only go
   through its mixer. */
static double product_macs(const struct tft_model *m, bool decode, double n)
{
    uint32_t own = layers_with_kv(m);
    double head = (double)m->n_vocab * m->n_embd, shared = 0,
           kv = mixed_macs(m, &m->block[own - 1]);
    for (uint32_t l = own; l < m->n_layer; l++) {
        const struct tft_block *b = &m->block[l];
        shared += macs(&b->q) + macs(&b->o) + macs(&b->gate) + macs(&b->up) + macs(&b->down) +
                  macs(&b->embed_gate) + macs(&b->embed_out);
    }
    double layer = ((double)m->matmul_macs - head - shared) / own;
    double through = decode ? n : 1; /* tokens that skip nothing */
    return n * ((own - 1) * layer + kv) + through * (layer - kv + shared + head);
}

/* How many of `depth` positions the attention of a layer sees. */
static double seen_by(const struct tft_block *b, double depth)
{
    return b->window && b->window < depth ? b->window : depth;
}

/* Multiply-adds of n tokens in the attention of layers with a window, or of layers without. On
   average, a token has `depth` positions before it. */
static double attention_macs(const struct tft_model *m, bool window, bool decode, double n,
                             double depth)
{
    double numbers = 0;
    for (uint32_t l = 0; l < m->n_layer; l++)
        if (m->block[l].mixer == TFT_MIX_ATTENTION && window == (m->block[l].window > 0))
            numbers += (l + 1 < layers_with_kv(m) || decode ? n : 1) * m->block[l].kv.dim *
                       seen_by(&m->block[l], depth);
    return 2.0 * m->n_head * numbers;
}

/* Bytes of the cache that a token reads at `depth`: all positions in layers without a window, in
   the cache's form; the positions in the window, in floats; and a shared cache once for each layer
   that uses it. */
static double cache_bytes(const struct tft_model *m, const char *kv, double depth)
{
    double bytes = (double)tft_kv_bytes(m, cli_session_options.kv, NULL) * depth,
           size = strcmp(kv, "f32") ? 2 : 4;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_block *b = &m->block[l];
        if (b->mixer == TFT_MIX_ATTENTION && (b->window || l >= layers_with_kv(m)))
            bytes += 2.0 * b->kv.n * b->kv.dim * size * seen_by(b, depth);
    }
    return bytes;
}

/* Bytes of experts that n tokens read in one pass beyond the bytes that one token reads: as many
   experts as n tokens choose, on average, if each expert is as likely as any other. */
static double more_experts(const struct tft_model *m, double n)
{
    double one = 0, all = m->n_expert, used = m->n_expert_used;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_experts *x = &m->block[l].experts;
        const struct tft_linear *mats[] = {&x->gate, &x->up, &x->down};
        for (int i = 0; i < 3 && x->router.rows; i++)
            one += (double)mats[i]->w.format->bytes(&mats[i]->w);
    }
    return m->n_expert ? (all * (1 - pow(1 - used / all, n)) - used) * one : 0;
}

/* Each of `sessions` gets n tokens. */
static struct row evaluate(const struct tft_model *model, const char *kv, const struct limits *l,
                           bool decode, uint32_t n, uint32_t sessions, int threads, double seconds)
{
    struct tft_model_info info = {.size = sizeof info}, *m = &info;
    tft_model_describe(model, m);
    double depth = opt.depth + (n + 1) / 2.0 + m->n_prefix;
    double bytes =
        (decode ? n : 1) * ((double)m->weight_bytes + sessions * cache_bytes(model, kv, depth) +
                            more_experts(model, decode ? sessions : n));
    double products = 2 * sessions * product_macs(model, decode, n),
           whole = 2 * sessions * attention_macs(model, false, decode, n, depth),
           windows = 2 * sessions * attention_macs(model, true, decode, n, depth),
           flops = products + whole + windows,
           by_int8 = products + (strcmp(kv, "i8") == 0 ? whole : 0);
    double by_bytes = bytes / 1e9 / l->read_gbps;
    bool integers = m->weights == TFT_WEIGHTS_I8 || m->weights == TFT_WEIGHTS_PACKED;
    double by_flops = integers ? by_int8 / 1e9 / l->int8_gops : flops / 1e9 / l->fma_gflops;
    return (struct row){
        .what = decode ? "decode" : "prefill",
        .tokens = n,
        .sessions = sessions,
        .threads = threads,
        .tok_s = (double)n * sessions / seconds,
        .gbps = bytes / 1e9 / seconds,
        .gflops = flops / 1e9 / seconds,
        .share = (by_bytes > by_flops ? by_bytes : by_flops) / seconds,
    };
}

/* The session's cache: from the command line, or else from the file. */
static const char *kv_name(const struct tft_model *m)
{
    return cli_session_options.kv ? cli_session_options.kv : m->kv_text ? m->kv_text : "f16";
}

/* All measured rows. JSON is printed at the end, so that an error leaves no half of an object. */
static struct {
    struct row row[2 * MAX_LIST];
    int n;
} found;

static void show_row(const struct tft_model *m, const struct row *r)
{
    char what[16];
    found.row[found.n++] = *r;
    if (opt.json)
        return;
    snprintf(what, sizeof what, "%s", r->what);
    if (opt.sessions)
        snprintf(what, sizeof what, "batch %u", r->sessions);
    printf("%-8s %6u %6u %7d  %-4s %10.1f %8.1f %9.1f ", what, r->tokens, opt.depth, r->threads,
           kv_name(m), r->tok_s, r->gbps, r->gflops);
    if (isnan(r->share))
        printf("%8s\n", "-");
    else
        printf("%6.0f %%\n", 100 * r->share);
    fflush(stdout);
}

/* One row for each number of sessions, list: [n]. */
static int bench_sessions(const struct tft_model *m, const int32_t *ids, int threads,
                          const struct limits *l, const int *list, int n)
{
    int status = CLI_OK;
    for (int i = 0; i < n && status == CLI_OK; i++) {
        struct sessions_opts o = {.m = m,
                                  .n = (uint32_t)list[i],
                                  .depth = opt.depth,
                                  .tokens = opt.decode,
                                  .threads = threads,
                                  .ids = ids};
        double t[MAX_RUNS];
        size_t bytes;
        cli_model_options.threads = (uint32_t)threads;
        status = time_sessions(t, &bytes, opt.runs, &o);
        if (status != CLI_OK)
            return status;
        qsort(t, opt.runs, sizeof *t, by_value);
        struct row r = evaluate(m, kv_name(m), l, true, o.tokens, o.n, threads, t[opt.runs / 2]);
        r.session = bytes;
        show_row(m, &r);
    }
    return status;
}

static int bench_threads(const struct tft_model *m, const int32_t *ids, int threads,
                         const struct limits *l)
{
    struct tft_session *s;
    uint32_t longest = opt.prefill > opt.decode ? opt.prefill : opt.decode;
    struct tft_session_opts so = {.capacity = opt.depth + longest};
    cli_model_options.threads = (uint32_t)threads;
    if (cli_open_session(&s, m, &so) != CLI_OK)
        return CLI_FAILED;

    enum tft_status status = opt.depth ? cli_sync(s, ids, opt.depth) : TFT_OK;
    for (int decode = 0; decode < 2 && status == TFT_OK && !cli_interrupted(); decode++) {
        uint32_t n = decode ? opt.decode : opt.prefill;
        double seconds = 0;
        status = time_runs(&seconds, s, ids, n, decode);
        if (seconds > 0) {
            struct row r = evaluate(m, kv_name(m), l, decode, n, 1, threads, seconds);
            r.session = s->size;
            show_row(m, &r);
        }
    }
    if (!opt.json && !cli_interrupted() && status == TFT_OK)
        printf("session  %6zu tokens, %zu bytes\n", tft_capacity(s), s->size);
    int result = cli_interrupted() ? CLI_INTERRUPTED
                 : status == TFT_OK ? CLI_OK
                                    : cli_fail_session(s);
    tft_session_close(s);
    return result;
}

static bool has_processes(const struct tft_model *m)
{
    return m->stage[m->n_stage - 1].backend->exchanged;
}

/* Bytes that the processes of mpirun exchange for a token; 0: there is one process. */
static size_t exchanged(const struct tft_model *m, const struct tft_asked *a)
{
    const struct tft_stage *last = &m->stage[m->n_stage - 1];
    return has_processes(m) ? last->backend->exchanged(last->device, a) : 0;
}

/* Logits like a trained model's: a bell from -10 to 10, and a few peaks above it. Logits of random
   weights would be nearly equal, and no sampler is made for such logits. */
static void fill_logits(float *x, uint32_t n)
{
    uint32_t r = 1;
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            r = r * 1664525 + 1013904223;
            sum += (float)(r >> 8) * 0x1p-24f;
        }
        x[i] = (sum - 2) * 5 + (i % (n / 16 + 1) == 0 ? 10 : 0);
    }
}

/* *seconds: the time to choose a token with the defaults of run, the median. Sampling runs on one
   thread. *a: the logits that it reads */
static int time_sampling(const struct tft_model *m, double *seconds, struct tft_asked *a)
{
    enum { DRAWS = 65 };
    struct tft_model_info info = {.size = sizeof info};
    struct tft_session_opts so = {.size = sizeof so, .capacity = 1, .kv = "f16"};
    struct tft_sampler z = cli_sampler();
    struct tft_session *s;
    struct tft_error err;
    double t[DRAWS];
    tft_model_describe(m, &info);
    float *logits = malloc(info.n_vocab * sizeof *logits);
    if (!logits)
        return cli_fail("out of memory");
    fill_logits(logits, info.n_vocab);
    int status = tft_session_open(&s, m, &so, &err) == TFT_OK ? CLI_OK : cli_fail("%s", err.msg);
    for (int i = 0; status == CLI_OK && i < DRAWS; i++) {
        uint64_t start = cli_ns();
        tft_sample_logits(&z, s, logits);
        t[i] = (double)(cli_ns() - start) / 1e9;
    }
    if (status == CLI_OK) {
        qsort(t, DRAWS, sizeof *t, by_value);
        *seconds = t[DRAWS / 2];
        *a = asked(s);
        tft_session_close(s);
    }
    free(logits);
    return status;
}

/* l: the limits with the most threads */
static void print_json(const struct tft_model *m, const struct limits *l, double sample_seconds,
                       size_t exchanged_bytes)
{
    if (isnan(l->read_gbps))
        printf("{\"limits\":null,\"rows\":[");
    else
        printf("{\"limits\":{\"read_gbps\":%.6g,\"int8_gops\":%.6g,\"fma_gflops\":%.6g},\"rows\":[",
               l->read_gbps, l->int8_gops, l->fma_gflops);
    for (int i = 0; i < found.n; i++) {
        const struct row *r = &found.row[i];
        printf("%s{\"what\":\"%s\",\"sessions\":%u,\"tokens\":%u,\"depth\":%u,\"threads\":%d,"
               "\"kv\":\"%s\",\"session\":%zu,\"tok_s\":%.6g,\"gbps\":%.6g,\"gflops\":%.6g",
               i ? "," : "", r->what, r->sessions, r->tokens, opt.depth, r->threads, kv_name(m),
               r->session, r->tok_s, r->gbps, r->gflops);
        cli_json_number("share", r->share);
        printf("}");
    }
    printf("],\"sample_us\":%.4g,\"exchanged\":%zu}\n", 1e6 * sample_seconds, exchanged_bytes);
}

/* l: the limits with the most threads */
static int finish(const struct tft_model *m, const struct limits *l)
{
    double seconds = 0;
    struct tft_asked a = {0};
    int status = time_sampling(m, &seconds, &a);
    if (status == CLI_OK && opt.json)
        print_json(m, l, seconds, exchanged(m, &a));
    else if (status == CLI_OK)
        printf("sample   %49.1f\n", 1 / seconds);
    if (status == CLI_OK && !opt.json && has_processes(m))
        printf("exchange %7zu bytes a token\n", exchanged(m, &a));
    return status;
}

/* n pseudo-random tokens, which the caller frees; NULL if out of memory. */
static int32_t *random_tokens(uint32_t n, uint32_t n_vocab)
{
    uint32_t x = 1;
    int32_t *ids = malloc(n * sizeof *ids);
    for (uint32_t i = 0; ids && i < n; i++) {
        x = x * 1664525 + 1013904223;
        ids[i] = (int32_t)((x >> 8) % n_vocab);
    }
    return ids;
}

static bool has_device(const struct tft_model *m)
{
    return m->n_host < m->n_layer;
}

/* Prints the limits for each number of threads, list: [n], and then begins the rows. */
static void print_limits(const struct tft_model *m, const struct limits *l, const int *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (isnan(l[i].read_gbps))
            continue;
        if (has_device(m))
            printf("%s by its clocks", cli_model_options.device);
        else
            printf("%s, %d thread%s", tft_cpu_name(), list[i], list[i] > 1 ? "s" : "");
        printf(": memory read %.1f GB/s, int8 %.0f GOP/s, fma %.1f GFLOP/s\n", l[i].read_gbps,
               l[i].int8_gops, l[i].fma_gflops);
    }
    printf("\n%-8s %6s %6s %7s  %-4s %10s %8s %9s %8s\n",
           "", "tokens", "depth", "threads", "kv", "tokens/s", "GB/s", "GOP/s", "share");
}

/* Which number of threads is the largest. */
static int largest_of(const int *list, int n)
{
    int largest = 0;
    for (int i = 1; i < n; i++)
        largest = list[i] > list[largest] ? i : largest;
    return largest;
}

/* The limits of the GPU by its clocks. All NaN if they are unknown, or if the CPU computes some of
   the layers. */
static struct limits device_limits(const struct tft_model *m)
{
    const struct tft_stage *last = &m->stage[m->n_stage - 1];
    struct limits l, unknown = {NAN, NAN, NAN};
    last->backend->limits(last->device, &l.read_gbps, &l.int8_gops, &l.fma_gflops);
    return m->n_host || isnan(l.read_gbps + l.int8_gops + l.fma_gflops) ? unknown : l;
}

static void set_default(uint32_t *n, uint32_t usual, uint32_t room)
{
    if (!*n)
        *n = usual < room ? usual : room;
}

/* Measures the limits for each number of threads, list: [n]. This comes before the model takes its
   memory, so that the two do not add up. For an unreadable file, opening prints the error: nothing
   is measured. */
static int limits_of_cpu(struct limits *l, const int *list, int n, const char *path)
{
    if (path && access(path, R_OK) != 0)
        return CLI_OK;
    if (cli_limit_cpu() != CLI_OK)
        return CLI_FAILED;
    for (int i = 0; i < n; i++)
        if (!measure_limits(&l[i], list[i]))
            return cli_fail("out of memory for the buffer that the limits are measured with");
    return CLI_OK;
}

/* l: [n], as measured on a CPU; a device's limits replace them. sessions: [n_sessions], or none */
static int bench(const struct tft_model *m, struct limits *l, const int *list, int n,
                 const int *sessions, int n_sessions)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    uint32_t room = opt.depth < info.n_ctx ? info.n_ctx - opt.depth : 0;
    set_default(&opt.prefill, 512, room);
    set_default(&opt.decode, 128, room);
    uint32_t longest = opt.prefill > opt.decode ? opt.prefill : opt.decode;
    if (!longest || longest > room)
        return cli_fail("the model's context of %u tokens has no room for %u tokens after %u: make "
                        "-p, -n or -d smaller",
                        info.n_ctx, longest ? longest : 1, opt.depth);

    if (has_device(m) && !m->n_host && !has_processes(m))
        n = 1; /* a GPU computes all: the number of threads makes no difference */
    for (int i = 0; i < n && has_device(m); i++)
        l[i] = device_limits(m);
    int32_t *ids = random_tokens(opt.depth + longest, info.n_vocab);
    if (!ids)
        return cli_fail("out of memory");
    if (!opt.json)
        print_limits(m, l, list, n);
    int status = CLI_OK;
    for (int i = 0; i < n && status == CLI_OK && !n_sessions; i++)
        status = bench_threads(m, ids, list[i], &l[i]);
    if (n_sessions)
        status = bench_sessions(m, ids, list[n - 1], &l[n - 1], sessions, n_sessions);
    free(ids);
    return status == CLI_OK ? finish(m, &l[largest_of(list, n)]) : status;
}

static struct cli_progress writing;

static bool show_written(double done)
{
    cli_progress_at(&writing, done);
    return !cli_interrupted();
}

/* Opens a model of random weights. It is a file, because a model is a mapped file: its pages are in
   the file cache. path: receives the file's name, [4096]; empty if the file is already removed. */
static int open_shape(struct tft_model **m, char path[4096])
{
    static const enum tft_range ranges[] = {TFT_RANGE_STATIC, TFT_RANGE_TOKEN, TFT_RANGE_TENSOR};
    const char *dir = system_temp_folder();
    struct tft_error err;
    int len = snprintf(path, 4096, "%s/tuffet-XXXXXX", dir);
    int fd = len > 0 && len < 4096 ? mkstemp(path) : -1;
    if (fd < 0) {
        *path = 0;
        return cli_fail("%s: cannot create a file there: name another folder in TMPDIR", dir);
    }
    close(fd);
    cli_progress_begin(&writing, "writing random weights");
    struct shape_opts o = {opt.shape, opt.bits, ranges[opt.dynamic], show_written};
    enum tft_status status = shape_write(&o, path, &err);
    cli_progress_end(&writing);
    int result = cli_interrupted()  ? CLI_INTERRUPTED
                 : status == TFT_OK ? cli_open_model(m, path, false)
                                    : CLI_FAILED;
    if (remove(path) == 0) /* Windows keeps it while it is mapped */
        *path = 0;
    return status == TFT_OK ? result : cli_fail("%s", err.msg);
}

static int run_bench(const char *path)
{
    struct tft_model *m = NULL;
    char shape[4096] = "";
    struct limits limits[MAX_LIST] = {{0}};
    int list[MAX_LIST], n = parse_threads(list), sessions[MAX_LIST],
        n_sessions = opt.sessions ? parse_list(sessions, opt.sessions) : 0;
    if (opt.runs > MAX_RUNS)
        return cli_usage("--runs must be at most %d", MAX_RUNS);
    if (!n)
        return cli_usage("--threads needs a list of numbers like 1,2,4, not \"%s\"", opt.threads);
    if (opt.sessions && !n_sessions)
        return cli_usage("--sessions needs a list of numbers like 1,2,4, not \"%s\"",
                         opt.sessions);
    if (opt.sessions && opt.prefill)
        return cli_usage("--sessions measures no prompt: leave out -p");
    if (!path == !opt.shape)
        return cli_usage("give either MODEL or --shape");
    if (opt.shape && !shape_is_known(opt.shape))
        return cli_usage("--shape must be one of " SHAPE_NAMES ", not \"%s\"", opt.shape);
    if (opt.bits != 8 && (!opt.shape || opt.bits < 2 || opt.bits > 4))
        return cli_usage("--bits must be 8, 4, 3 or 2, with --shape");
    if (opt.dynamic && !opt.shape)
        return cli_usage("--dynamic goes with --shape: tuffet quantize --dynamic makes a MODEL");

    cli_catch_interrupts();
    int status = cli_check_kv(cli_session_options.kv);
    if (status == CLI_OK)
        status = limits_of_cpu(limits, list, n, path);
    if (status == CLI_OK)
        status = opt.shape ? open_shape(&m, shape) : cli_open_model(&m, path, false);
    if (status == CLI_OK) {
        status = bench(m, limits, list, n, sessions, n_sessions);
        tft_model_close(m);
    }
    if (*shape)
        remove(shape);
    return status;
}

const struct cli_command command_bench = {
    .name = "bench",
    .operand = "[MODEL]",
    .summary = "measure speed, and compare it with the machine's limits",
    .groups =
        (const struct cli_option_group[]){
            {"Measurement and output", options},
            {"Context", cli_session_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {0},
        },
    .notes = "The limits are the speed of memory reads and of int8 and float arithmetic, measured "
             "in the same run; for a GPU they follow from its clocks. The share is the time that "
             "the tighter limit alone would take, divided by the measured time. It may exceed 100 "
             "%: a model that fits in the CPU's caches reads faster than from memory. If the "
             "weights are int8 or codes, the share of arithmetic counts their products and, with "
             "--kv i8, the integer products of attention without a window.\n"
             "\n"
             "The row \"sample\" is the choice of a token with the defaults of tuffet run, from "
             "logits like a trained model's. It is not part of \"decode\".\n"
             "\n"
             "--shape writes the model to a file in the folder TMPDIR, or else the system's, and "
             "removes the file as soon as it is open.\n",
    .examples = "tuffet bench model.gguf\n"
                "tuffet bench --shape smollm2-135m -t 1,2\n"
                "tuffet bench model.gguf --sessions 1,2,4,8 -n 32\n"
                "tuffet bench model.gguf -d 2048 -t 1,4 --kv f32 --json\n",
    .run = run_bench,
};
