/* The held-out text in a run for an encoder: how near the vectors of the new model are to the float
   model's, and which inputs get ranges by token so that they are near. */
#ifndef QUANTIZE_JOB_VECTORS_H
#define QUANTIZE_JOB_VECTORS_H

#include "tools/quantize/inputs.h"
#include "tools/quantize/job/made.h"
#include "tools/quantize/job/text.h"

/* `auto` gives ranges by token until the mean of 1 - cosine is at most this. */
#define VECTORS_LOSS 0.002

struct job_vectors {
    struct job *j;
    const struct check_text *text; /* NULL: not opened */
    float *floats, *file;          /* [n_windows, width] */
    uint32_t width;
    uint32_t n;        /* texts that were compared; 0: none */
    double mean, most; /* 1 - cosine */
    uint32_t n_ranges; /* inputs to which `auto` gave ranges by token */
};

/* Refuses the options that an encoder cannot have: for a cache and a prefix, for text that a model
   predicts, and those that would change tensors that stay as they are. */
enum tft_status job_vectors_check(struct job *j);

/* Measures the file and, with --dynamic auto, gives inputs ranges by token in the file and in
   `range`, those with the largest error first. result, range: of the model's inputs */
enum tft_status job_vectors_choose(struct job_vectors *v, const struct job_text *t,
                                   const struct job_made *made, const struct quantize_input *result,
                                   enum tft_range *range);
void job_vectors_free(struct job_vectors *v);

#endif
