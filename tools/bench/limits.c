#include "limits.h"

#include "inside.h"
#include "port/port.h"
#include "tools/cli/cli.h"

enum { RUNS = 7, CHUNK = 64 };

struct measurement {
    struct tft_kernels kern;
    float *x; /* LIMITS_BUFFER bytes */
    size_t int8_rounds, fma_rounds;
    double work[TFT_PORT_THREADS]; /* by thread: bytes or operations of one run */
    double read, int8, fma;        /* bytes or operations a second, the best of RUNS */
};

/* Updates *best by one run of all threads, which began at `start`. */
static void take_best(struct measurement *m, int tid, int n, uint64_t start, double *best)
{
    tft_port_barrier();
    if (tid == 0) {
        double seconds = (double)(cli_ns() - start) / 1e9, work = 0;
        for (int i = 0; i < n; i++)
            work += m->work[i];
        *best = work / seconds > *best ? work / seconds : *best;
    }
    tft_port_barrier();
}

static void measure(void *arg, int tid, int n)
{
    struct measurement *m = arg;
    size_t chunks = LIMITS_BUFFER / sizeof *m->x / CHUNK,
           begin = chunks * (size_t)tid / (size_t)n * CHUNK;
    size_t end = chunks * ((size_t)tid + 1) / (size_t)n * CHUNK;
    volatile float sink;
    /* Each thread writes the part that it will read, so that the pages are near its CPU. Not zeros,
       which some memory reads faster. */
    for (size_t i = begin; i < end; i++)
        m->x[i] = (float)(i * 2654435761u);
    for (int r = 0; r < RUNS; r++) {
        tft_port_barrier();
        uint64_t start = cli_ns();
        sink = m->kern.read(m->x + begin, end - begin);
        m->work[tid] = (double)(end - begin) * sizeof *m->x;
        take_best(m, tid, n, start, &m->read);

        start = cli_ns();
        m->work[tid] = m->kern.peak_int8(m->int8_rounds);
        take_best(m, tid, n, start, &m->int8);

        start = cli_ns();
        m->work[tid] = m->kern.peak_fma(m->fma_rounds);
        take_best(m, tid, n, start, &m->fma);
    }
    (void)sink;
}

/* A number of rounds that takes this machine 10 to 20 ms. */
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
    static struct measurement m;
    m = (struct measurement){.x = tft_port_alloc(LIMITS_BUFFER, 64)};
    if (!m.x)
        return false;
    tft_kernels_fill(&m.kern, tft_kernels_best());
    m.int8_rounds = rounds_of(m.kern.peak_int8);
    m.fma_rounds = rounds_of(m.kern.peak_fma);
    tft_port_team(threads, measure, &m);
    tft_port_free(m.x);
    *out = (struct limits){m.read / 1e9, m.int8 / 1e9, m.fma / 1e9};
    return true;
}
