/* The new model while it has no name: a temporary file beside the output file. Steps after
   quantize_temp() read it and collect their changes, and then it is written once more, with all of
   them. */
#ifndef QUANTIZE_JOB_MADE_H
#define QUANTIZE_JOB_MADE_H

#include "file/file.h"
#include "tools/quantize/job/job.h"
#include "tools/quantize/write/rewrite_model.h"

struct job_made {
    struct job *j;
    struct tft_new_file *temp; /* of quantize_temp; NULL: none */
    struct tft_model *model;    /* opened from that file, with the changed prefix; or NULL */
    uint16_t *rows;             /* of the changed prefix, as the file will give them; or NULL */
    struct rewrite change;
    bool changed;
};

/* The path of the temporary file, to read it and to change it in place. */
const char *job_made_path(const struct job_made *d);

/* Opens d->model, unless it is open. close: before the temporary file is changed in place. */
enum tft_status job_made_open(struct job_made *d);
void job_made_close(struct job_made *d);

/* Changes the prefix of the file to d->change.k and .v, and the prefix of d->model to the rows that
   this file will give; d->change.type: of the rows in the file. */
enum tft_status job_made_change_prefix(struct job_made *d);

/* Applies the changes: d->temp is another file. */
enum tft_status job_made_finish(struct job_made *d);

/* Gives the temporary file the name of the output file. */
enum tft_status job_made_keep(struct job_made *d);

/* Discards the temporary file, so that quantize_temp can make another. Accepts all zeros. */
void job_made_drop(struct job_made *d);

#endif
