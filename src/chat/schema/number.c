/*
 * Numbers within bounds, digit by digit. A number without bounds has up to 15 digits before and 15
 * after the point. A number with bounds has no exponent; its digits after the point and the integer
 * digits of the longest bound are at most 15 together. So a program that reads the number as a
 * double sees it on the same side of the bound.
 */
#include "schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 15, MOST_DIGITS = 18 };

/* ---- bounds */

static bool set_digits(struct schema_bound *b, const char *digit, int n, int exponent)
{
    while (n > 1 && digit[n - 1] == '0')
        n--;
    b->n = 0;
    if (n - 1 - exponent > DIGITS)
        return false;
    if (exponent >= (int)sizeof b->digit) /* larger than all numbers that are written */
        exponent = (int)sizeof b->digit - 1;
    for (int i = exponent < 0 ? exponent : 0; (i < n || i <= exponent) && b->n < sizeof b->digit;
         i++)
        b->digit[b->n++] = i >= 0 && i < n ? (unsigned char)(digit[i] - '0') : 0;
    b->whole = exponent < 0 ? 1 : (unsigned)exponent + 1;
    if (n == 1 && digit[0] == '0')
        b->minus = false;
    return true;
}

bool tft_schema_bound(struct schema *c, const struct schema_place *at, struct schema_bound *b)
{
    char text[40], digit[24];
    int n = 0, exponent = 0;
    bool good = true;
    if (at->v.kind == JINJA_INT) {
        int64_t i = at->v.integer;
        b->minus = i < 0;
        n = snprintf(digit, sizeof digit, "%llu",
                     i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i);
        exponent = n - 1;
    } else if (at->v.kind == JINJA_FLOAT) { /* d.dde+dd, with the decimal point of the locale */
        snprintf(text, sizeof text, "%.*e", DIGITS - 1, at->v.number);
        good = strtod(text, NULL) == at->v.number || fabs(at->v.number) >= 1e18;
        b->minus = text[0] == '-';
        for (const char *p = text; *p && *p != 'e'; p++)
            if (*p >= '0' && *p <= '9')
                digit[n++] = *p;
        exponent = strchr(text, 'e') ? atoi(strchr(text, 'e') + 1) : 0;
        if (at->v.number == 0)
            exponent = 0;
    } else if (at->v.kind == JINJA_BIG) { /* digits after the first MOST_DIGITS do not matter */
        const char *p = at->v.string->p;
        b->minus = *p == '-';
        exponent = (int)at->v.string->n - b->minus - 1;
        for (n = 0; n <= exponent && n < MOST_DIGITS; n++)
            digit[n] = p[n + b->minus];
    } else {
        tft_schema_fail(c, at, TFT_ERR_ARG, "not a number");
        return false;
    }
    if (!n || !good || !set_digits(b, digit, n, exponent))
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "a number of too many digits");
    return c->x->status == TFT_OK;
}

static int compare_sizes(const struct schema_bound *a, const struct schema_bound *b)
{
    if (a->whole != b->whole)
        return a->whole < b->whole ? -1 : 1;
    for (unsigned i = 0; i < a->n || i < b->n; i++) {
        int x = i < a->n ? a->digit[i] : 0, y = i < b->n ? b->digit[i] : 0;
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int tft_schema_compare(const struct schema_bound *a, const struct schema_bound *b)
{
    if (a->minus != b->minus)
        return a->minus ? -1 : 1;
    return a->minus ? compare_sizes(b, a) : compare_sizes(a, b);
}

static int64_t whole_part(const struct schema_bound *b)
{
    int64_t n = 0;
    for (unsigned i = 0; i < b->whole; i++)
        n = n * 10 + b->digit[i];
    return n;
}

static bool is_zero(const struct schema_bound *b) { return b->n == 1 && !b->digit[0]; }

/* ---- whole numbers */

static bool all_are(const char *p, size_t n, char digit)
{
    return strspn(p, (const char[]){digit, 0}) >= n;
}

/* Writes an expression for the numbers lo .. hi, which both have n digits. */
static void put_range(struct schema *c, const char *lo, const char *hi, size_t n)
{
    char first = *lo, last = *hi;
    if (all_are(lo, n, '0') && all_are(hi, n, '9')) {
        tft_schema_put(c, " [0-9]{%zu}", n);
        return;
    }
    if (first == last || n == 1) {
        tft_schema_put(c, " [%c-%c]", first, last);
        if (n > 1)
            put_range(c, lo + 1, hi + 1, n - 1);
        return;
    }
    tft_schema_put(c, " (");
    if (!all_are(lo + 1, n - 1, '0')) {
        tft_schema_put(c, " [%c]", first++);
        put_range(c, lo + 1, "99999999999999999999", n - 1);
        tft_schema_put(c, " |");
    }
    if (!all_are(hi + 1, n - 1, '9')) {
        tft_schema_put(c, " [%c]", last--);
        put_range(c, "00000000000000000000", hi + 1, n - 1);
        tft_schema_put(c, first <= last ? " |" : "");
    }
    if (first <= last)
        tft_schema_put(c, " [%c-%c] [0-9]{%zu}", first, last, n - 1);
    else if (all_are(hi + 1, n - 1, '9'))
        tft_schema_put(c, " never");
    tft_schema_put(c, " )");
}

static int64_t power(unsigned n)
{
    int64_t p = 1;
    while (n--)
        p *= 10;
    return p;
}

/* Writes an expression for the numbers lo .. hi, 0 <= lo <= hi. */
static void put_whole(struct schema *c, int64_t lo, int64_t hi)
{
    tft_schema_put(c, " (");
    for (unsigned n = 1; n <= MOST_DIGITS; n++) {
        int64_t least = n > 1 ? power(n - 1) : 0, most = power(n) - 1;
        char a[24], b[24];
        if (most < lo || least > hi)
            continue;
        snprintf(a, sizeof a, "%lld", (long long)(lo > least ? lo : least));
        snprintf(b, sizeof b, "%lld", (long long)(hi < most ? hi : most));
        put_range(c, a, b, n);
        tft_schema_put(c, hi > most ? " |" : "");
    }
    tft_schema_put(c, " )");
}

/* The default for a missing bound: the largest number with as many digits as the other bound, at
   least 15. */
static int64_t no_bound(const struct schema_bound *other)
{
    return power(other->whole > DIGITS ? other->whole : DIGITS) - 1;
}

/* The least integer within the lower bound b (sign = 1), or the largest within the upper bound b
   (sign = -1). */
static int64_t integer_at(const struct schema_bound *b, int sign)
{
    int64_t n = b->minus ? -whole_part(b) : whole_part(b);
    bool fraction = b->n > b->whole;
    bool inside = fraction ? b->minus == (sign > 0) : !b->exclusive;
    return inside ? n : n + sign;
}

/* The number of `digits` nines, or as many as the other bound has. */
static struct schema_bound nines(const struct schema_bound *other, bool minus, unsigned digits)
{
    struct schema_bound b = {.set = true, .minus = minus};
    bool longer = other->set && other->minus == minus && other->whole > digits;
    b.whole = b.n = longer && other->whole <= MOST_DIGITS ? other->whole : digits;
    memset(b.digit, 9, b.n);
    return b;
}

/* Brings a lower bound (minus) or an upper one nearer if it is beyond all written numbers. */
static void bring_near(struct schema *c, struct schema_bound *b, const struct schema_bound *other,
                       bool minus, unsigned digits)
{
    if (!b->set || b->whole <= MOST_DIGITS)
        return;
    if (b->minus != minus)
        tft_schema_fail(c, c->here, TFT_ERR_UNSUPPORTED, "a bound of too many digits");
    *b = nines(other, minus, digits);
}

/* Multiples of 0.1 and the like have bounds, so that a double tells them from their neighbours. */
static void bound_multiples(struct schema_shape *s)
{
    if (s->multiple.set && !s->least.set)
        s->least = nines(&s->most, true, DIGITS / 2);
    if (s->multiple.set && !s->most.set)
        s->most = nines(&s->least, false, DIGITS / 2);
}

bool tft_schema_integer(struct schema *c, const struct schema_shape *shape)
{
    struct schema_shape copy = *shape, *s = &copy;
    bring_near(c, &s->least, &s->most, true, DIGITS);
    bring_near(c, &s->most, &s->least, false, DIGITS);
    bool listed = s->multiple.set && tft_schema_places(s) < 0;
    if (!s->least.set && !s->most.set && !listed) {
        tft_schema_put(c, "integer");
        return true;
    }
    int64_t lo = s->least.set ? integer_at(&s->least, 1) : -no_bound(&s->most),
            hi = s->most.set ? integer_at(&s->most, -1) : no_bound(&s->least);
    if (lo > hi)
        return false;
    if (listed) {
        tft_schema_multiples(c, s, lo, hi);
        return true;
    }
    if (lo < 0) {
        tft_schema_put(c, "\"-\"");
        put_whole(c, hi < 0 ? -hi : 1, -lo);
        tft_schema_put(c, hi >= 0 ? " | " : "");
    }
    if (hi >= 0)
        put_whole(c, lo > 0 ? lo : 0, hi);
    return true;
}

/* ---- digits after the point */

struct fraction {
    struct schema *c;
    const struct schema_bound *lo, *hi;
    unsigned most; /* digits after the point */
};

static unsigned digit_at(const struct schema_bound *b, unsigned at)
{
    return b->whole + at < b->n ? b->digit[b->whole + at] : 0;
}

/* Whether a number may end after `at` digits. near_lo, near_hi: the digits so far equal the digits
   of lo, or of hi, so later digits can still cross the bound. */
static bool may_end(const struct fraction *f, unsigned at, bool near_lo, bool near_hi)
{
    if (near_lo && (f->lo->whole + at < f->lo->n || f->lo->exclusive))
        return false;
    return !near_hi || f->hi->whole + at < f->hi->n || !f->hi->exclusive;
}

/* Writes the digits that may follow `at` digits. ends: the number may also end. */
static void put_digits(const struct fraction *f, unsigned at, bool near_lo, bool near_hi, bool ends)
{
    unsigned first = 0, last = 9;
    if (!near_lo && !near_hi) {
        tft_schema_put(f->c, " [0-9]{%u,%u}", ends ? 0 : 1, f->most - at);
        return;
    }
    tft_schema_put(f->c, ends && may_end(f, at, near_lo, near_hi) ? " ( \"\"" : " ( never");
    if (at < f->most) {
        unsigned x = near_lo ? digit_at(f->lo, at) : 0, y = near_hi ? digit_at(f->hi, at) : 9;
        if (near_lo && near_hi && x == y) {
            tft_schema_put(f->c, " | [%u]", x);
            put_digits(f, at + 1, true, true, true);
            last = 0;
            first = 1;
        } else {
            if (near_lo) {
                tft_schema_put(f->c, " | [%u]", x);
                put_digits(f, at + 1, true, false, true);
                first = x + 1;
            }
            if (near_hi) {
                tft_schema_put(f->c, " | [%u]", y);
                put_digits(f, at + 1, false, true, true);
                last = y - 1; /* wraps if y is 0: then below `first` in a signed compare */
            }
        }
        if ((int)first <= (int)last)
            tft_schema_put(f->c, " | [%u-%u] [0-9]{0,%u}", first, last, f->most - at - 1);
    }
    tft_schema_put(f->c, " )");
}

static void put_fraction(const struct fraction *f, bool near_lo, bool near_hi)
{
    if (!f->most) {
        tft_schema_put(f->c, may_end(f, 0, near_lo, near_hi) ? "" : " never");
        return;
    }
    tft_schema_put(f->c, may_end(f, 0, near_lo, near_hi) ? " ( \"\"" : " ( never");
    tft_schema_put(f->c, " | \".\"");
    put_digits(f, 0, near_lo, near_hi, false);
    tft_schema_put(f->c, " )");
}

/* Writes the magnitudes lo .. hi; hi may be unset. */
static void put_sizes(struct schema *c, const struct schema_bound *lo,
                      const struct schema_bound *hi, unsigned places)
{
    struct fraction f = {c, lo, hi, 0};
    unsigned longest = hi->set && hi->whole > lo->whole ? hi->whole : lo->whole;
    int64_t a = whole_part(lo), b = hi->set ? whole_part(hi) : no_bound(lo);
    f.most = longest < DIGITS ? DIGITS - longest : 0;
    f.most = lo->n - lo->whole > f.most ? lo->n - lo->whole : f.most;
    f.most = hi->set && hi->n - hi->whole > f.most ? hi->n - hi->whole : f.most;
    f.most = f.most > places ? places : f.most;
    if (hi->set && f.most && (b ? hi->whole : 0) + f.most > DIGITS)
        tft_schema_fail(c, c->here, TFT_ERR_UNSUPPORTED,
                        "bounds of a number with more than %d digits in all", DIGITS);
    tft_schema_put(c, " (");
    put_whole(c, a, a);
    put_fraction(&f, true, hi->set && a == b);
    if (a + 1 <= b - hi->set) {
        tft_schema_put(c, " |");
        put_whole(c, a + 1, b - hi->set);
        put_fraction(&f, false, false);
    }
    if (hi->set && a < b) {
        tft_schema_put(c, " |");
        put_whole(c, b, b);
        put_fraction(&f, false, true);
    }
    tft_schema_put(c, " )");
}

bool tft_schema_number(struct schema *c, const struct schema_shape *shape)
{
    struct schema_shape copy = *shape, *s = &copy;
    int places = s->multiple.set ? tft_schema_places(s) : MOST_DIGITS;
    if (places <= 0) /* multiples of a whole number are whole */
        return tft_schema_integer(c, s);
    bring_near(c, &s->least, &s->most, true, DIGITS / 2);
    bring_near(c, &s->most, &s->least, false, DIGITS / 2);
    bound_multiples(s);
    struct schema_bound zero = {.set = true, .whole = 1, .n = 1}, none = {0};
    const struct schema_bound *least = s->least.set ? &s->least : NULL,
                              *most = s->most.set ? &s->most : NULL;
    bool negative = !least || least->minus, below = most && (most->minus || is_zero(most)),
         positive = !most || (!most->minus && !(is_zero(most) && most->exclusive));
    if (!least && !most) {
        tft_schema_put(c, "number");
        return true;
    }
    if (negative) { /* magnitudes from |most|, or from 0, to |least| */
        tft_schema_put(c, "\"-\"");
        put_sizes(c, below ? most : &zero, least ? least : &none, (unsigned)places);
    }
    if (positive) {
        tft_schema_put(c, negative ? " |" : "");
        put_sizes(c, least && !least->minus ? least : &zero, most ? most : &none, (unsigned)places);
    }
    return negative || positive;
}
