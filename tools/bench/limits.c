#include "limits.h"

#include "tools/cli/cli.h"
#include "simd/kernels.h"
#include "port/port.h"

/* the buffer is larger than any last-level cache it is likely to meet */
enum { RUNS = 7, BUFFER = 256 << 20, CHUNK = 64 };

struct job {
    struct tft_kernels kern;
    float *x;     /* BUFFER bytes */
    size_t int8_rounds, fma_rounds;
    double work[TFT_PORT_THREADS];  /* by thread: what it did */
    double read, int8, fma; /* best of RUNS, per second */
};

/* Keeps the best of the runs of one measurement; thread 0 does the bookkeeping. */
static void take_best(struct job *j, int tid, int n, uint64_t start, double *best)
{
    tft_port_barrier();
    if (tid == 0) {
        double seconds = (double)(cli_ns() - start) / 1e9, work = 0;
        for (int i = 0; i < n; i++)
            work += j->work[i];
        *best = work / seconds > *best ? work / seconds : *best;
    }
    tft_port_barrier();
}

static void measure(void *arg, int tid, int n)
{
    struct job *j = arg;
    size_t chunks = BUFFER / sizeof *j->x / CHUNK, begin = chunks * (size_t)tid / (size_t)n * CHUNK;
    size_t end = chunks * ((size_t)tid + 1) / (size_t)n * CHUNK;
    volatile float sink;
    for (size_t i = begin; i < end; i++)
        j->x[i] = (float)(i * 2654435761u); /* its own share, so that it is near; not zeros, which
                                               some memory is quicker with */
    for (int r = 0; r < RUNS; r++) {
        tft_port_barrier();
        uint64_t start = cli_ns();
        sink = j->kern.read(j->x + begin, end - begin);
        j->work[tid] = (double)(end - begin) * sizeof *j->x;
        take_best(j, tid, n, start, &j->read);

        start = cli_ns();
        j->work[tid] = j->kern.peak_int8(j->int8_rounds);
        take_best(j, tid, n, start, &j->int8);

        start = cli_ns();
        j->work[tid] = j->kern.peak_fma(j->fma_rounds);
        take_best(j, tid, n, start, &j->fma);
    }
    (void)sink;
}

/* As many as take this machine 10 ms or a bit more. */
static size_t rounds_of(tft_peak_fn *peak)
{
    for (size_t rounds = 1000;; rounds *= 2) {
        uint64_t start = cli_ns();
        peak(rounds);
        if (cli_ns() - start > 10000000)
            return rounds;
    }
}

bool measure_limits(struct limits *out, int threads)
{
    static struct job j;
    j = (struct job){.x = tft_port_alloc(BUFFER, 64)};
    if (!j.x)
        return false;
    tft_kernels_fill(&j.kern, tft_kernels_best());
    j.int8_rounds = rounds_of(j.kern.peak_int8);
    j.fma_rounds = rounds_of(j.kern.peak_fma);
    tft_port_team(threads, measure, &j);
    tft_port_free(j.x);
    *out = (struct limits){j.read / 1e9, j.int8 / 1e9, j.fma / 1e9};
    return true;
}
