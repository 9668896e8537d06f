/* Bits of the weights: the list of the options, or a search for the bits of each matrix of the
   layers (tft_quantize_opts.bits_search). */
#ifndef QUANTIZE_JOB_BITS_H
#define QUANTIZE_JOB_BITS_H

#include "tools/quantize/job/job.h"
#include "tools/quantize/options.h"
#include "tools/quantize/search/bits_search.h"

/* Checks the options. */
enum tft_status job_bits_check(struct job *j);

/* [n_layer, LAYER_MATS] of quantize_opts. */
struct job_bits {
    uint8_t *bits, *groups;
    float *nats;
};

/* Sets b, which is in o, from the options. */
enum tft_status job_bits_choose(struct job *j, const struct quantize_opts *o, struct job_bits b);

/* Call before quantize_temp(). With a search: makes a model with 8 bits, searches, and discards
   it. b is set to the result; r: all zeros. o: as for quantize(), with its progress. */
enum tft_status job_bits_run(struct job *j, const struct quantize_opts *o, struct job_bits b,
                             struct bits_search *r);

/* The result, for tft_quantize_opts.bits, which the caller frees; NULL: there was no search, or
   memory is short. */
char *job_bits_text(const struct bits_search *r);

#endif
