/*
 * The kernel harness, in the spirit of dav1d's checkasm: one case per slot of struct tft_kernels
 * gives a kernel random shapes and data in buffers that end where memory ends, compares it with the
 * reference bit for bit, and times it.
 *
 *      kernels [--seed N] [--bench] [NAME]
 *
 * A case looks like this:
 *
 *      void check_add(struct check *c)
 *      {
 *          CASE(c, add, add);                              // returns where this rung left the slot
 *          as it was for (each of some random sizes n) {
 *              float *y = check_buf(c, n, sizeof *y), ...; // freed after the case
 *              check_fill(c, y, n);
 *              ref->add(..); now->add(..);
 *              check_same(c, want, got, n * sizeof(float), "n %zu", n);
 *          }
 *          CHECK_TIME(c, flops, bytes, ref->add(..), now->add(..));
 *      }
 *
 * The reference itself is judged against double precision (check_near) in the same case, on the
 * first rung only.
 */
#ifndef TFT_CHECK_H
#define TFT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

struct check {
    /* the reference, the rung below, the rung in hand */
    const struct tft_kernels *ref, *below, *now;
    bool bench;
    const char *only; /* run only the case of this name */
    uint64_t rng;
    const char *name; /* of the case that runs, for the signal handler too */
    unsigned failed, checked;
    unsigned char covered[sizeof(struct tft_kernels)];
};

/* What the arguments ask for; and a signal says which case it comes from. */
struct check check_start(int argc, char **argv);

uint32_t check_rand(struct check *c);
size_t check_below(struct check *c, size_t n);              /* uniform in 0..n-1 */
/* 1..max; often small, or beside a multiple of 16 */
size_t check_size(struct check *c, size_t max);
/* about normal; now and then zero, tiny or large */
float check_float(struct check *c);
void check_fill(struct check *c, float *x, size_t n);
void check_fill_num(struct check *c, void *x, size_t n, enum tft_num num);

/* n elements between two unreadable pages, touching one of them (either, at random). Freed when the
   case ends, or by check_free. */
void *check_buf(struct check *c, size_t n, size_t size);
void check_free(void);

/* False if that rung is the same as the one below in that slot, or if only others are wanted.
   Without a rung: only the latter. */
bool check_begin(struct check *c, const char *name, const void *slot);
bool check_named(struct check *c, const char *name);
void check_same(struct check *c, const void *want, const void *got, size_t bytes, const char *fmt,
                ...) __attribute__((format(printf, 5, 6)));
/* |got - want| <= tol * scale */
void check_near(struct check *c, double want, double got, double scale, double tol, const char *fmt,
                ...) __attribute__((format(printf, 6, 7)));

uint64_t check_ns(void);
void check_report(struct check *c, const char *what, double flops, double bytes, double ref_ns,
                  double now_ns);

/* slot: the member of struct tft_kernels */
#define CASE(c, label, slot)                                                                       \
    const struct tft_kernels *ref = (c)->ref, *now = (c)->now;                                     \
    do {                                                                                           \
        if (!check_begin(c, label, &now->slot))                                                    \
            return;                                                                                \
    } while (0)

/* Median of several runs of each call; flops and bytes of one call. */
#define CHECK_TIME(c, what, flops, bytes, ref_call, now_call)                                      \
    do {                                                                                           \
        if ((c)->bench) {                                                                          \
            double ref_ns, now_ns;                                                                 \
            CHECK_CLOCK(ref_ns, ref_call);                                                         \
            CHECK_CLOCK(now_ns, now_call);                                                         \
            check_report(c, what, flops, bytes, ref_ns, now_ns);                                   \
        }                                                                                          \
    } while (0)

double check_median(double *t, size_t n);

/* Samples of at least 2 ms; what takes long is not repeated. */
#define CHECK_CLOCK(ns, call)                                                                      \
    do {                                                                                           \
        size_t reps = 1, samples = 9;                                                              \
        double t[9];                                                                               \
        for (;; reps *= 2) {                                                                       \
            uint64_t t0 = check_ns();                                                              \
            for (size_t r = 0; r < reps; r++)                                                      \
                call;                                                                              \
            t[0] = (double)(check_ns() - t0) / (double)reps;                                       \
            if (t[0] * (double)reps > 2e6)                                                         \
                break;                                                                             \
        }                                                                                          \
        if (t[0] > 1e8)                                                                            \
            samples = 1;                                                                           \
        for (size_t run = 1; run < samples; run++) {                                               \
            uint64_t t0 = check_ns();                                                              \
            for (size_t r = 0; r < reps; r++)                                                      \
                call;                                                                              \
            t[run] = (double)(check_ns() - t0) / (double)reps;                                     \
        }                                                                                          \
        ns = check_median(t, samples);                                                             \
    } while (0)

/* the families */
void check_gemm(struct check *c);
void check_rows(struct check *c);
void check_attention(struct check *c);
void check_int8(struct check *c);
void check_codes(struct check *c);

#endif
