/*
 * The kernel harness, in the spirit of dav1d's checkasm. Each member of struct tft_kernels has a
 * case, which gives the kernel random shapes and data in buffers between unreadable pages, compares
 * it with the reference bit for bit, and times it.
 *
 *   kernels [--seed N] [--bench] [NAME]     NAME: run only the case of this name
 *
 * A case looks like this:
 *
 *   static void add(struct check *c)
 *   {
 *       CASE(c, "add", add);    // returns if this ISA level did not replace the member `add`
 *       for (int i = 0; i < 20; i++) {
 *           size_t n = check_size(c, 500);
 *           float *want = check_buf(c, n, 4), *got = check_buf(c, n, 4);
 *           check_fill(c, ..);
 *           ref->add(want, ..);
 *           now->add(got, ..);
 *           check_same(c, want, got, n * 4, "n %zu", n);
 *       }
 *       CHECK_TIME(c, "2048", flops, bytes, ref->add(..), now->add(..));
 *   }
 *
 * The same case judges results against double precision with check_near: if that takes long, only
 * the cases of the reference, where c->below is NULL.
 */
#ifndef TFT_CHECK_H
#define TFT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

struct check {
    const struct tft_kernels *ref;   /* the reference */
    const struct tft_kernels *below; /* the level below the one under test; NULL: the reference */
    const struct tft_kernels *now;   /* the ISA level under test */
    bool bench;
    bool thorough;    /* the environment variable TUFFET_THOROUGH is set: more shapes */
    const char *only; /* run only the case of this name, unless NULL */
    uint64_t rng;
    const char *name; /* the case that runs */
    unsigned failed, checked;
    unsigned char covered[sizeof(struct tft_kernels)]; /* by offset: the member has a case */
};

/* Parses the arguments, and installs handlers that print the running case before a signal ends the
   program. */
struct check check_start(int argc, char **argv);

uint32_t check_rand(struct check *c);
size_t check_below(struct check *c, size_t n); /* uniform in 0 .. n - 1 */
/* In 1 .. max; often small, or next to a multiple of 16. */
size_t check_size(struct check *c, size_t max);
/* About normal; sometimes 0, tiny or large. */
float check_float(struct check *c);
void check_fill(struct check *c, float *x, size_t n);
void check_fill_num(struct check *c, void *x, size_t n, enum tft_num num);

/* x[i] of a row of numbers of type num. */
double check_number(const void *x, size_t i, enum tft_num num);

/* n elements between two unreadable pages, adjacent to one of them at random. Filled with 0xa5.
   Freed when the next case begins, or by check_free. */
void *check_buf(struct check *c, size_t n, size_t size);
void check_free(void);

/* Begins the case of `member`, which points into *c->now. Returns false if the case need not run:
   the ISA level below has the same kernel, or the arguments ask for another case. check_named is
   for cases without a member, and looks only at the arguments. */
bool check_begin(struct check *c, const char *name, const void *member);
bool check_named(struct check *c, const char *name);

/* Fails unless the bytes are equal. fmt says which shape or element it is. */
void check_same(struct check *c, const void *want, const void *got, size_t bytes, const char *fmt,
                ...) __attribute__((format(printf, 5, 6)));
/* The same for floats, except that any NaN equals any other. Rewrites NaNs in both arrays. */
void check_same_floats(struct check *c, float *want, float *got, size_t n, const char *what);
/* Fails unless |got - want| <= tol * scale. */
void check_near(struct check *c, double want, double got, double scale, double tol, const char *fmt,
                ...) __attribute__((format(printf, 6, 7)));

uint64_t check_ns(void);
void check_report(struct check *c, const char *what, double flops, double bytes, double ref_ns,
                  double now_ns);

/* Begins the case of a member of struct tft_kernels, or returns. Declares ref and now. */
#define CASE(c, label, member)                                                                     \
    const struct tft_kernels *ref = (c)->ref, *now = (c)->now;                                     \
    do {                                                                                           \
        if (!check_begin(c, label, &now->member))                                                  \
            return;                                                                                \
    } while (0)

/* With --bench: reports the median time of each call. flops and bytes are of one call. */
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

/* The median of 9 samples of at least 2 ms each; one sample if a call takes more than 0.1 s. */
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

/* The cases of each file. */
void check_gemm(struct check *c);
void check_rows(struct check *c);
void check_gates(struct check *c);
void check_attention(struct check *c);
void check_int8(struct check *c);
void check_low(struct check *c);
void check_packed(struct check *c);
void check_codes(struct check *c);
void check_fit(struct check *c);
void check_state(struct check *c);

#endif
