/* A run that makes a plain GGUF file (tft_quantize_opts.gguf) in place of a W8A8 model. */
#ifndef QUANTIZE_JOB_PLAIN_H
#define QUANTIZE_JOB_PLAIN_H

#include "tools/quantize/job/made.h"
#include "tools/quantize/job/text.h"
#include "tools/quantize/write/plain.h"

struct job_plain {
    const struct mix *mix;        /* NULL: the run makes a W8A8 model */
    struct importance importance; /* of columns, from the calibration text; or all zeros */
    size_t n_tokens;              /* of the text */
    struct quantize_blocks blocks; /* matrices that were rounded with feedback; or all zeros */
};

/* Finds the mix, and refuses options of W8A8 models. p: all zeros. */
enum tft_status job_plain_check(struct job_plain *p, struct job *j);

/* Refuses models that are quantized already, and what TFT_ROUND_GPTQ_ONLY cannot serve. */
enum tft_status job_plain_fits(const struct job_plain *p, struct job *j);

/* Makes the text: windows for calibration, and held-out ones; t: all zeros. A model that reads no
   text, or that quantize cannot run, gets none, which the caller of the run is told, unless the
   options have a text, or a cache to calibrate. */
enum tft_status job_plain_text(struct job_plain *p, struct job *j, struct job_text *t);

/* Measures the importance of columns, if there is text and the file gets blocks. */
enum tft_status job_plain_measure(struct job_plain *p, struct job *j, const struct job_text *t);

/* Whether a run reads a text: to choose blocks, or for the cache fisher. */
bool job_plain_needs_text(const struct job_plain *p, const struct job *j);

/* Whether codes are chosen with feedback, if there is text. With more than 5 bits this would gain
   next to nothing. */
bool job_plain_has_feedback(const struct job_plain *p, const struct job *j);

/* Rounds matrices with feedback, if there is text and the options say so. */
enum tft_status job_plain_round(struct job_plain *p, struct job *j, const struct job_text *t);

/* Writes the file. */
enum tft_status job_plain_write(const struct job_plain *p, struct job_made *made);

void job_plain_free(struct job_plain *p, const struct job *j);

#endif
