/*
 * Small charts as self-contained SVG 1.1 files: no scripts, no fonts. The background is
 * transparent, and the colours have a middle lightness, so that a chart is readable on a white page
 * and on a black one.
 *
 * A chart has panels, which share one scale: the same measurement under different conditions. All
 * text is UTF-8, and may contain anything. NaN and infinities are left out; on a logarithmic scale,
 * a value of 0 or less is drawn at the bottom.
 */
#ifndef INSPECT_PLOT_H
#define INSPECT_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Lines over 0 .. n - 1, on a logarithmic scale. Panels are side by side. */
struct plot_lines {
    const char *title, *x_title, *y_title;
    const char *const *name;  /* [n_series] */
    const char *const *panel; /* [n_panels] */
    size_t n, n_series, n_panels;
    const double *y;          /* [n_panels, n_series, n] */
};
void plot_lines(FILE *f, const struct plot_lines *p);

/* Bars with labels, on a logarithmic scale. Panels are one below another. */
struct plot_bar {
    double y;
    const char *label;
    bool marked; /* drawn in another colour */
};
struct plot_bars_panel {
    const char *title;
    const struct plot_bar *bar; /* [n] */
    size_t n, first;            /* first: the place of the first bar, so that the bars of all panels
                                   line up */
};
struct plot_bars {
    const char *title, *y_title;
    const struct plot_bars_panel *panel; /* [n_panels] */
    size_t n_panels;
};
void plot_bars(FILE *f, const struct plot_bars *p);

/* Shares, 0 .. 1, as colours. Panels are side by side. */
struct plot_heat {
    const char *title, *x_title, *y_title;
    const char *const *panel; /* [n_panels] */
    size_t rows, columns, n_panels;
    const double *share;      /* [n_panels, rows, columns] */
};
void plot_heat(FILE *f, const struct plot_heat *p);

/* Shares of a whole, a bar for each row. Panels are side by side. */
struct plot_shares {
    const char *title, *x_title, *y_title;
    const char *const *panel;   /* [n_panels] */
    const char *const *part;    /* [n_parts] */
    const uint32_t *row;        /* [rows] their numbers */
    size_t rows, n_parts, n_panels;
    const double *const *share; /* [n_panels], each [rows, n_parts], which add up to 1 */
};
void plot_shares(FILE *f, const struct plot_shares *p);

/* Prints text for XML: escaped, with U+FFFD for characters that XML does not allow. Prints at most
   `most` characters; if there are more, the last one is an ellipsis. */
void plot_text(FILE *f, const char *text, size_t most);

#endif
