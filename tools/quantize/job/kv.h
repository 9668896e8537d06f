/* Chooses bits for each layer of the KV cache of the new model: tft_quantize_opts.kv_search. */
#ifndef QUANTIZE_JOB_KV_H
#define QUANTIZE_JOB_KV_H

#include "tools/quantize/job/made.h"
#include "tools/quantize/options.h"
#include "tools/quantize/search/kv_search.h"

struct job_kv {
    struct job *j; /* NULL: no search */
    struct kv_search_opts o;
    struct kv_search result;
};

/* Sets the budget of the option in *to. */
enum tft_status job_kv_budget(struct job *j, struct kv_search_opts *to);

/* Checks the option. */
enum tft_status job_kv_check(struct job *j);

/* Call before quantize_temp(). k: all zeros; o->text must stay valid. */
enum tft_status job_kv_begin(struct job_kv *k, struct job *j, const struct quantize_opts *o);

/* Call after tuning: searches, and makes the result the default of the model. */
enum tft_status job_kv_finish(struct job_kv *k, struct job_made *made);

/* Accepts all zeros. */
void job_kv_free(struct job_kv *k);

/* The cache that the model got. */
const struct kv_measured *job_kv_kept(const struct job_kv *k);

#endif
