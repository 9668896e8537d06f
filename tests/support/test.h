/* cmocka, and the headers that must be included before it; how much a test tries. */
#ifndef TFT_TEST_H
#define TFT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Leaves the rest of a case out; tests/suite.py repeats the reason. */
#define skip_because(...) (print_message("skipped: " __VA_ARGS__), print_message("\n"), skip())

/* Whether the environment variable TUFFET_THOROUGH is set: a test then tries all its combinations.
   Otherwise it takes some in which each value occurs. */
static inline bool thorough(void)
{
    return getenv("TUFFET_THOROUGH") != NULL;
}

/* Whether case i of combination k is among them, where each k has one of n cases in turn. */
static inline bool in_turn(int i, int k, int n)
{
    return thorough() || i % n == k % n;
}

#endif
