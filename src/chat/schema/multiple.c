/* multipleOf. Multiples of 1, 0.1, 0.01 ... are numbers with as many digits after the point.
   Multiples of other whole numbers are listed, or recognized by their last digits. */
#include "schema.h"

enum { MOST_LISTED = 2000, LAST_DIGITS = 3 };

/* b without its point, with `places` digits after it, modulo m. */
static uint64_t remainder_of(const struct schema_bound *b, unsigned places, uint64_t m)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < b->whole + places; i++)
        r = (r * 10 + (i < b->n ? b->digit[i] : 0)) % m;
    return r;
}

bool tft_schema_is_multiple(const struct schema_shape *s, const struct schema_bound *b)
{
    const struct schema_bound *m = &s->multiple;
    unsigned places = m->n - m->whole > b->n - b->whole ? m->n - m->whole : b->n - b->whole;
    if (m->whole + places > 18 || b->whole + places > sizeof b->digit)
        return false;
    uint64_t whole = remainder_of(m, places, UINT64_MAX);
    return whole && !remainder_of(b, places, whole);
}

int tft_schema_places(const struct schema_shape *s)
{
    const struct schema_bound *m = &s->multiple;
    for (unsigned i = 0; i + 1 < m->n; i++)
        if (m->digit[i])
            return -1;
    return m->digit[m->n - 1] == 1 ? (int)(m->n - m->whole) : -1;
}

static void refuse(struct schema *c, const struct schema_shape *s)
{
    tft_schema_fail(c, s->multiple_at, TFT_ERR_UNSUPPORTED,
                    "supported: 1, 0.1, 0.01 ...; other whole numbers between near bounds; and 2, "
                    "5, 10 ... of numbers without bounds");
}

/* Writes the multiples m of lo .. hi, one after another. */
static void list(struct schema *c, int64_t lo, int64_t hi, int64_t m)
{
    int64_t first = lo / m * m;
    tft_schema_put(c, "(never");
    for (int64_t k = first < lo ? first + m : first; k <= hi; k += m)
        tft_schema_put(c, " | \"%lld\"", (long long)k);
    tft_schema_put(c, ")");
}

/* Writes the multiples of m, a divisor of `power`, up to 15 digits: they end as the multiples below
   `power` do. digits: of power - 1. */
static void by_last_digits(struct schema *c, int64_t m, int64_t power, int digits, bool zero)
{
    tft_schema_put(c, "(");
    list(c, zero ? 0 : 1, power - 1, m);
    tft_schema_put(c, " | [1-9] [0-9]{0,%d} (never", 14 - digits);
    for (int64_t k = 0; k < power; k += m)
        tft_schema_put(c, " | \"%0*lld\"", digits, (long long)k);
    tft_schema_put(c, "))");
}

void tft_schema_multiples(struct schema *c, const struct schema_shape *s, int64_t lo, int64_t hi)
{
    int64_t m = (int64_t)remainder_of(&s->multiple, 0, UINT64_MAX), power = 10;
    int digits = 1;
    if (s->multiple.n > s->multiple.whole || s->multiple.whole > 17) {
        refuse(c, s);
        return;
    }
    for (; digits < LAST_DIGITS && power % m; digits++)
        power *= 10;
    if (hi / m - lo / m <= MOST_LISTED)
        list(c, lo, hi, m);
    else if (power % m || s->most.set || (s->least.set && (lo < 0 || lo > 1)))
        refuse(c, s);
    else {
        if (!s->least.set) {
            tft_schema_put(c, "\"-\" ");
            by_last_digits(c, m, power, digits, false);
            tft_schema_put(c, " | ");
        }
        by_last_digits(c, m, power, digits, lo <= 0);
    }
}
