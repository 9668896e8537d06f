/*
 * tuffet bench: speed, compared with the limits of the machine.
 *
 * Arithmetic limits prefill; the bytes that each token reads limit decoding. The share is the time
 * that the tighter limit alone would take, divided by the measured time.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/port.h"
#include "tools/bench/costs.h"
#include "tools/bench/hash.h"
#include "tools/bench/runs.h"
#include "tools/bench/samples.h"
#include "tools/bench/sessions.h"
#include "tools/bench/shape.h"
#include "tools/cli/clock.h"
#include "tools/cli/system.h"
#include "tools/commands/bench_compare.h"
#include "tools/commands/commands.h"

static struct {
    uint32_t prefill, decode, depth, runs, bits, layers;
    const char *threads, *sessions, *shape, *compare;
    int dynamic;
    bool hash, json;
} opt = {.runs = 5, .bits = 8};

static const struct cli_option options[] = {
    {'p', "prefill", CLI_COUNT, &opt.prefill, "N",
     "prompt length in tokens (default 512, or fewer in a short context)"},
    {'n', "decode", CLI_COUNT, &opt.decode, "N",
     "tokens to generate one by one (default 128, or fewer in a short context)"},
    {'d', "depth", CLI_COUNT, &opt.depth, "N",
     "tokens in the KV cache before the first measured one (default 0)"},
    {'r', "runs", CLI_COUNT, &opt.runs, "N",
     "runs of each measurement; the median counts, and the range is shown"},
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
    {0, "compare", CLI_TEXT, &opt.compare, "PROGRAM",
     "run this program and another build of tuffet in turn, --runs times each, and say whether "
     "this "
     "one is faster or slower"},
    {0, "hash", CLI_FLAG, &opt.hash, NULL,
     "measure nothing: print a hash of the logits that follow 64 fixed tokens, with each of the "
     "CPU's kernels (default MODEL: the model that ships)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: limits, the medians with the most threads of the list, and "
     "limits_range; rows, where session is the memory of the session in bytes, and cpu_tok_s the "
     "tokens for a second of CPU time of the first thread; sample_us, the microseconds to sample "
     "a token; exchanged, the bytes of a token that processes of mpirun exchange; and clock_mhz "
     "and clock_most_mhz, the CPUs' clock after the runs, and at most, or null"},
    {0},
};

enum { MAX_LIST = 16 };

struct row {
    struct work work;
    struct runs_time time;
    const struct samples *limits;
    size_t session; /* bytes */
};

struct rates {
    double gbps, gflops, share;
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

/* The share is of the limits that were measured until now. */
static struct rates rates_of(const struct tft_model *m, const struct row *r)
{
    struct tft_model_info info = {.size = sizeof info};
    struct costs c = costs_of(m, &r->work);
    struct limits l = samples_limits(r->limits);
    double seconds = r->time.seconds.median;
    tft_model_describe(m, &info);
    double flops = c.products + c.whole + c.windows,
           attention = strcmp(costs_kv(m), "i8") == 0 ? c.whole : 0; /* of integers */
    double by_bytes = c.bytes / 1e9 / l.read_gbps, by_int8 = attention / 1e9 / l.int8_gops;
    bool integers = info.weights == TFT_WEIGHTS_I8 || info.weights == TFT_WEIGHTS_PACKED;
    double by_flops = by_int8 + (integers ? c.products / 1e9 / l.int8_gops
                                          : (flops - attention) / 1e9 / l.fma_gflops);
    return (struct rates){c.bytes / 1e9 / seconds, flops / 1e9 / seconds,
                          (by_bytes > by_flops ? by_bytes : by_flops) / seconds};
}

/* tokens/s, of a row that took these seconds. */
static double speed(const struct row *r, double seconds)
{
    return (double)r->work.n * r->work.sessions / seconds;
}

/* All measured rows. JSON is printed at the end, so that an error leaves no half of an object. */
static struct {
    struct row row[2 * MAX_LIST];
    int n;
} found;

static void show_row(const struct tft_model *m, const struct row *r)
{
    char what[16], range[32];
    const struct spread *t = &r->time.seconds;
    found.row[found.n++] = *r;
    if (opt.json)
        return;
    struct rates x = rates_of(m, r);
    snprintf(what, sizeof what, "%s", r->work.decode ? "decode" : "prefill");
    if (opt.sessions)
        snprintf(what, sizeof what, "batch %u", r->work.sessions);
    snprintf(range, sizeof range, "%.1f..%.1f", speed(r, t->most), speed(r, t->least));
    printf("%-8s %6u %6u %7d  %-4s %10.1f %18s %8.1f %9.1f ", what, r->work.n, opt.depth,
           r->limits->threads, costs_kv(m), speed(r, t->median), range, x.gbps, x.gflops);
    if (isnan(x.share))
        printf("%8s\n", "-");
    else
        printf("%6.0f %%\n", 100 * x.share);
    fflush(stdout);
}

/* One row for each number of sessions, list: [n]. */
static int bench_sessions(const struct tft_model *m, const int32_t *ids, struct samples *l,
                          const int *list, int n)
{
    int status = CLI_OK;
    for (int i = 0; i < n && status == CLI_OK; i++) {
        struct sessions_opts o = {.m = m,
                                  .n = (uint32_t)list[i],
                                  .depth = opt.depth,
                                  .tokens = opt.decode,
                                  .threads = l->threads,
                                  .ids = ids,
                                  .limits = l};
        double t[RUNS_MOST];
        size_t bytes;
        cli_model_options.threads = (uint32_t)l->threads;
        status = time_sessions(t, &bytes, opt.runs, &o);
        if (status != CLI_OK)
            return status;
        struct row r = {.work = {true, o.tokens, o.n, opt.depth},
                        .time = {spread_of(t, opt.runs), NAN},
                        .limits = l,
                        .session = bytes};
        show_row(m, &r);
    }
    return status;
}

static int bench_threads(const struct tft_model *m, const int32_t *ids, struct samples *l)
{
    struct tft_session *s;
    uint32_t longest = opt.prefill > opt.decode ? opt.prefill : opt.decode;
    struct tft_session_opts so = {.capacity = cli_context(opt.depth + longest)};
    cli_model_options.threads = (uint32_t)l->threads;
    if (cli_open_session(&s, m, &so) != CLI_OK)
        return CLI_FAILED;

    size_t bytes = tft_session_bytes(m, &so, NULL);
    enum tft_status status = opt.depth ? cli_sync(s, ids, opt.depth) : TFT_OK;
    for (int decode = 0; decode < 2 && status == TFT_OK && !cli_interrupted(); decode++) {
        struct row r = {.work = {decode, decode ? opt.decode : opt.prefill, 1, opt.depth},
                        .limits = l,
                        .session = bytes};
        const struct runs o = {ids, opt.depth, r.work.n, opt.runs, decode, l};
        status = runs_time(&r.time, s, &o);
        if (r.time.seconds.median > 0)
            show_row(m, &r);
    }
    if (!opt.json && !cli_interrupted() && status == TFT_OK)
        printf("session  %6zu tokens, %zu bytes\n", tft_capacity(s), bytes);
    int result = cli_interrupted()  ? CLI_INTERRUPTED
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
        *seconds = spread_of(t, DRAWS).median;
        *exchanged = runs_exchanged(m, s);
        tft_session_close(s);
    }
    free(logits);
    return status;
}

static void print_limits_json(const struct samples *s)
{
    struct samples_spread x = samples_spread(s);
    if (isnan(x.read_gbps.median))
        printf("\"limits\":null");
    else
        printf("\"limits\":{\"read_gbps\":%.6g,\"int8_gops\":%.6g,\"fma_gflops\":%.6g}",
               x.read_gbps.median, x.int8_gops.median, x.fma_gflops.median);
    if (s->fixed)
        printf(",\"limits_range\":null");
    else
        printf(
            ",\"limits_range\":{\"times\":%zu,\"read_gbps\":[%.6g,%.6g],\"int8_gops\":[%.6g,%.6g],"
            "\"fma_gflops\":[%.6g,%.6g]}",
            s->n, x.read_gbps.least, x.read_gbps.most, x.int8_gops.least, x.int8_gops.most,
            x.fma_gflops.least, x.fma_gflops.most);
}

static void print_row_json(const struct tft_model *m, const struct row *r)
{
    struct rates x = rates_of(m, r);
    const struct spread *t = &r->time.seconds;
    printf("{\"what\":\"%s\",\"sessions\":%u,\"tokens\":%u,\"depth\":%u,\"threads\":%d,"
           "\"kv\":\"%s\",\"session\":%zu,\"tok_s\":%.6g,\"tok_s_min\":%.6g,\"tok_s_max\":%.6g,"
           "\"gbps\":%.6g,\"gflops\":%.6g",
           r->work.decode ? "decode" : "prefill", r->work.sessions, r->work.n, opt.depth,
           r->limits->threads, costs_kv(m), r->session, speed(r, t->median), speed(r, t->most),
           speed(r, t->least), x.gbps, x.gflops);
    cli_json_number("cpu_tok_s", speed(r, r->time.cpu_seconds));
    cli_json_number("share", x.share);
    printf("}");
}

/* l: the limits with the most threads */
static void print_json(const struct tft_model *m, const struct samples *l, double sample_seconds,
                       size_t exchanged)
{
    printf("{");
    print_limits_json(l);
    printf(",\"rows\":[");
    for (int i = 0; i < found.n; i++) {
        printf("%s", i ? "," : "");
        print_row_json(m, &found.row[i]);
    }
    struct clock c;
    bool told = clock_read(&c, CLOCK_FOLDER);
    printf("],\"sample_us\":%.4g,\"exchanged\":%zu", 1e6 * sample_seconds, exchanged);
    cli_json_number("clock_mhz", told ? c.mhz : NAN);
    cli_json_number("clock_most_mhz", told ? c.most_mhz : NAN);
    printf("}\n");
}

static void print_limits(const struct samples *s)
{
    struct samples_spread x = samples_spread(s);
    if (isnan(x.read_gbps.median))
        return;
    if (s->fixed)
        printf("%s by its clocks", cli_model_options.device);
    else
        printf("%s, %d thread%s", tft_cpu_name(), s->threads, s->threads > 1 ? "s" : "");
    printf(": memory read %.1f GB/s, int8 %.0f GOP/s, fma %.1f GFLOP/s", x.read_gbps.median,
           x.int8_gops.median, x.fma_gflops.median);
    if (s->n > 1)
        printf(" (of %zu: %.1f..%.1f, %.0f..%.0f, %.1f..%.1f)", s->n, x.read_gbps.least,
               x.read_gbps.most, x.int8_gops.least, x.int8_gops.most, x.fma_gflops.least,
               x.fma_gflops.most);
    printf("\n");
}

/* After the runs: a hot machine has slowed down. */
static void print_clock(void)
{
    struct clock c;
    if (clock_read(&c, CLOCK_FOLDER))
        printf("clock    %.2f GHz after the runs, %.2f at most\n", c.mhz / 1e3, c.most_mhz / 1e3);
}

/* The end of the table. l: [n] */
static void print_rest(const struct tft_model *m, const struct samples *l, int n, double seconds,
                       size_t exchanged)
{
    printf("sample   %49.1f\n", 1 / seconds);
    if (runs_has_processes(m))
        printf("exchange %7zu bytes a token\n", exchanged);
    print_clock();
    printf("\n");
    for (int i = 0; i < n; i++)
        print_limits(&l[i]);
}

/* Which number of threads is the largest. */
static int largest_of(const struct samples *l, int n)
{
    int largest = 0;
    for (int i = 1; i < n; i++)
        largest = l[i].threads > l[largest].threads ? i : largest;
    return largest;
}

/* l: [n] */
static int finish(const struct tft_model *m, const struct samples *l, int n)
{
    double seconds = 0;
    size_t exchanged = 0;
    int status = time_sampling(m, &seconds, &exchanged);
    if (status == CLI_OK && opt.json)
        print_json(m, &l[largest_of(l, n)], seconds, exchanged);
    else if (status == CLI_OK)
        print_rest(m, l, n, seconds, exchanged);
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

static void print_head(void)
{
    printf("%-8s %6s %6s %7s  %-4s %10s %18s %8s %9s %8s\n", "", "tokens", "depth", "threads", "kv",
           "tokens/s", "range", "GB/s", "GOP/s", "share");
}

static void set_default(uint32_t *n, uint32_t usual, uint32_t room)
{
    if (!*n)
        *n = usual < room ? usual : room;
}

/* Measures the limits for each number of threads, l: [n]. This comes before the model takes its
   memory, so that the two add up only where there is enough. For an unreadable file, opening prints
   the error: nothing is measured. */
static int limits_of_cpu(struct samples *l, int n, const char *path)
{
    if (path && access(path, R_OK) != 0)
        return CLI_OK;
    if (cli_limit_cpu() != CLI_OK)
        return CLI_FAILED;
    for (int i = 0; i < n; i++)
        if (!samples_add(&l[i]))
            return cli_fail("out of memory for the buffer that the limits are measured with");
    return CLI_OK;
}

/* l: [n], as measured on a CPU; a device's limits replace them. sessions: [n_sessions], or none */
static int bench(const struct tft_model *m, struct samples *l, int n, const int *sessions,
                 int n_sessions)
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
        samples_fix(&l[i], costs_device(m));
    int32_t *ids = random_tokens(opt.depth + longest, info.n_vocab);
    if (!ids)
        return cli_fail("out of memory");
    if (!opt.json)
        print_head();
    int status = CLI_OK;
    for (int i = 0; i < n && status == CLI_OK && !n_sessions; i++)
        status = bench_threads(m, ids, &l[i]);
    if (n_sessions)
        status = bench_sessions(m, ids, &l[n - 1], sessions, n_sessions);
    free(ids);
    return status == CLI_OK ? finish(m, l, n) : status;
}

static struct cli_progress writing;

static bool show_written(double done)
{
    cli_progress_at(&writing, done);
    return !cli_interrupted();
}

/* Writes a model of random weights. It is a file, because a model is a mapped file: its pages are
   in the file cache. path: receives the file's name, [4096]; empty if there is no file. */
static int write_shape(char path[4096])
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
    return cli_interrupted()  ? CLI_INTERRUPTED
           : status == TFT_OK ? CLI_OK
                              : cli_fail("%s", err.msg);
}

/* Removes the file of write_shape, if that is possible: Windows keeps it while it is mapped. */
static void remove_shape(char path[4096])
{
    if (*path && remove(path) == 0)
        *path = 0;
}

/* Measures MODEL, or else the shape in the file that this function writes. l: [n] */
static int measure(const char *path, char shape[4096], struct samples *l, int n,
                   const int *sessions, int n_sessions)
{
    struct tft_model *m;
    int status = limits_of_cpu(l, n, path);
    if (status == CLI_OK && opt.shape)
        status = write_shape(shape);
    if (status == CLI_OK)
        status = cli_open_model(&m, opt.shape ? shape : path, false);
    remove_shape(shape);
    if (status != CLI_OK)
        return status;
    status = bench(m, l, n, sessions, n_sessions);
    tft_model_close(m);
    return status;
}

/* ---- hashes */

struct hashed {
    const char *name; /* of the kernels */
    char kv[64];
    uint64_t hash;
};

/* Opens the model with the CPU of the options and hashes its logits. */
static int hash_once(struct hashed *h, const char *path)
{
    struct tft_model *m;
    struct tft_model_info info = {.size = sizeof info};
    int status = cli_open_model(&m, path, false);
    if (status != CLI_OK)
        return status;
    tft_model_describe(m, &info);
    h->name = tft_cpu_name();
    snprintf(h->kv, sizeof h->kv, "%s", costs_kv(m));
    int32_t *ids = random_tokens(HASH_TOKENS, info.n_vocab);
    status = ids ? hash_logits(&h->hash, m, ids) : cli_fail("out of memory");
    free(ids);
    tft_model_close(m);
    return status;
}

static void print_hash(const struct hashed *h, bool first)
{
    if (opt.json)
        printf("%s{\"cpu\":\"%s\",\"kv\":\"%s\",\"hash\":\"0x%016" PRIx64 "\"}",
               first ? "{\"hashes\":[" : ",", h->name, h->kv, h->hash);
    else
        printf("%-12s %-8s 0x%016" PRIx64 "\n", h->name, h->kv, h->hash);
}

/* With all of the CPU's kernels, or those of --cpu; a device has one hash. */
static int hash_all(const char *path)
{
    bool one = cli_model_options.cpu || cli_model_options.device, same = true;
    struct hashed first, h;
    for (int i = 0; one ? i < 1 : hash_kernels(i) != NULL; i++) {
        if (!one)
            cli_model_options.cpu = hash_kernels(i);
        int status = hash_once(&h, path);
        if (status != CLI_OK)
            return status;
        first = i ? first : h;
        same = same && h.hash == first.hash;
        print_hash(&h, i == 0);
    }
    if (opt.json)
        printf("]}\n");
    return same ? CLI_OK : cli_fail("the kernels disagree");
}

/* ---- the command */

static int compare(const char *path)
{
    static const char *const own[] = {"compare", "hash",   "runs",    "json", "shape",
                                      "bits",    "layers", "dynamic", NULL};
    return bench_compare(&(struct bench_compare){.other = opt.compare,
                                                 .path = path,
                                                 .options = options,
                                                 .left_out = own,
                                                 .pairs = opt.runs,
                                                 .json = opt.json});
}

/* For --hash and --compare: a shape stays in its file until all have opened it. */
static int with_file(const char *path, char shape[4096])
{
    int status = opt.shape ? write_shape(shape) : CLI_OK;
    path = opt.shape ? shape : path;
    if (status == CLI_OK)
        status = opt.hash ? hash_all(path) : compare(path);
    remove_shape(shape);
    return status;
}

static int check_list_options(int n, int n_sessions)
{
    if (opt.runs > RUNS_MOST)
        return cli_usage("--runs must be at most %d", RUNS_MOST);
    if (!n)
        return cli_usage("--threads needs a list of numbers like 1,2,4, not \"%s\"", opt.threads);
    if (opt.sessions && !n_sessions)
        return cli_usage("--sessions needs a list of numbers like 1,2,4, not \"%s\"", opt.sessions);
    if (opt.sessions && opt.prefill)
        return cli_usage("--sessions measures no prompt: leave out -p");
    if (opt.compare && (opt.sessions || opt.hash))
        return cli_usage("--compare measures a prompt and generating: leave out --sessions and "
                         "--hash");
    return CLI_OK;
}

static int check_shape_options(const char *path)
{
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
    if (opt.layers && opt.layers < shape_least_layers(opt.shape))
        return cli_usage("--layers: %s takes at least %u, so that one of them has attention",
                         opt.shape, shape_least_layers(opt.shape));
    return CLI_OK;
}

static int run_bench(const char *path)
{
    char shape[4096] = "";
    static struct samples limits[MAX_LIST];
    int list[MAX_LIST], n = parse_threads(list), sessions[MAX_LIST],
                        n_sessions = opt.sessions ? parse_list(sessions, opt.sessions) : 0;
    int status = check_list_options(n, n_sessions);
    if (status == CLI_OK && opt.hash && !path && !opt.shape && !(path = cli_shipped_model()))
        return CLI_USAGE;
    if (status == CLI_OK)
        status = check_shape_options(path);
    if (status == CLI_OK)
        status = cli_check_kv(cli_session_options.kv);
    if (status != CLI_OK)
        return status;
    cli_catch_interrupts();
    for (int i = 0; i < n; i++)
        limits[i].threads = list[i];
    cli_model_options.threads = opt.hash ? (uint32_t)list[n - 1] : 0;
    if (opt.hash || opt.compare)
        return with_file(path, shape);
    status = measure(path, shape, limits, n, sessions, n_sessions);
    remove_shape(shape);
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
             "before the model and, in at most a fifth of the time, between its runs; the medians "
             "count. For a GPU they follow from its clocks. The share is the time that the tighter "
             "limit alone would take, divided by the measured time. It may exceed 100 %: a model "
             "that fits in the CPU's caches reads faster than from memory. If the "
             "weights are int8 or codes, the share of arithmetic counts their products and, with "
             "--kv i8, the integer products of attention without a window.\n"
             "\n"
             "The row \"sample\" is the choice of a token with the defaults of tuffet run, from "
             "logits like a trained model's. It is not part of \"decode\".\n"
             "\n"
             "--shape writes the model to a file in the folder TMPDIR, or else the system's, and "
             "removes the file as soon as it is open.\n"
             "\n"
             "--compare runs both programs on one file, each --runs times, and the other one first "
             "in every second pair. The ratio is this program's tokens/s divided by PROGRAM's: the "
             "median of the pairs, and the range. \"faster\" means that the ratio is above 1 in "
             "every pair, \"slower\" below 1 in every pair, else \"within noise\"; fewer than 5 "
             "pairs give no verdict. Two equal programs agree in all of 5 pairs in one row of 16, "
             "in all of 9 in one of 256. \"by CPU\" is the ratio of the tokens for a second of CPU "
             "time of the first thread, which other work on the machine changes less. A build for "
             "Windows has no --compare.\n",
    .examples = "tuffet bench model.gguf\n"
                "tuffet bench --shape smollm2-135m -t 1,2\n"
                "tuffet bench model.gguf --sessions 1,2,4,8 -n 32\n"
                "tuffet bench model.gguf -d 2048 -t 1,4 --kv f32 --json\n"
                "tuffet bench --shape smollm2-135m -t 1 -r 9 --compare ./tuffet-old\n"
                "tuffet bench --hash\n",
    .run = run_bench,
};
