/* What a run takes: an estimate before it begins. */
#ifndef QUANTIZE_PLAN_H
#define QUANTIZE_PLAN_H

#include "tools/quantize/options.h"
#include "tools/quantize/tuffet_quantize.h"

/* o: with bits and rotate. tokens: of the calibration text. plain: a file of --gguf. rewrites:
   steps after quantize_temp() change the file, which is written once more (job/made.h). */
struct tft_quantize_plan quantize_plan_of(const struct tft_model *m, const struct quantize_opts *o,
                                          uint32_t tokens, bool plain, bool rewrites);

/* The operations to calibrate the cache fisher, besides those of the plan. */
double quantize_plan_fisher(const struct tft_model *m, uint32_t tokens);

#endif
