/* What the steps of a run share: options, the float model, its chat template, callbacks, the error.
   A step returns TFT_OK, or a status after it has set the error; TFT_ERR_CANCELLED if the caller
   stopped it. */
#ifndef QUANTIZE_JOB_JOB_H
#define QUANTIZE_JOB_JOB_H

#include "base/error.h"
#include "chat/tuffet_chat.h"
#include "model/model.h"
#include "tools/quantize/measure/histogram.h"
#include "tools/quantize/tuffet_quantize.h"

struct tft_new_file;

/* Options of the laboratory, for comparisons with papers. */
struct quantize_lab {
    enum range_method method; /* of static ranges */
    double percentile;        /* for RANGE_PERCENTILE */
    bool per_tensor;          /* one scale for a whole weight matrix */
    bool paper;               /* the search for a cushion is algorithm 1 to the letter */
    bool equal_columns;       /* of matrices in a plain file: no importance */
};

/* What a run does, in order. */
enum job_phase {
    JOB_IMPORT,
    JOB_TEXT,   /* writing the calibration text */
    JOB_LOOK,   /* for outliers */
    JOB_SEARCH, /* for a cushion */
    JOB_TRY,    /* prefixes */
    JOB_BITS,   /* searching bits of the weights */
    JOB_QUANTIZE,
    JOB_RANGES,
    JOB_TUNE, /* and quantizing again */
    JOB_SYSTEM,
    JOB_KV, /* searching bits of the cache, or calibrating it */
    JOB_CHECK,
    JOB_PHASES
};

/* How much is done, for tft_quantize_opts.progress. Work is in float passes over the calibration
   text. A step gets a part of what is left to 1, as large as its part of the work ahead: when work
   turns out not to be needed, later steps get more, and nothing falls. */
struct job_done {
    double left[JOB_PHASES]; /* work of each phase that is in no part yet */
    enum job_phase phase;    /* the current one; earlier ones have nothing left */
    double part;             /* work of its current part that is in no step yet */
    double from, span;       /* what the current step covers of 0..1 */
    double shown;            /* the most that was told */
};

struct job {
    const char *out;                   /* path of the new file */
    const struct tft_quantize_opts *o; /* without defaults: job_complete */
    const struct quantize_lab *lab;
    struct tft_error *err;         /* not NULL */
    struct tft_model *m;           /* opened by tft_model_open_unexpanded */
    struct tft_new_file *imported; /* the file that m was opened from, if the model is a folder, or
                                      is merged with adapters */
    uint64_t imported_bytes;       /* of its tensors */
    struct tft_chat_template *format; /* NULL: there is none, or it cannot be read, as `formatless`
                                         says */
    struct tft_error formatless;
    const char *step; /* the current one */
    struct job_done done;
};

/* Replaces defaults by their values. */
void job_complete(struct tft_quantize_opts *o);

/* An error of an option, whose name the message begins with; returns TFT_ERR_ARG. */
enum tft_status job_misuse(struct job *j, const char *fmt, ...) TFT_PRINTF(2, 3);

/* Memory is short; returns TFT_ERR_NOMEM. */
enum tft_status job_no_memory(struct job *j);

/* Tells the caller of the run something. */
void job_note(struct job *j, const char *fmt, ...) TFT_PRINTF(2, 3);

/* Estimates the work of a run with complete options. */
void job_expect(struct job *j);

/* A phase begins, with a part that is all of it; or a part of the current phase, a share 0..1 of
   what is left of it. */
void job_enter(struct job *j, enum job_phase phase);
void job_part(struct job *j, double share);

/* A step that takes time: begin tells its name, which outlives the step; share: 0..1, of what is
   left of the current part; progress, user: j, is for the function that does the work, and takes
   0..1 of the step; end returns the status of that function, or TFT_ERR_CANCELLED if
   it was stopped. */
enum tft_status job_begin(struct job *j, const char *step, double share);
bool job_progress(void *user, double done);
enum tft_status job_end(struct job *j, enum tft_status status, bool stopped);

/* All steps are done: tells 1. */
enum tft_status job_complete_progress(struct job *j);

/* *ids: the tokens of the text, [*n], which the caller frees; there is room for one more. */
enum tft_status job_tokenize(struct job *j, int32_t **ids, size_t *n, const char *text, size_t len,
                             unsigned flags);

/* Parses a number of at most 9 digits at *p and moves *p past it. */
bool job_take_number(const char **p, uint32_t *n);

/* Likewise layers, "3" or "0-3". */
bool job_take_layers(const char **p, uint32_t *from, uint32_t *to);

/* Whether p[n] is the word. */
bool job_is(const char *p, size_t n, const char *word);

#endif
