/* The inside of what tuffet inspect --activations says: one that gathers, and three that tell. */
#ifndef INSPECT_REPORT_H
#define INSPECT_REPORT_H

#include <stdio.h>

#include "activations.h"
#include "activations_report.h"
#include "port/port.h"

enum { WITHOUT, WITH, RUNS };

struct report {
    const struct activations_report_opts *o;
    const char *path;
    struct tft_model *m;
    struct tft_model bare; /* without its prefix, if it has one */
    int32_t *ids;          /* the text */
    size_t n_ids;
    uint32_t window;       /* tokens of text */
    int n_runs;            /* one, WITHOUT, where there is no prefix */
    struct activations a[RUNS];
    uint32_t worst;        /* block of the first run, which may have the outliers */
    bool *pivot[RUNS];     /* [window of that run] at the input of that block */
};

/* "blk.3", or the last norm. */
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

void report_people(const struct report *r);
void report_json(const struct report *r);

/* Drawings are begun before the work, so that a name that cannot be one is known then. */
enum { DRAWINGS = 3 };
struct drawing {
    char *path; /* with room for draft.name after it; NULL where there is none */
    struct tft_draft draft;
    FILE *file;
};

/* Each returns a command's exit status. */
int report_begin_drawings(struct drawing d[DRAWINGS], const char *prefix);
int report_draw(const struct report *r, struct drawing d[DRAWINGS]);

/* Whatever has become of them: what is not whole is gone. */
void report_end_drawings(struct drawing d[DRAWINGS]);

#endif
