/*
 * The report of tuffet inspect --activations: runs a model over a text, with and without its
 * prefix, and prints or draws the measurements of activations.h.
 */
#ifndef INSPECT_ACTIVATIONS_REPORT_H
#define INSPECT_ACTIVATIONS_REPORT_H

#include <stdio.h>

#include "activations.h"
#include "drawing.h"

struct report_opts {
    const char *text; /* path of the text */
    const char *svg;  /* the drawings' paths begin with it; NULL: no drawings */
    uint32_t tokens;  /* of text, at most */
    bool json;
};

/* Makes the whole report of the model in a file. Returns the exit status of the command. Session
   and threads are the command line's (cli.h). */
int report_activations(const char *model_path, const struct report_opts *o);

/* ---- between the files of the report */

/* A model without a prefix has the first run only. */
enum { WITHOUT_PREFIX, WITH_PREFIX, RUNS };

struct report {
    const struct report_opts *o;
    const char *model_path;
    struct tft_model *m;
    struct tft_model bare; /* m without its prefix, if it has one */
    int32_t *ids;          /* [n_ids] the text */
    size_t n_ids;
    uint32_t window;       /* tokens of text in a window; BOS is not counted */
    int n_runs;
    struct activations run[RUNS];
    uint32_t worst;        /* the layer with the largest outliers at its input, without the
                              prefix */
    bool *pivot[RUNS];     /* [window of that run] tokens that stand out at the input of `worst` */
};

/* The name of a row of activations.stream: "blk.3", or the last norm's. */
static inline const char *report_stream_name(const struct activations *a, uint32_t layer,
                                             char name[64])
{
    snprintf(name, 64, layer < a->n_layer ? "blk.%u" : "output_norm", layer);
    return name;
}

static inline int32_t report_token(const struct activations *a, uint32_t window, uint32_t position)
{
    return a->tokens[(size_t)window * a->window + position];
}

void report_print_text(const struct report *r); /* on standard output, as the next */
void report_print_json(const struct report *r);

/* The drawings' files are created before the model runs, so that a wrong path fails early. */
enum { DRAWINGS = 3 };

/* Creates the files. Returns CLI_OK or CLI_FAILED, as report_draw. */
int report_begin_drawings(struct drawing d[DRAWINGS], const char *prefix);

/* Draws, and gives the files their names. */
int report_draw(const struct report *r, struct drawing d[DRAWINGS]);

/* Removes the unfinished drawings, and frees. d: all zero is fine. */
void report_end_drawings(struct drawing d[DRAWINGS]);

#endif
