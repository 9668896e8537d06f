/* Opens the float model of a run: a file, or a folder of Hugging Face. */
#ifndef QUANTIZE_JOB_OPEN_H
#define QUANTIZE_JOB_OPEN_H

#include "tools/quantize/job/job.h"

/* Opens the model at `path` as j->m, and by tft_model_open as *runs, unless runs is NULL. A folder
   is first imported to a file beside the output file, which is removed before this function
   returns; its disk space is free after tft_model_close. (A system that cannot remove an open file
   keeps OUT.import.) `path` outlives the models. */
enum tft_status job_open(struct job *j, const char *path, struct tft_model **runs);

#endif
