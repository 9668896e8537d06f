/* Calibrates the new model, W8A8 or plain, for the cache fisher: tft_quantize_opts.kv. The model is
   made with another default, since its cache cannot be opened without tables; then the tables are
   measured in it, bits are chosen within the budget of tft_quantize_opts.kv_search, and it is
   written once more. */
#ifndef QUANTIZE_JOB_FISHER_H
#define QUANTIZE_JOB_FISHER_H

#include "tools/quantize/job/made.h"
#include "tools/quantize/options.h"
#include "tools/quantize/search/fisher_bits.h"
#include "tools/quantize/tune/kv_fisher.h"

struct job_fisher {
    struct job *j; /* NULL: the cache is another one */
    struct kv_fisher_opts o;
    struct kv_fisher found;
    struct fisher_chosen chosen; /* by tft_quantize_opts.kv_search */
};

/* Fails if the float model cannot have the cache. */
enum tft_status job_fisher_look(struct job *j);

/* Call when the text is known. f: all zeros; o->text must stay valid. */
void job_fisher_begin(struct job_fisher *f, struct job *j, const struct quantize_opts *o);

/* Call after tuning, or with a plain run's file: measures the tables, and makes the cache the
   default of the model. */
enum tft_status job_fisher_finish(struct job_fisher *f, struct job_made *made);

/* Accepts all zeros. */
void job_fisher_free(struct job_fisher *f);

#endif
