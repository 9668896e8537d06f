/* Reports of a finished run. */
#ifndef QUANTIZE_REPORT_H
#define QUANTIZE_REPORT_H

#include "tools/quantize/run.h"
#include "tools/quantize/sink.h"

/* Lines for people: tft_quantize_result.report. */
void quantize_report(struct sink *to, const struct quantize_run *run);

/* An object of JSON: tft_quantize_result.json. */
void quantize_report_json(struct sink *to, const struct quantize_run *run);

#endif
