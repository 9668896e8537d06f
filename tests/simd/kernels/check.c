#define _GNU_SOURCE
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "simd/half.h"

/* ------------------------------------------------------------------------------- random numbers */

/* xorshift64*, Vigna 2016 */
uint32_t check_rand(struct check *c)
{
    c->rng ^= c->rng >> 12;
    c->rng ^= c->rng << 25;
    c->rng ^= c->rng >> 27;
    return (uint32_t)(c->rng * 0x2545f4914f6cdd1d >> 32);
}

size_t check_below(struct check *c, size_t n)
{
    return check_rand(c) % n;
}

size_t check_size(struct check *c, size_t max)
{
    size_t n;
    switch (check_below(c, 3)) {
    case 0: n = 1 + check_below(c, max < 40 ? max : 40); break;
    case 1: n = 16 * (1 + check_below(c, max / 16 + 1)) + check_below(c, 3) - 1; break;
    default: n = 1 + check_below(c, max);
    }
    return n < 1 ? 1 : n > max ? max : n;
}

static float uniform(struct check *c)
{
    return (float)(check_rand(c) >> 8) * 0x1p-24f;
}

float check_float(struct check *c)
{
    float x = uniform(c) + uniform(c) + uniform(c) + uniform(c) - 2;
    switch (check_below(c, 64)) {
    case 0: return 0;
    case 1: return -0.0f;
    case 2: return x * 1e-30f;
    case 3: return x * 300;
    default: return x;
    }
}

void check_fill(struct check *c, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = check_float(c);
}

void check_fill_num(struct check *c, void *x, size_t n, enum tft_num num)
{
    for (size_t i = 0; i < n; i++) {
        float f = check_float(c);
        if (num == TFT_NUM_F32)
            ((float *)x)[i] = f;
        else
            ((uint16_t *)x)[i] = num == TFT_NUM_F16 ? tft_f32_to_f16(f) : tft_f32_to_bf16(f);
    }
}

double check_number(const void *x, size_t i, enum tft_num num)
{
    return num == TFT_NUM_F32   ? (double)((const float *)x)[i]
           : num == TFT_NUM_F16 ? (double)tft_f16_to_f32(((const uint16_t *)x)[i])
                                : (double)tft_bf16_to_f32(((const uint16_t *)x)[i]);
}

/* -------------------------------------------------------------------------------------- buffers */

static struct {
    void *base;
    size_t size;
} maps[1024];
static size_t n_maps;

void check_free(void)
{
    while (n_maps) {
        n_maps--;
        munmap(maps[n_maps].base, maps[n_maps].size);
    }
}

void *check_buf(struct check *c, size_t n, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = n * size,
           body = (bytes + page - 1) / page * page;
    if (!body)
        body = page;
    if (n_maps == sizeof maps / sizeof *maps) {
        fprintf(stderr, "kernels: more than %zu buffers in one case\n", n_maps);
        exit(2);
    }
#ifdef __EMSCRIPTEN__ /* every page can be read and written there */
    enum { GUARD = PROT_READ | PROT_WRITE };
#else
    enum { GUARD = PROT_NONE };
#endif
    char *p = mmap(NULL, body + 2 * page, GUARD, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, body, PROT_READ | PROT_WRITE) != 0) {
        perror("kernels: mmap");
        exit(2);
    }
    maps[n_maps].base = p;
    maps[n_maps].size = body + 2 * page;
    n_maps++;
    memset(p + page, 0xa5, body);
    return check_below(c, 4) ? p + page + body - bytes : p + page;
}

/* ---------------------------------------------------------------------------------- comparisons */

/* The signal handler's output. */
static const char *running = "nothing", *running_isa = "";

static void on_signal(int sig)
{
    char line[200];
    int n = snprintf(line, sizeof line, "%s_%s: %s\n", running, running_isa, strsignal(sig));
    ssize_t done = write(2, line, (size_t)n);
    _exit(done == n ? 1 : 3);
}

bool check_named(struct check *c, const char *name)
{
    if (c->only && strcmp(c->only, name) != 0)
        return false;
    running = c->name = name;
    running_isa = c->now->name;
    c->checked++;
    return true;
}

bool check_begin(struct check *c, const char *name, const void *member)
{
    typedef void fn(void);
    size_t offset = (size_t)((const char *)member - (const char *)c->now);
    fn *now, *below;
    memcpy(&now, member, sizeof now);
    check_free();
    c->covered[offset] = 1;
    if (c->below) {
        memcpy(&below, (const char *)c->below + offset, sizeof below);
        if (now == below)
            return false;
    }
    return check_named(c, name);
}

/* Counts a failure, and prints the first 20. Returns whether it did; a line of detail is to follow.
   */
static bool fail(struct check *c, const char *fmt, va_list args)
{
    if (c->failed++ >= 20)
        return false;
    fprintf(stderr, "%s_%s: ", c->name, c->now->name);
    vfprintf(stderr, fmt, args);
    fputs("\n    ", stderr);
    return true;
}

void check_same(struct check *c, const void *want, const void *got, size_t bytes, const char *fmt,
                ...)
{
    if (memcmp(want, got, bytes) == 0)
        return;
    va_list args;
    va_start(args, fmt);
    bool printed = fail(c, fmt, args);
    va_end(args);
    size_t i = 0;
    while (((const char *)want)[i] == ((const char *)got)[i])
        i++;
    if (printed)
        fprintf(stderr, "first difference at byte %zu of %zu\n", i, bytes);
}

void check_same_floats(struct check *c, float *want, float *got, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        want[i] = want[i] == want[i] ? want[i] : NAN;
        got[i] = got[i] == got[i] ? got[i] : NAN;
    }
    check_same(c, want, got, n * sizeof *want, "%s", what);
}

void check_near(struct check *c, double want, double got, double scale, double tol, const char *fmt,
                ...)
{
    if (fabs(want - got) <= tol * scale)
        return;
    va_list args;
    va_start(args, fmt);
    if (fail(c, fmt, args))
        fprintf(stderr, "got %.9g, want %.17g: error %.3g, allowed %.3g\n", got, want, got - want,
                tol * scale);
    va_end(args);
}

/* --------------------------------------------------------------------------------------- timing */

uint64_t check_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double check_median(double *t, size_t n)
{
    qsort(t, n, sizeof *t, by_value);
    return t[n / 2];
}

void check_report(struct check *c, const char *what, double flops, double bytes, double ref_ns,
                  double now_ns)
{
    printf("  %-12s %-7s %-28s %12.1f ns", c->name, c->now->name, what, now_ns);
    if (flops > 0)
        printf(" %8.1f GFLOP/s", flops / now_ns);
    if (bytes > 0)
        printf(" %7.1f GB/s", bytes / now_ns);
    printf("  %6.2fx\n", ref_ns / now_ns);
    fflush(stdout);
}

/* ---------------------------------------------------------------------------------- the program */

struct check check_start(int argc, char **argv)
{
    struct check c = {.rng = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u | 1,
                      .thorough = getenv("TUFFET_THOROUGH") != NULL};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--bench") == 0)
            c.bench = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            c.rng = strtoull(argv[++i], NULL, 0);
        else
            c.only = argv[i];
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGILL, on_signal);
    return c;
}
