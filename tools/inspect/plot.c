#include "plot.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* ------------------------------------------------------------------------------------- elements */

enum { MARGIN = 16, TITLE = 30, PANEL_TITLE = 22, FONT = 12, TITLE_LENGTH = 90, ANY_LENGTH = 1000 };

/* The approximate width of a character, in text and in a title. */
#define CHARACTER 6.8
#define TITLE_CHARACTER 9.5

#define GREY "#787878"
#define ORDINARY "#4a90c8"
#define STANDS_OUT "#dd6b2f"

/* XML 1.0, production 2. */
static bool is_xml(uint32_t c)
{
    return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c < 0xfffe) ||
           (c >= 0x10000 && c < TFT_UTF8_BAD);
}

static void put_character(FILE *f, const char *p, size_t n, uint32_t c)
{
    switch (c) {
    case '&': fputs("&amp;", f); break;
    case '<': fputs("&lt;", f); break;
    case '>': fputs("&gt;", f); break;
    case '"': fputs("&quot;", f); break;
    default: is_xml(c) ? fwrite(p, 1, n, f) : fwrite("\xef\xbf\xbd", 1, 3, f);
    }
}

static size_t characters(const char *text)
{
    size_t count = 0;
    uint32_t c;
    for (size_t i = 0, n = strlen(text); i < n; count++)
        i += tft_utf8_next(text + i, n - i, &c);
    return count;
}

void plot_text(FILE *f, const char *text, size_t most)
{
    size_t n = strlen(text), left = characters(text) > most ? most - 1 : most;
    bool cut = left < most;
    for (size_t i = 0, len; i < n && left > 0; i += len, left--) {
        uint32_t c;
        len = tft_utf8_next(text + i, n - i, &c);
        put_character(f, text + i, len, c);
    }
    if (cut)
        fputs("\xe2\x80\xa6", f);
}

/* Begins a drawing, wide enough for the title. */
static void begin(FILE *f, double width, double height, const char *title)
{
    width = fmax(width,
                 2 * MARGIN + fmin((double)characters(title), TITLE_LENGTH) * TITLE_CHARACTER);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
            "0 %.0f %.0f\" role=\"img\" "
            "font-family=\"system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif\" "
            "font-size=\"%d\" fill=\"" GREY "\">\n<title>",
            width, height, width, height, FONT);
    plot_text(f, title, ANY_LENGTH);
    fprintf(f, "</title>\n<text x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"600\">", MARGIN,
            MARGIN + 10);
    plot_text(f, title, TITLE_LENGTH);
    fputs("</text>\n", f);
}

static void end(FILE *f)
{
    fputs("</svg>\n", f);
}

/* anchor: "start", "middle", "end" */
static void label(FILE *f, double x, double y, const char *anchor, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    plot_text(f, text, ANY_LENGTH);
    fputs("</text>\n", f);
}

/* Prints the part of a panel's title that fits above it. */
static void panel_title(FILE *f, double x, double y, double width, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
    plot_text(f, text, (size_t)(width / CHARACTER));
    fputs("</text>\n", f);
}

/* Text that reads upwards. */
static void upright(FILE *f, double x, double y, const char *anchor, const char *text, size_t most,
                    const char *more)
{
    fprintf(f, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"%s\"%s>", x, y,
            anchor, more);
    plot_text(f, text, most);
    fputs("</text>\n", f);
}

static void number(FILE *f, double x, double y, const char *anchor, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%g", value);
    label(f, x, y, anchor, text);
}

static void box(FILE *f, double x, double y, double width, double height, const char *fill)
{
    fprintf(f, "<path d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\" fill=\"%s\"/>\n", x, y, width, height,
            -width, fill);
}

/* --------------------------------------------------------------------------- logarithmic scales */

/* A scale with steps at 1, 2, 5, 10, 20, 50 .. */
struct scale {
    int low, high;      /* the first and the last step, as in step_value */
    double top, bottom; /* where these are drawn */
};

enum {
    STEPS = 3,             /* of a decade */
    MOST_STEPS = 9 * STEPS /* values more than 9 decades below the largest lie at the bottom */
};

/* Step 0 is 1, step 1 is 2, step 2 is 5, step 3 is 10. */
static double step_value(int i)
{
    static const double mantissa[STEPS] = {1, 2, 5};
    int decade = i >= 0 ? i / STEPS : (i - STEPS + 1) / STEPS;
    return mantissa[i - decade * STEPS] * pow(10, decade);
}

/* The last step that is at most y. */
static int step_below(double y)
{
    int i = (int)floor(log10(y)) * STEPS + STEPS;
    while (step_value(i) > y)
        i--;
    return i;
}

struct extent {
    double least, most; /* of the values above 0; most is 0 if there are none */
};

static void extend(struct extent *e, double y)
{
    if (!(y > 0) || !isfinite(y))
        return;
    e->least = e->most > 0 ? fmin(e->least, y) : y;
    e->most = fmax(e->most, y);
}

static struct scale scale_of(struct extent e, double top, double bottom)
{
    struct scale s = {0, STEPS, top, bottom};
    if (!(e.most > 0))
        return s;
    s.low = step_below(e.least);
    s.high = step_below(e.most) + 1;
    s.low = s.low > s.high - STEPS        ? s.high - STEPS
            : s.low < s.high - MOST_STEPS ? s.high - MOST_STEPS
                                          : s.low;
    return s;
}

static double height(const struct scale *s, double y)
{
    double low = step_value(s->low), at = y > 0 ? log(y / low) / log(step_value(s->high) / low) : 0;
    return s->bottom - fmin(fmax(at, 0), 1) * (s->bottom - s->top);
}

/* A line and a number for each step, or, if these do not fit, for each power of ten. */
static void draw_scale(FILE *f, const struct scale *s, double left, double right, bool numbers)
{
    enum { ROOM = 18 };
    bool all = (s->bottom - s->top) / (s->high - s->low) >= ROOM;
    for (int i = s->low; i <= s->high; i++) {
        double value = step_value(i), y = height(s, value);
        if (i % STEPS && !all && i > s->low)
            continue;
        fprintf(f, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"" GREY "\" stroke-opacity=\".3\"/>\n",
                left, y, right);
        if (numbers && (i % STEPS == 0 || all))
            number(f, left - 8, y + 4, "end", value);
    }
}

/* ---------------------------------------------------------------------------------------- lines */

/* Neighbouring colours differ in lightness too. */
static const char *const colours[] = {"#d1495b", "#e08e36", "#b59f2b",
                                      "#3d9970", "#4a78c8", "#9061c2"};
enum { COLOURS = sizeof colours / sizeof *colours };

static void draw_line(FILE *f, const struct scale *s, const double *y, size_t n, double left,
                      double step, const char *colour)
{
    fprintf(f,
            "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-linejoin=\"round\" d=\"",
            colour);
    for (size_t i = 0, pen = 0; i < n; i++) {
        if (isfinite(y[i]))
            fprintf(f, "%c%.1f %.1f", pen ? 'L' : 'M', left + (double)i * step, height(s, y[i]));
        pen = isfinite(y[i]);
    }
    fputs("\"/>\n", f);
    for (size_t i = 0; i < n; i++)
        if (isfinite(y[i]))
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.2\" fill=\"%s\"/>\n",
                    left + (double)i * step, height(s, y[i]), colour);
}

static void draw_legend(FILE *f, const struct plot_lines *p, double x, double y)
{
    for (size_t i = 0; i < p->n_series; i++) {
        fprintf(f, "<path d=\"M%.1f %.1fh18\" stroke=\"%s\" stroke-width=\"3\"/>\n", x, y - 4,
                colours[i % COLOURS]);
        label(f, x + 24, y, "start", p->name[i]);
        x += 24 + (double)characters(p->name[i]) * CHARACTER + 22;
    }
}

/* Numbers 0 .. n - 1 along an axis. Each takes `room`: if not all fit, every second, fourth, ... is
   drawn. */
static void draw_counting(FILE *f, size_t n, double x, double y, double step_x, double step_y,
                          double room, const char *anchor)
{
    static const size_t strides[] = {1, 2, 4, 5, 10, 20, 50, 100, 200, 500};
    size_t i = 0;
    while (i + 1 < sizeof strides / sizeof *strides &&
           (double)strides[i] * fmax(step_x, step_y) < room)
        i++;
    for (size_t at = 0; at < n; at += strides[i])
        number(f, x + (double)at * step_x, y + (double)at * step_y, anchor, (double)at);
}

void plot_lines(FILE *f, const struct plot_lines *p)
{
    enum { LEFT = 76, GAP = 28, TOP = MARGIN + TITLE + 24, HEIGHT = 250, BELOW = 52 };
    double width = p->n_panels > 1 ? 380 : 560, pad = 10,
           step = p->n > 1 ? (width - 2 * pad) / (double)(p->n - 1) : 0;
    struct extent e = {0, 0};
    for (size_t i = 0; i < p->n_panels * p->n_series * p->n; i++)
        extend(&e, p->y[i]);
    struct scale s = scale_of(e, TOP + PANEL_TITLE, TOP + PANEL_TITLE + HEIGHT);

    begin(f, LEFT + (double)p->n_panels * (width + GAP), s.bottom + BELOW, p->title);
    draw_legend(f, p, LEFT, MARGIN + TITLE + 8);
    upright(f, MARGIN + 6, (s.top + s.bottom) / 2, "middle", p->y_title, ANY_LENGTH, "");
    for (size_t i = 0; i < p->n_panels; i++) {
        double left = LEFT + (double)i * (width + GAP);
        panel_title(f, left, s.top - 10, width, p->panel[i]);
        draw_scale(f, &s, left, left + width, i == 0);
        for (size_t j = p->n_series; j-- > 0;) /* the first series is drawn on top */
            draw_line(f, &s, p->y + (i * p->n_series + j) * p->n, p->n, left + pad, step,
                      colours[j % COLOURS]);
        draw_counting(f, p->n, left + pad, s.bottom + 18, step, 0, 24, "middle");
        label(f, left + width / 2, s.bottom + 38, "middle", p->x_title);
    }
    end(f);
}

/* ----------------------------------------------------------------------------------------- bars */

enum { BARS_LEFT = 76, PITCH = 15, BAR_HEIGHT = 130, LABEL = 14 };

static void draw_bars(FILE *f, const struct plot_bars_panel *p, const struct scale *s)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct plot_bar *b = &p->bar[i];
        double x = BARS_LEFT + (double)(p->first + i) * PITCH, y = height(s, b->y);
        if (isfinite(b->y))
            box(f, x + 3, y, PITCH - 5, s->bottom - y + 1, b->marked ? STANDS_OUT : ORDINARY);
        upright(f, x + 11.5, s->bottom + 8, "end", b->label, LABEL,
                b->marked ? " font-size=\"11\" font-weight=\"700\" fill=\"" STANDS_OUT "\""
                          : " font-size=\"11\"");
    }
}

void plot_bars(FILE *f, const struct plot_bars *p)
{
    struct extent e = {0, 0};
    size_t most = 1, longest = 0;
    for (size_t i = 0; i < p->n_panels; i++) {
        most = p->panel[i].first + p->panel[i].n > most ? p->panel[i].first + p->panel[i].n : most;
        for (size_t j = 0; j < p->panel[i].n; j++) {
            size_t n = characters(p->panel[i].bar[j].label);
            longest = n > longest ? n : longest;
            extend(&e, p->panel[i].bar[j].y);
        }
    }
    double width = fmax((double)most * PITCH, 500),
           below = (double)(longest < LABEL ? longest : LABEL) * CHARACTER + 14;
    double each = PANEL_TITLE + BAR_HEIGHT + below;
    begin(f, BARS_LEFT + width + MARGIN, MARGIN + TITLE + (double)p->n_panels * each, p->title);
    for (size_t i = 0; i < p->n_panels; i++) {
        double top = MARGIN + TITLE + (double)i * each + PANEL_TITLE;
        struct scale s = scale_of(e, top, top + BAR_HEIGHT);
        panel_title(f, BARS_LEFT, s.top - 10, width, p->panel[i].title);
        upright(f, MARGIN + 6, (s.top + s.bottom) / 2, "middle", p->y_title, ANY_LENGTH, "");
        draw_scale(f, &s, BARS_LEFT, BARS_LEFT + width, true);
        draw_bars(f, &p->panel[i], &s);
    }
    end(f);
}

/* ----------------------------------------------------------------------------------------- heat */

enum { HUES = 8 };

/* viridis (Smith and van der Walt 2015, CC0) in eight steps: a larger share is lighter, so that
   readers who cannot tell the colours apart can see it. */
static void colour_of(double share, char colour[8])
{
    static const unsigned char stop[HUES + 1][3] = {
        {0x44, 0x01, 0x54}, {0x47, 0x2d, 0x7b}, {0x3b, 0x52, 0x8b},
        {0x2c, 0x72, 0x8e}, {0x21, 0x91, 0x8c}, {0x28, 0xae, 0x80},
        {0x5e, 0xc9, 0x62}, {0xad, 0xdc, 0x30}, {0xfd, 0xe7, 0x25},
    };
    double at = fmin(fmax(share, 0), 1) * HUES;
    int i = at < HUES ? (int)at : HUES - 1, rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = (int)lrint(stop[i][c] + (stop[i + 1][c] - stop[i][c]) * (at - i));
    snprintf(colour, 8, "#%02x%02x%02x", rgb[0] & 0xff, rgb[1] & 0xff, rgb[2] & 0xff);
}

static void draw_cell(FILE *f, double x, double y, double width, double height, double share)
{
    char colour[8];
    if (!isfinite(share))
        return;
    colour_of(share, colour);
    box(f, x, y, width - 1, height - 1, colour);
    if (width < 26 || height < 16)
        return;
    fprintf(f,
            "<text x=\"%.1f\" y=\"%.1f\" font-size=\"10\" text-anchor=\"middle\" "
            "fill=\"%s\">%.0f</text>\n",
            x + width / 2 - .5, y + height / 2 + 3, share < .55 ? "#fff" : "#000", 100 * share);
}

static void draw_key(FILE *f, double x, double y, double height)
{
    fputs("<defs><linearGradient id=\"share\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">\n", f);
    for (int i = 0; i <= HUES; i++) {
        char colour[8];
        colour_of((double)i / HUES, colour);
        fprintf(f, "<stop offset=\"%g\" stop-color=\"%s\"/>\n", (double)i / HUES, colour);
    }
    fputs("</linearGradient></defs>\n", f);
    box(f, x, y, 14, height, "url(#share)");
    for (int i = 0; i <= 4; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d %%", 100 - 25 * i);
        label(f, x + 20, y + i * height / 4 + 4, "start", text);
    }
}

/* The size of a cell, in whole pixels, so that cells have sharp edges. */
static double cell(size_t n, double room, double least, double most)
{
    return floor(fmin(fmax(room / (double)n, least), most));
}

static void draw_heat(FILE *f, const struct plot_heat *p, const double *share, double left,
                      double top, double cell_x, double cell_y)
{
    double bottom = top + (double)p->rows * cell_y;
    for (size_t i = 0; i < p->rows * p->columns; i++)
        draw_cell(f, left + (double)(i % p->columns) * cell_x,
                  top + (double)(i / p->columns) * cell_y, cell_x, cell_y, share[i]);
    draw_counting(f, p->columns, left + cell_x / 2, bottom + 16, cell_x, 0, 24, "middle");
    label(f, left + (double)p->columns * cell_x / 2, bottom + 36, "middle", p->x_title);
}

static double heat_width(const struct plot_heat *p, size_t panel, double cell_x)
{
    enum { MOST = 60 };
    return fmax((double)p->columns * cell_x,
                fmin((double)characters(p->panel[panel]), MOST) * CHARACTER);
}

void plot_heat(FILE *f, const struct plot_heat *p)
{
    enum {
        LEFT = 62,
        GAP = 28,
        TOP = MARGIN + TITLE + PANEL_TITLE,
        BELOW = 52,
        KEY = 80,
        KEY_HEIGHT = 100
    };
    double cell_x = cell(p->columns, 380, 5, 40), cell_y = cell(p->rows, 380, 5, 26);
    double height = fmax((double)p->rows * cell_y, KEY_HEIGHT), left = LEFT, right = LEFT;
    for (size_t i = 0; i < p->n_panels; i++)
        right += heat_width(p, i, cell_x) + GAP;

    begin(f, right + KEY, TOP + height + BELOW, p->title);
    upright(f, MARGIN + 6, TOP + (double)p->rows * cell_y / 2, "middle", p->y_title, ANY_LENGTH,
            "");
    draw_counting(f, p->rows, LEFT - 8, TOP + cell_y / 2 + 3.5, 0, cell_y, FONT + 2, "end");
    for (size_t i = 0; i < p->n_panels; i++) {
        double width = heat_width(p, i, cell_x);
        panel_title(f, left, TOP - 10, width, p->panel[i]);
        draw_heat(f, p, p->share + i * p->rows * p->columns, left, TOP, cell_x, cell_y);
        left += width + GAP;
    }
    draw_key(f, right, TOP, height);
    end(f);
}

/* --------------------------------------------------------------------------------------- shares */

enum { SHARES_WIDTH = 380, SHARES_HEIGHT = 400 };

/* The colour of part i. */
static void part_colour(const struct plot_shares *p, size_t i, char colour[8])
{
    colour_of(p->n_parts > 1 ? (double)i / (double)(p->n_parts - 1) : 0, colour);
}

static void draw_shares(FILE *f, const struct plot_shares *p, const double *share, double left,
                        double top, double pitch)
{
    for (size_t r = 0; r < p->rows; r++) {
        double x = left;
        for (size_t i = 0; i < p->n_parts; i++) {
            char colour[8];
            double part = share[r * p->n_parts + i];
            if (!(part > 0 && part <= 1))
                continue;
            part_colour(p, i, colour);
            box(f, x, top + (double)r * pitch, SHARES_WIDTH * part, pitch - 1, colour);
            x += SHARES_WIDTH * part;
        }
    }
}

void plot_shares(FILE *f, const struct plot_shares *p)
{
    enum {
        LEFT = 62,
        GAP = 28,
        TOP = MARGIN + TITLE + PANEL_TITLE,
        BELOW = 52,
        KEY = 90,
        LINE = 20
    };
    double pitch = cell(p->rows, SHARES_HEIGHT, 5, 20), bottom = TOP + (double)p->rows * pitch,
           right = LEFT + (double)p->n_panels * (SHARES_WIDTH + GAP);
    begin(f, right + KEY, fmax(bottom, TOP + (double)p->n_parts * LINE) + BELOW, p->title);
    upright(f, MARGIN + 6, (TOP + bottom) / 2, "middle", p->y_title, ANY_LENGTH, "");
    for (size_t r = 0, step = pitch < FONT + 2 ? 5 : 1; r < p->rows; r += step)
        number(f, LEFT - 8, TOP + (double)r * pitch + pitch / 2 + 3.5, "end", (double)p->row[r]);
    for (size_t i = 0; i < p->n_panels; i++) {
        double left = LEFT + (double)i * (SHARES_WIDTH + GAP);
        panel_title(f, left, TOP - 10, SHARES_WIDTH, p->panel[i]);
        draw_shares(f, p, p->share[i], left, TOP, pitch);
        label(f, left, bottom + 16, "start", "0 %");
        label(f, left + SHARES_WIDTH, bottom + 16, "end", "100 %");
        label(f, left + SHARES_WIDTH / 2.0, bottom + 16, "middle", p->x_title);
    }
    for (size_t i = 0; i < p->n_parts; i++) {
        char colour[8];
        part_colour(p, i, colour);
        box(f, right, TOP + (double)i * LINE, 14, 14, colour);
        label(f, right + 20, TOP + (double)i * LINE + 11, "start", p->part[i]);
    }
    end(f);
}
