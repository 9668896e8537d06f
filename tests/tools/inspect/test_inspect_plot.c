/* Charts are valid XML, whatever text and numbers they show. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/plot.h"
#include "random.h"
#include "base/utf8.h"

static char *made; /* the latest chart, to be freed */
static size_t made_size;

static FILE *paper(void)
{
    free(made);
    made = NULL;
    FILE *f = open_memstream(&made, &made_size);
    assert_non_null(f);
    return f;
}

static const char *text(const char *s, size_t most)
{
    FILE *f = paper();
    plot_text(f, s, most);
    assert_int_equal(fclose(f), 0);
    return made;
}

static void text_is_escaped(void **state)
{
    (void)state;
    static const char *const all[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"<s>", "&lt;s&gt;"},
        {"a&b;", "a&amp;b;"},
        {"\"'", "&quot;'"},
        {"]]>", "]]&gt;"},
        {"a\tb\n", "a\tb\n"},
        {"\x01\x1b[31m\x7f", "\xef\xbf\xbd\xef\xbf\xbd[31m\x7f"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xff"
         "a",
         "\xef\xbf\xbd"
         "a"},
        {"\xe2\x82", "\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xef\xbf\xbe\xef\xbf\xbf", "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_string_equal(text(all[i][0], 100), all[i][1]);
}

static void long_text_is_cut(void **state)
{
    (void)state;
    assert_string_equal(text("four", 4), "four");
    assert_string_equal(text("fours", 4), "fou\xe2\x80\xa6");
    assert_string_equal(text("<<<<", 3), "&lt;&lt;\xe2\x80\xa6");
    assert_string_equal(text("\xc3\xa9\xc3\xa9\xc3\xa9", 2), "\xc3\xa9\xe2\x80\xa6");
}

/* Checks that elements are closed in order, that there are only characters of XML, and that every
   number is finite. */
static void check(const char *s)
{
    char open[16][16];
    int depth = 0;
    for (size_t i = 0, n = strlen(s), len; i < n; i += len) {
        uint32_t c;
        len = tft_utf8_next(s + i, n - i, &c);
        assert_true(c < TFT_UTF8_BAD && (c >= 0x20 || c == '\n' || c == '\t'));
    }
    for (const char *p = strchr(s, '<'); p; p = strchr(p + 1, '<')) {
        const char *end = strchr(p, '>');
        assert_non_null(end);
        size_t n = strcspn(p + 1 + (p[1] == '/'), " >/");
        assert_in_range(n, 1, 15);
        if (p[1] == '/') {
            assert_true(depth > 0 && strncmp(open[depth - 1], p + 2, n) == 0 &&
                        open[depth - 1][n] == 0);
            depth--;
        } else if (end[-1] != '/') {
            assert_in_range(depth, 0, 15);
            snprintf(open[depth++], sizeof *open, "%.*s", (int)n, p + 1);
        }
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(s, "nan"));
    assert_null(strstr(s, "inf"));
    assert_null(strstr(s, "href"));
}

static const char hostile[] = "\"><script>&\x01\xff";

static double any(void)
{
    switch (random_u32() % 8) {
    case 0: return 0;
    case 1: return NAN;
    case 2: return INFINITY;
    case 3: return -1;
    case 4: return 1e-300;
    case 5: return 1e300;
    default: return exp((double)random_even() * 20);
    }
}

static void lines(void **state)
{
    (void)state;
    enum { MOST = 70, SERIES = 8, PANELS = 2 };
    static double y[MOST * SERIES * PANELS];
    const char *name[SERIES], *panel[PANELS] = {hostile, hostile};
    for (int i = 0; i < SERIES; i++)
        name[i] = hostile;
    for (int round = 0; round < 200; round++) {
        struct plot_lines p = {.title = hostile,
                               .x_title = hostile,
                               .y_title = hostile,
                               .name = name,
                               .panel = panel,
                               .y = y,
                               .n = 1 + random_u32() % MOST,
                               .n_series = 1 + random_u32() % SERIES,
                               .n_panels = 1 + random_u32() % PANELS};
        for (size_t i = 0; i < sizeof y / sizeof *y; i++)
            y[i] = round == 0 ? 0 : any();
        FILE *f = paper();
        plot_lines(f, &p);
        assert_int_equal(fclose(f), 0);
        check(made);
    }
}

static void shares(void **state)
{
    (void)state;
    enum { MOST = 70, PARTS = 6, PANELS = 2 };
    static double share[PANELS][MOST * PARTS];
    const double *const shares[PANELS] = {share[0], share[1]};
    const char *part[PARTS], *panel[PANELS] = {hostile, hostile};
    uint32_t row[MOST];
    for (int i = 0; i < PARTS; i++)
        part[i] = hostile;
    for (int round = 0; round < 200; round++) {
        struct plot_shares p = {.title = hostile,
                                .x_title = hostile,
                                .y_title = hostile,
                                .panel = panel,
                                .part = part,
                                .row = row,
                                .share = shares,
                                .rows = 1 + random_u32() % MOST,
                                .n_parts = 1 + random_u32() % PARTS,
                                .n_panels = 1 + random_u32() % PANELS};
        for (size_t i = 0; i < MOST * PARTS; i++)
            share[0][i] = share[1][i] = round ? any() : 1.0 / (double)p.n_parts;
        for (uint32_t i = 0; i < MOST; i++)
            row[i] = random_u32();
        FILE *f = paper();
        plot_shares(f, &p);
        assert_int_equal(fclose(f), 0);
        check(made);
        size_t boxes = 0;
        for (const char *at = made; (at = strstr(at, "<path")); at++)
            boxes++;
        if (round == 0)
            assert_int_equal(boxes, (p.n_panels * p.rows + 1) * p.n_parts);
    }
}

static void bars(void **state)
{
    (void)state;
    enum { MOST = 60 };
    struct plot_bar bar[2][MOST];
    for (int round = 0; round < 200; round++) {
        size_t n[2] = {random_u32() % MOST, random_u32() % MOST};
        struct plot_bars_panel panel[2] = {{hostile, bar[0], n[0], 0},
                                           {hostile, bar[1], n[1], random_u32() % 3}};
        for (int i = 0; i < 2 * MOST; i++)
            bar[i / MOST][i % MOST] = (struct plot_bar){any(), round % 2 ? hostile : "",
                                                        random_u32() % 2};
        FILE *f = paper();
        plot_bars(f, &(struct plot_bars){hostile, hostile, panel, 1 + random_u32() % 2});
        assert_int_equal(fclose(f), 0);
        check(made);
    }
}

static void heat(void **state)
{
    (void)state;
    enum { MOST = 50 };
    static double share[2 * MOST * MOST];
    const char *panel[2] = {hostile, hostile};
    for (int round = 0; round < 100; round++) {
        struct plot_heat p = {.title = hostile,
                              .x_title = hostile,
                              .y_title = hostile,
                              .panel = panel,
                              .share = share,
                              .rows = 1 + random_u32() % MOST,
                              .columns = 1 + random_u32() % MOST,
                              .n_panels = 1 + random_u32() % 2};
        for (size_t i = 0; i < sizeof share / sizeof *share; i++)
            share[i] = any();
        FILE *f = paper();
        plot_heat(f, &p);
        assert_int_equal(fclose(f), 0);
        check(made);
    }
}

/* On a logarithmic scale of 1 .. 100, 1 is at the bottom, 10 in the middle and 100 at the top. Both
   panels have one scale. */
static void a_logarithmic_scale(void **state)
{
    (void)state;
    const double y[] = {1, 10, 100, 10};
    double at[4], x;
    FILE *f = paper();
    plot_lines(f, &(struct plot_lines){"t", "x", "y", (const char *const[]){"s"},
                                       (const char *const[]){"a", "b"}, 2, 1, 2, y});
    assert_int_equal(fclose(f), 0);
    const char *p = made;
    for (int i = 0; i < 4; i++) {
        p = strstr(p, "<circle");
        assert_non_null(p);
        assert_int_equal(sscanf(p++, "<circle cx=\"%lf\" cy=\"%lf\"", &x, &at[i]), 2);
    }
    assert_true(at[0] > at[1] && fabs(at[0] + at[2] - 2 * at[1]) < 0.2 && at[3] == at[1]);
    assert_non_null(strstr(made, ">100</text>"));
    assert_non_null(strstr(made, ">1</text>"));
}

static int done(void **state)
{
    (void)state;
    free(made);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(long_text_is_cut),
        cmocka_unit_test(lines),
        cmocka_unit_test(bars),
        cmocka_unit_test(shares),
        cmocka_unit_test(heat),
        cmocka_unit_test(a_logarithmic_scale),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
