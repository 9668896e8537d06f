/*
 * Rounding in the test of the tuning gradients.
 *
 * A rounded number has slope 0 almost everywhere, so that finite differences say nothing about the
 * gradients of CushionCache, section 4.2. These gradients are the slopes of other functions with
 * the same values at one point, here called the base:
 *
 *   - the products take q(x) with slope 1 within its range and 0 beyond it, "straight through"
 *     (Bengio et al. 2013, section 4): x plus a constant, which is q(x) - x of the base;
 *   - the error |x - q(x)|^2 takes q(x) for a constant: that of the base.
 *
 * A run at the base records these constants; other runs replay them.
 */
#ifndef TFT_TEST_TUNE_ROUNDING_H
#define TFT_TEST_TUNE_ROUNDING_H

#include <stdbool.h>

#include "tools/quantize/tune/real.h"

enum rounding { ROUND, RECORD, REPLAY }; /* ROUND: really, and no record */

/* Sets the mode of the next run. False if the last replay was not of the recorded length. */
bool rounding_begin(enum rounding mode);

/* x rounded as the products take it. real_round is that of errors. */
real rounding_straight_through(real x);

#endif
