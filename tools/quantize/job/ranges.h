/* Chooses the inputs that get per-token ranges: tft_quantize_opts.dynamic. */
#ifndef QUANTIZE_JOB_RANGES_H
#define QUANTIZE_JOB_RANGES_H

#include "tools/quantize/job/check.h"
#include "tools/quantize/search/range_search.h"

struct job_ranges {
    struct range_search found; /* if searched: the loss of each input with a static range */
    uint32_t n, most;          /* inputs with per-token ranges; at most */
    bool searched;
};

/* Sets range: [inputs] from the options. */
enum tft_status job_ranges_take(struct job *j, enum tft_range *range);
void job_ranges_free(struct job_ranges *c);

/* Whether the file that was measured last is within the bars, in all groups. */
bool job_ranges_hold(const struct job_check *check);

/* With "auto", gives per-token ranges to the inputs that lose most, in `range` and in the
   temporary file of `made`, which check has measured. Stops when the loss is within the bars, a
   quarter of the inputs have them, or more of them gain little. Called again, for a file of the
   same model, it continues from there. t: the held-out text, on which check is open. */
enum tft_status job_ranges_choose(struct job_ranges *c, struct job_check *check,
                                  const struct job_text *t, struct job_made *made,
                                  enum tft_range *range);

#endif
