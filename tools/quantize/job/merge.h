/* Adapters that are merged with the float model before all other steps. */
#ifndef QUANTIZE_JOB_MERGE_H
#define QUANTIZE_JOB_MERGE_H

#include "tools/quantize/job/job.h"

/* Checks the options. */
enum tft_status job_merge_check(struct job *j);

/* Merges the model at `path`, or its import j->imported, with the adapters of the options.
   j->imported becomes the merged file. */
enum tft_status job_merge(struct job *j, const char *path);

#endif
