/* Chooses bits for each layer of the KV cache of the new model: tft_quantize_opts.kv_search. */
#ifndef QUANTIZE_JOB_KV_H
#define QUANTIZE_JOB_KV_H

#include "tools/quantize/job/job.h"
#include "tools/quantize/options.h"
#include "tools/quantize/search/kv_search.h"

struct job_kv {
    struct job *j;
    char *unsearched; /* path of the model before the search, beside the output file; NULL: no
                         search */
    struct kv_search_opts o;
    struct kv_search result;
};

/* Checks the option. */
enum tft_status job_kv_check(struct job *j);

/* Call before quantize(). k: all zeros. With a search: sets *path to a file for the model before
   the search; o->text must stay valid. */
enum tft_status job_kv_begin(struct job_kv *k, struct job *j, const struct quantize_opts *o,
                             const char **path);

/* Call after quantize() and tuning: searches, and writes the model to `path`. */
enum tft_status job_kv_finish(struct job_kv *k, const char *path);

/* Removes the file of the model before the search. Accepts all zeros. */
void job_kv_free(struct job_kv *k);

/* The cache that the model got. */
const struct kv_measured *job_kv_kept(const struct job_kv *k);

#endif
