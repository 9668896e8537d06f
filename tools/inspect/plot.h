/*
 * Small charts as SVG 1.1 that stand on their own: no scripts, no fonts or files from elsewhere.
 * The background is left clear, and the colours are between light and dark, so that a chart can be
 * read on a white page and on a black one.
 *
 * A chart has panels that share one scale: the same thing measured in different circumstances. All
 * text is UTF-8 and may be anything. What is not finite is left out; what is 0 or less lies at the
 * bottom of a logarithmic scale.
 */
#ifndef INSPECT_PLOT_H
#define INSPECT_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Lines over 0 .. n - 1, the scale logarithmic; panels side by side. */
struct plot_lines {
    const char *title, *x_title, *y_title;
    const char *const *name;  /* [n_series] */
    const char *const *panel; /* [n_panels] */
    size_t n, n_series, n_panels;
    const double *y;          /* [n_panels, n_series, n] */
};
void plot_lines(FILE *f, const struct plot_lines *p);

/* A bar each with its label, the scale logarithmic; panels one below the other. */
struct plot_bar {
    double y;
    const char *label;
    bool marked; /* stands out */
};
struct plot_bars_panel {
    const char *title;
    const struct plot_bar *bar; /* [n] */
    size_t n, first;            /* bars that are left out at the left, so that those of all panels
                                   are in line */
};
struct plot_bars {
    const char *title, *y_title;
    const struct plot_bars_panel *panel; /* [n_panels] */
    size_t n_panels;
};
void plot_bars(FILE *f, const struct plot_bars *p);

/* Shares, 0 .. 1, as colours; panels side by side. */
struct plot_heat {
    const char *title, *x_title, *y_title;
    const char *const *panel; /* [n_panels] */
    size_t rows, columns, n_panels;
    const double *share;      /* [n_panels, rows, columns] */
};
void plot_heat(FILE *f, const struct plot_heat *p);

/* Text as it may stand in XML: escaped, and U+FFFD for what is no character of XML. At most `most`
   characters, the last one an ellipsis where there were more. */
void plot_text(FILE *f, const char *text, size_t most);

#endif
