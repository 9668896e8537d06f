/*
 * tuffet bench: speed, against what the machine could do. Prefill is bound by arithmetic, decoding
 * by the bytes that every token reads; the time that the binding limit alone would take, over the
 * time it took, is the share.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "backend/device.h"
#include "tools/bench/limits.h"
#include "model/model.h"
#include "port/port.h"
#include "tools/bench/shape.h"

static struct {
    uint32_t prefill, decode, depth, runs;
    const char *threads, *shape;
    bool json;
} opt = {.runs = 5};

static const struct cli_option options[] = {
    {'p', "prefill", CLI_COUNT, &opt.prefill, "N",
     "tokens of prompt (512, or what the context has room for)"},
    {'n', "decode", CLI_COUNT, &opt.decode, "N", "tokens generated one by one (128, or likewise)"},
    {'d', "depth", CLI_COUNT, &opt.depth, "N", "tokens already in the cache (0)"},
    {'t', "threads", CLI_TEXT, &opt.threads, "LIST",
     "numbers of threads, \"1,2,4\"; 1 and all if not given"},
    {0, "shape", CLI_TEXT, &opt.shape, "NAME",
     "instead of MODEL, random int8 weights: " SHAPE_NAMES},
    {'r', "runs", CLI_COUNT, &opt.runs, "N", "runs of each, of which the median counts (5)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "one JSON object: limits (with the most threads of the list) and rows"},
    {0},
};

static const struct cli_command command = {
    "bench",
    "[MODEL]",
    "speed, and how near it is to the machine's limits",
    (const struct cli_option *const[]){options, cli_session_option_list, cli_model_option_list,
                                       NULL},
    "The limits - memory read, int8 and float arithmetic - are measured in the same run, or what a "
    "GPU's clocks allow. A model that fits\n"
    "the CPU's caches can read faster than memory: its share may exceed 100 %. Where weights are "
    "int8, the arithmetic whose share is told\n"
    "is that of their products; what attention computes comes on top. A model by --shape is "
    "written to a file in $TMPDIR or /tmp, and\n"
    "removed as soon as it is open.\n\n"
    "  tuffet bench model.gguf\n"
    "  tuffet bench --shape smollm2-135m -t 1,2\n"
    "  tuffet bench model.gguf -d 2048 -t 1,4 --kv f32 --json\n",
};

enum { MAX_LIST = 16, MAX_RUNS = 64 };

struct row {
    const char *what;
    uint32_t tokens;
    int threads;
    double tok_s, gbps, gflops, share;
};

/* How many there are; 0 if it is no list, or too long a one. */
static int parse_threads(int *list)
{
    int n = 0;
    if (!opt.threads) {
        int all = tft_cpu_threads();
        list[n++] = 1;
        if (all > 1)
            list[n++] = all;
        return n;
    }
    for (const char *p = opt.threads; *p; n++) {
        char *end;
        long v = strtol(p, &end, 10);
        if (n == MAX_LIST || end == p || v < 1 || v > TFT_PORT_THREADS || (*end && *end != ','))
            return 0;
        list[n] = tft_port_threaded() ? (int)v : 1; /* what there will be */
        p = *end ? end + 1 : end;
    }
    return n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the runs in seconds. */
static enum tft_status time_runs(double *seconds, struct tft_session *s, const int32_t *ids,
                                 uint32_t n, bool one_by_one)
{
    double t[MAX_RUNS];
    for (uint32_t r = 0; r < opt.runs + 1; r++) { /* the first one only warms up */
        enum tft_status status =
            opt.depth ? tft_sync(s, ids, opt.depth)
                      : tft_rewind(s, 0); /* what a quantized cache took apart is whole again */
        uint64_t start = cli_ns();
        for (uint32_t i = 0; i < n && status == TFT_OK && !cli_interrupted();
             i += one_by_one ? 1 : n)
            status = tft_prefill(s, ids + i, one_by_one ? 1 : n);
        if (status != TFT_OK || cli_interrupted())
            return status;
        if (r)
            t[r - 1] = (double)(cli_ns() - start) / 1e9;
    }
    qsort(t, opt.runs, sizeof *t, by_value);
    *seconds = t[opt.runs / 2];
    return TFT_OK;
}

/* Multiply-adds that n tokens need. Of a prompt only the last token goes through the head, and
   through the last layer past its keys and values. */
static double product_macs(const struct tft_model_info *m, bool decode, double n)
{
    double head = (double)m->n_vocab * m->n_embd, kv = 2.0 * m->n_head_kv * m->head_dim * m->n_embd;
    /* tokens that go all the way */
    double layer = ((double)m->matmul_macs - head) / m->n_layer, whole = decode ? n : 1;
    return n * ((m->n_layer - 1) * layer + kv) + whole * (layer - kv + head);
}

/* At a mean depth. */
static double attention_macs(const struct tft_model_info *m, bool decode, double n, double depth)
{
    return (n * (m->n_layer - 1) + (decode ? n : 1)) * 2.0 * m->n_head * m->head_dim * depth;
}

static struct row evaluate(const struct tft_model_info *m, double kv_bytes, const struct limits *l,
                           bool decode, uint32_t n, int threads, double seconds)
{
    double depth = opt.depth + (n + 1) / 2.0;
    double bytes = (decode ? n : 1) * ((double)m->weight_bytes + kv_bytes * (m->n_prefix + depth));
    double products = 2 * product_macs(m, decode, n),
           flops = products + 2 * attention_macs(m, decode, n, m->n_prefix + depth);
    double by_bytes = bytes / 1e9 / l->read_gbps;
    double by_flops = m->weights == TFT_WEIGHTS_I8 ? products / 1e9 / l->int8_gops
                                                   : flops / 1e9 / l->fma_gflops;
    return (struct row){
        .what = decode ? "decode" : "prefill",
        .tokens = n,
        .threads = threads,
        .tok_s = n / seconds,
        .gbps = bytes / 1e9 / seconds,
        .gflops = flops / 1e9 / seconds,
        .share = (by_bytes > by_flops ? by_bytes : by_flops) / seconds,
    };
}

/* The cache: of the command line, or else of the file. */
static const char *kv_name(const struct tft_model *m)
{
    return cli_session_options.kv ? cli_session_options.kv : m->kv ? m->kv : "f16";
}

static void print_row(const struct tft_model *m, const struct row *r, bool first)
{
    if (opt.json) {
        printf("%s{\"what\":\"%s\",\"tokens\":%u,\"depth\":%u,\"threads\":%d,\"kv\":\"%s\",\"tok_"
               "s\":%.6g,\"gbps\":%.6g,\"gflops\":%.6g",
               first ? "" : ",", r->what, r->tokens, opt.depth, r->threads, kv_name(m), r->tok_s,
               r->gbps, r->gflops);
        cli_json_number("share", r->share);
        printf("}");
    } else {
        printf("%-8s %6u %6u %7d  %-4s %10.1f %8.1f %9.1f ", r->what, r->tokens, opt.depth,
               r->threads, kv_name(m), r->tok_s, r->gbps, r->gflops);
        if (isnan(r->share))
            printf("%8s\n", "-");
        else
            printf("%6.0f %%\n", 100 * r->share);
    }
    fflush(stdout);
}

static int bench_threads(const struct tft_model *m, const int32_t *ids, int threads,
                         const struct limits *l, bool first)
{
    struct tft_model_info info = {.size = sizeof info};
    struct tft_session *s;
    uint32_t most = opt.prefill > opt.decode ? opt.prefill : opt.decode;
    struct tft_session_opts so = {.capacity = opt.depth + most};
    cli_model_options.threads = (uint32_t)threads;
    if (cli_open_session(&s, m, &so) != CLI_OK)
        return CLI_FAILED;
    tft_model_describe(m, &info);

    enum tft_status status = opt.depth ? tft_prefill(s, ids, opt.depth) : TFT_OK;
    for (int decode = 0; decode < 2 && status == TFT_OK && !cli_interrupted(); decode++) {
        uint32_t n = decode ? opt.decode : opt.prefill;
        double seconds = 0;
        status = time_runs(&seconds, s, ids, n, decode);
        if (seconds > 0) {
            struct row r = evaluate(&info, (double)tft_kv_bytes(m, so.kv), l, decode, n, threads,
                                    seconds);
            print_row(m, &r, first && !decode);
        }
    }
    tft_session_close(s);
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    return status == TFT_OK ? CLI_OK : cli_fail("%s", tft_status_text(status));
}

static int32_t *some_tokens(uint32_t n, uint32_t n_vocab)
{
    uint32_t x = 1;
    int32_t *ids = malloc(n * sizeof *ids);
    for (uint32_t i = 0; ids && i < n; i++) {
        x = x * 1664525 + 1013904223;
        ids[i] = (int32_t)((x >> 8) % n_vocab);
    }
    return ids;
}

/* Of each number of threads; in JSON those with the most. */
static void print_limits(const struct tft_model *m, const struct limits *l, const int *list, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++) {
        most = list[i] > list[most] ? i : most;
        if (opt.json || isnan(l[i].read_gbps))
            continue;
        if (m->device)
            printf("%s by its clocks", cli_model_options.device);
        else
            printf("%s, %d thread%s", tft_cpu_name(), list[i], list[i] > 1 ? "s" : "");
        printf(": memory read %.1f GB/s, int8 %.0f GOP/s, fma %.1f GFLOP/s\n", l[i].read_gbps,
               l[i].int8_gops, l[i].fma_gflops);
    }
    if (opt.json && isnan(l[most].read_gbps))
        printf("{\"limits\":null,\"rows\":[");
    else if (opt.json)
        printf("{\"limits\":{\"read_gbps\":%.6g,\"int8_gops\":%.6g,\"fma_gflops\":%.6g},\"rows\":[",
               l[most].read_gbps, l[most].int8_gops, l[most].fma_gflops);
    else
        printf("\n%-8s %6s %6s %7s  %-4s %10s %8s %9s %8s\n",
               "", "tokens", "depth", "threads", "kv", "tokens/s", "GB/s", "GOP/s", "share");
}

/* None where some of the layers are the CPU's: there is no telling. */
static struct limits device_limits(const struct tft_model *m)
{
    struct limits l, none = {NAN, NAN, NAN};
    m->device->limits(m->on, &l.read_gbps, &l.int8_gops, &l.fma_gflops);
    return m->n_host || isnan(l.read_gbps + l.int8_gops + l.fma_gflops) ? none : l;
}

static void set_default(uint32_t *n, uint32_t wanted, uint32_t room)
{
    if (!*n)
        *n = wanted < room ? wanted : room;
}

static int bench(const struct tft_model *m, const int *list, int n)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    uint32_t room = opt.depth < info.n_ctx ? info.n_ctx - opt.depth : 0;
    set_default(&opt.prefill, 512, room);
    set_default(&opt.decode, 128, room);
    uint32_t longest = opt.prefill > opt.decode ? opt.prefill : opt.decode;
    if (!longest || longest > room)
        return cli_fail("the model's context of %u has no room for %u tokens after %u", info.n_ctx,
                        longest ? longest : 1, opt.depth);

    struct limits l[MAX_LIST];
    if (m->device && !m->n_host)
        n = 1; /* threads make no difference */
    for (int i = 0; i < n; i++)
        if (m->device)
            l[i] = device_limits(m);
        else if (!measure_limits(&l[i], list[i]))
            return cli_fail("no memory to measure the machine's limits in");
    int32_t *ids = some_tokens(opt.depth + longest, info.n_vocab);
    if (!ids)
        return cli_fail("no memory");
    print_limits(m, l, list, n);
    int status = CLI_OK;
    for (int i = 0; i < n && status == CLI_OK; i++)
        status = bench_threads(m, ids, list[i], &l[i], i == 0);
    if (opt.json)
        puts("]}");
    free(ids);
    return status;
}

static struct cli_progress writing;

static bool written(double done)
{
    cli_progress_at(&writing, done);
    return !cli_interrupted();
}

/* As a file, because that is what a model is: mapped, in pages of the file cache. */
static int open_shape(struct tft_model **m)
{
    const char *dir = getenv("TMPDIR");
    char path[4096];
    struct tft_error err;
    int len = snprintf(path, sizeof path, "%s/tuffet-XXXXXX", dir && *dir ? dir : "/tmp");
    int fd = len > 0 && (size_t)len < sizeof path ? mkstemp(path) : -1;
    if (fd < 0)
        return cli_fail("no file can be made in %s", dir && *dir ? dir : "/tmp");
    close(fd);
    cli_progress_begin(&writing, "making weights");
    enum tft_status status = shape_write(opt.shape, path, written, &err);
    cli_progress_end(&writing);
    int result = cli_interrupted()  ? CLI_INTERRUPTED
                 : status == TFT_OK ? cli_open_model(m, path, false)
                                    : CLI_FAILED;
    remove(path);
    if (status == TFT_ERR_ARG)
        return cli_usage("--shape is one of " SHAPE_NAMES ", not \"%s\"", opt.shape);
    return status == TFT_OK ? result : cli_fail("%s", err.msg);
}

int cmd_bench(int argc, char **argv)
{
    const char *path = NULL;
    struct tft_model *m = NULL;
    int list[MAX_LIST], status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (opt.runs > MAX_RUNS)
        return cli_usage("--runs is at most %d", MAX_RUNS);
    int n = parse_threads(list);
    if (!n)
        return cli_usage("--threads takes numbers of threads like 1,2,4, not \"%s\"", opt.threads);

    if (!path == !opt.shape)
        return cli_usage("either a MODEL or --shape");

    cli_catch_interrupts();
    status = cli_check_session() != CLI_OK ? CLI_USAGE
             : opt.shape                   ? open_shape(&m)
                                           : cli_open_model(&m, path, false);
    if (status == CLI_OK) {
        status = bench(m, list, n);
        tft_model_close(m);
    }
    return status;
}
