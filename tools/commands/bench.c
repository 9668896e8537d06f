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

#include "port/port.h"
#include "tools/bench/costs.h"
#include "tools/bench/limits.h"
#include "tools/bench/runs.h"
#include "tools/bench/sessions.h"
#include "tools/bench/shape.h"
#include "tools/cli/system.h"
#include "tools/commands/commands.h"

static struct {
    uint32_t prefill, decode, depth, runs, bits, layers;
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
     "numbers of threads, \"1,2,4\" (default 1, and one for each fast core)"},
    {0, "sessions", CLI_TEXT, &opt.sessions, "LIST",
     "measure this many sessions that generate at the same time, \"1,2,4,8\", instead of a prompt, "
     "with the last number of threads"},
    {0, "shape", CLI_TEXT, &opt.shape, "NAME:" SHAPE_NAMES,
     "use random weights in the shape of a known model, instead of MODEL: " SHAPE_NAMES},
    {0, "bits", CLI_COUNT, &opt.bits, "N", "bits of a weight of --shape: 8, 4, 3 or 2"},
    {0, "layers", CLI_COUNT, &opt.layers, "N",
     "write only the first N layers of --shape, if the disk has no room for more (default all)"},
    {0, "dynamic", CLI_WORD, &opt.dynamic, "no|token",
     "let --shape measure the ranges of activations of each token while it runs, as a model of "
     "quantize --dynamic does"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: limits, measured with the most threads of the list; rows, where "
     "session is the memory of the session in bytes; sample_us, the microseconds to sample a "
     "token; and exchanged, the bytes of a token that processes of mpirun exchange"},
    {0},
};

enum { MAX_LIST = 16 };

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

static struct row evaluate(const struct tft_model *m, const struct limits *l, const struct work *w,
                           int threads, double seconds)
{
    struct tft_model_info info = {.size = sizeof info};
    struct costs c = costs_of(m, w);
    tft_model_describe(m, &info);
    double flops = c.products + c.whole + c.windows,
           attention = strcmp(costs_kv(m), "i8") == 0 ? c.whole : 0; /* of integers */
    double by_bytes = c.bytes / 1e9 / l->read_gbps, by_int8 = attention / 1e9 / l->int8_gops;
    bool integers = info.weights == TFT_WEIGHTS_I8 || info.weights == TFT_WEIGHTS_PACKED;
    double by_flops = by_int8 + (integers ? c.products / 1e9 / l->int8_gops
                                          : (flops - attention) / 1e9 / l->fma_gflops);
    return (struct row){
        .what = w->decode ? "decode" : "prefill",
        .tokens = w->n,
        .sessions = w->sessions,
        .threads = threads,
        .tok_s = (double)w->n * w->sessions / seconds,
        .gbps = c.bytes / 1e9 / seconds,
        .gflops = flops / 1e9 / seconds,
        .share = (by_bytes > by_flops ? by_bytes : by_flops) / seconds,
    };
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
           costs_kv(m), r->tok_s, r->gbps, r->gflops);
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
        double t[RUNS_MOST];
        size_t bytes;
        cli_model_options.threads = (uint32_t)threads;
        status = time_sessions(t, &bytes, opt.runs, &o);
        if (status != CLI_OK)
            return status;
        const struct work w = {true, o.tokens, o.n, opt.depth};
        struct row r = evaluate(m, l, &w, threads, runs_median(t, opt.runs));
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

    size_t bytes = tft_session_bytes(m, &so, NULL);
    enum tft_status status = opt.depth ? cli_sync(s, ids, opt.depth) : TFT_OK;
    for (int decode = 0; decode < 2 && status == TFT_OK && !cli_interrupted(); decode++) {
        const struct work w = {decode, decode ? opt.decode : opt.prefill, 1, opt.depth};
        const struct runs o = {ids, w.depth, w.n, opt.runs, decode};
        double seconds = 0;
        status = runs_time(&seconds, s, &o);
        if (seconds > 0) {
            struct row r = evaluate(m, l, &w, threads, seconds);
            r.session = bytes;
            show_row(m, &r);
        }
    }
    if (!opt.json && !cli_interrupted() && status == TFT_OK)
        printf("session  %6zu tokens, %zu bytes\n", tft_capacity(s), bytes);
    int result = cli_interrupted() ? CLI_INTERRUPTED
                 : status == TFT_OK ? CLI_OK
                                    : cli_fail_session(s);
    tft_session_close(s);
    return result;
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
   thread. *exchanged: as runs_exchanged */
static int time_sampling(const struct tft_model *m, double *seconds, size_t *exchanged)
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
        *seconds = runs_median(t, DRAWS);
        *exchanged = runs_exchanged(m, s);
        tft_session_close(s);
    }
    free(logits);
    return status;
}

/* l: the limits with the most threads */
static void print_json(const struct tft_model *m, const struct limits *l, double sample_seconds,
                       size_t exchanged)
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
               i ? "," : "", r->what, r->sessions, r->tokens, opt.depth, r->threads, costs_kv(m),
               r->session, r->tok_s, r->gbps, r->gflops);
        cli_json_number("share", r->share);
        printf("}");
    }
    printf("],\"sample_us\":%.4g,\"exchanged\":%zu}\n", 1e6 * sample_seconds, exchanged);
}

/* l: the limits with the most threads */
static int finish(const struct tft_model *m, const struct limits *l)
{
    double seconds = 0;
    size_t exchanged = 0;
    int status = time_sampling(m, &seconds, &exchanged);
    if (status == CLI_OK && opt.json)
        print_json(m, l, seconds, exchanged);
    else if (status == CLI_OK)
        printf("sample   %49.1f\n", 1 / seconds);
    if (status == CLI_OK && !opt.json && runs_has_processes(m))
        printf("exchange %7zu bytes a token\n", exchanged);
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

/* Prints the limits for each number of threads, list: [n], and then begins the rows. */
static void print_limits(const struct limits *l, const int *list, int n, bool device)
{
    for (int i = 0; i < n; i++) {
        if (isnan(l[i].read_gbps))
            continue;
        if (device)
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

    if (info.n_device && info.n_device == info.n_layer && !runs_has_processes(m))
        n = 1; /* a GPU computes all: the number of threads makes no difference */
    for (int i = 0; i < n && info.n_device; i++)
        l[i] = costs_device(m);
    int32_t *ids = random_tokens(opt.depth + longest, info.n_vocab);
    if (!ids)
        return cli_fail("out of memory");
    if (!opt.json)
        print_limits(l, list, n, info.n_device);
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
    struct shape_opts o = {.name = opt.shape,
                           .layers = opt.layers,
                           .bits = opt.bits,
                           .range = (enum shape_range)opt.dynamic,
                           .progress = show_written};
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
    if (opt.runs > RUNS_MOST)
        return cli_usage("--runs must be at most %d", RUNS_MOST);
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
    if (opt.shape && shape_has_type(opt.shape) && (opt.bits != 8 || opt.dynamic))
        return cli_usage("--shape %s has weights of its own type: leave out --bits and --dynamic",
                         opt.shape);
    if (opt.dynamic && !opt.shape)
        return cli_usage("--dynamic goes with --shape: tuffet quantize --dynamic makes a MODEL");
    if (opt.layers && !opt.shape)
        return cli_usage("--layers goes with --shape");

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
            {NULL, cli_verbose_option_list},
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
