/* Opens the float model of a run: a file, or a folder of Hugging Face. */
#ifndef QUANTIZE_JOB_OPEN_H
#define QUANTIZE_JOB_OPEN_H

#include "tools/quantize/job/job.h"

/* Opens the model at `path` as j->m, and by tft_model_open as *runs, unless runs is NULL. A folder
   is first imported to a temporary file beside the output file, as large as the folder, which
   exists until job_close; so is a model with adapters. `path` outlives the models. */
enum tft_status job_open(struct job *j, const char *path, struct tft_model **runs);

/* Closes j->m. Accepts all zeros. */
void job_close(struct job *j);

#endif
