/* Prints the results of a run of tuffet quantize. */
#ifndef QUANTIZE_REPORT_H
#define QUANTIZE_REPORT_H

#include "tools/quantize/inside.h"

/* For people, on standard error: a line for each prefix that was tried; all other results of a
   finished run. */
void quantize_report_choice(const struct job_prefix *f);
void quantize_report(const struct quantize_run *run);

/* All results of a finished run, as an object of JSON on standard output. */
void quantize_report_json(const struct quantize_run *run);

#endif
