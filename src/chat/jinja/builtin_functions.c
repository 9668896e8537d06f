/* The global functions of templates, and calls in general. */
#include "jinja.h"

#include <stdio.h>
#include <string.h>

static struct jinja_value raise_exception(struct jinja *x, const struct jinja_args *a)
{
    const struct jinja_string *s = tft_jinja_str(x, tft_jinja_arg(a, 0, "message", tft_jinja_none));
    return tft_jinja_fail(x, TFT_ERR_ARG, "the template rejects this conversation: %.*s",
                          (int)(s->n < 200 ? s->n : 200), s->p);
}

/* namespace(a=1) and dict(a=1); a dict may be an argument too */
static struct jinja_value members(struct jinja *x, const struct jinja_args *a)
{
    struct jinja_value v = {.kind = JINJA_DICT, .dict = tft_jinja_dict(x)};
    if (a->n > 1 || (a->n && a->value[0].kind != JINJA_DICT))
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "the argument is not a dict");
    for (size_t i = 0; a->n && i < a->value[0].dict->n && x->status == TFT_OK; i++)
        tft_jinja_put(x, v.dict, a->value[0].dict->key[i], a->value[0].dict->value[i]);
    for (size_t i = 0; i < a->n_named && x->status == TFT_OK; i++)
        tft_jinja_put(x, v.dict, (struct jinja_value){.kind = JINJA_STRING, .string = a->name[i]},
                      a->named[i]);
    return x->status == TFT_OK ? v : tft_jinja_undefined;
}

static struct jinja_value range(struct jinja *x, const struct jinja_args *a)
{
    enum { MOST = 100000 }; /* the limit of Jinja's sandbox */
    int64_t part[3] = {0, 0, 1};
    struct jinja_list *l = tft_jinja_list(x, JINJA_PLAIN);
    for (size_t i = 0; i < a->n; i++) {
        if (a->n > 3 || a->value[i].kind != JINJA_INT)
            return tft_jinja_fail(x, TFT_ERR_FORMAT, "range: one to three integers are expected");
        part[a->n == 1 ? 1 : i] = a->value[i].integer;
    }
    if (!a->n || !part[2])
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "range: no end, or a step of 0");
    for (int64_t i = part[0]; (part[2] > 0 ? i < part[1] : i > part[1]) && x->status == TFT_OK;) {
        if (l->n == MOST)
            return tft_jinja_fail(x, TFT_ERR_FULL, "range: more than %d numbers", MOST);
        tft_jinja_push(x, l, tft_jinja_int(i));
        if (__builtin_add_overflow(i, part[2], &i))
            break;
    }
    return tft_jinja_list_value(l);
}

/* ---- the clock */

struct date {
    int64_t year;
    int month, day, yearday, weekday, hour, minute, second; /* month, yearday, weekday from 0 */
};

/* Days since 1970 to a date of the Gregorian calendar: Hinnant's civil_from_days
   (howardhinnant.github.io/date_algorithms.html). Eras are 400 years, and years begin in March. */
static struct date date_of(int64_t time)
{
    struct date d;
    int64_t days = time / 86400 - (time % 86400 < 0), rest = time - days * 86400;
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097,
            yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365,
            doy = doe - (365 * yoe + yoe / 4 - yoe / 100), m = (5 * doy + 2) / 153;
    d.day = (int)(doy - (153 * m + 2) / 5 + 1);
    d.month = (int)(m < 10 ? m + 2 : m - 10);
    d.year = yoe + era * 400 + (d.month < 2);
    bool leap = (d.year % 4 == 0 && d.year % 100 != 0) || d.year % 400 == 0;
    d.yearday = (int)(doy < 306 ? doy + 59 + leap : doy - 306);
    d.weekday = (int)(((days + 4) % 7 + 7) % 7);
    d.hour = (int)(rest / 3600);
    d.minute = (int)(rest / 60 % 60);
    d.second = (int)(rest % 60);
    return d;
}

/* Writes the date field %c, in English; false: unsupported. dash: %-c, without leading zeros */
static bool put_date(const struct date *d, char c, bool dash, char out[32])
{
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"},
                             *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
    int twelve = d->hour % 12 ? d->hour % 12 : 12;
    const struct {
        char c;
        int digits, number;
    } numbers[] = {
        {'d', 2, d->day},         {'m', 2, d->month + 1},
        {'H', 2, d->hour},        {'I', 2, twelve},
        {'M', 2, d->minute},      {'S', 2, d->second},
        {'j', 3, d->yearday + 1}, {'y', 2, (int)(d->year % 100)},
        {'Y', 1, (int)d->year},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].c == c) {
            snprintf(out, 32, "%0*d", dash ? 1 : numbers[i].digits, numbers[i].number);
            return true;
        }
    const char *name = c == 'B' || c == 'b'   ? months[d->month]
                       : c == 'A' || c == 'a' ? days[d->weekday]
                       : c == 'p'             ? (d->hour < 12 ? "AM" : "PM")
                       : c == '%'             ? "%"
                                              : NULL;
    if (!name || dash)
        return false;
    snprintf(out, 32, "%.*s", c == 'b' || c == 'a' ? 3 : 31, name);
    return true;
}

static struct jinja_value strftime_now(struct jinja *x, const struct jinja_args *a)
{
    struct jinja_value format = tft_jinja_arg(a, 0, "format", tft_jinja_none);
    struct date d = date_of(x->time);
    struct jinja_buffer b = {0};
    if (!x->has_time)
        return tft_jinja_fail(x, TFT_ERR_ARG, "strftime_now: no time was given");
    if (format.kind != JINJA_STRING)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "strftime_now: a format is expected");
    const struct jinja_string *s = format.string;
    for (size_t at = 0; at < s->n && x->status == TFT_OK; at++) {
        char out[32] = {s->p[at], 0};
        bool trusted = tft_jinja_trusts(s, at);
        if (s->p[at] == '%') {
            bool dash = at + 1 < s->n && s->p[at + 1] == '-';
            at += 1 + dash;
            if (at >= s->n || !put_date(&d, s->p[at], dash, out))
                return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED,
                                      "strftime_now: this format is not supported");
        }
        tft_jinja_add_text(x, &b, out, strlen(out), trusted);
    }
    return tft_jinja_finish(x, &b);
}

/* ---- calls */

bool tft_jinja_function(struct jinja *x, const struct jinja_string *name, struct jinja_value *out)
{
    static const char *const names[] = {"namespace", "dict", "range", "raise_exception",
                                        "strftime_now"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tft_jinja_is(name, names[i])) {
            struct jinja_callable *f = tft_jinja_take(x, 1, sizeof *f);
            if (!f)
                return false;
            f->name = names[i];
            *out = (struct jinja_value){.kind = JINJA_CALLABLE, .call = f};
            return true;
        }
    return false;
}

struct jinja_value tft_jinja_call_function(struct jinja *x, const char *name,
                                           const struct jinja_args *a)
{
    struct jinja_value v;
    switch (*name) {
    case 'n':
        v = members(x, a);
        v.kind = v.kind == JINJA_DICT ? JINJA_NAMESPACE : v.kind;
        return v;
    case 'd': return members(x, a);
    case 's': return strftime_now(x, a);
    default: return strcmp(name, "range") == 0 ? range(x, a) : raise_exception(x, a);
    }
}

struct jinja_value tft_jinja_call(struct jinja *x, struct jinja_value f, const struct jinja_args *a)
{
    struct jinja_value v = tft_jinja_undefined;
    if (f.kind == JINJA_UNDEFINED && f.string)
        return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "there is no %.*s to call",
                              (int)(f.string->n < 60 ? f.string->n : 60), f.string->p);
    if (f.kind != JINJA_CALLABLE)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "a %s cannot be called", tft_jinja_type(f));
    if (tft_jinja_enter(x) && tft_jinja_spend(x, 1))
        v = f.call->macro                          ? tft_jinja_call_macro(x, f.call, a)
            : f.call->self.kind != JINJA_UNDEFINED ? tft_jinja_call_method(x, f.call, a)
                                                   : tft_jinja_call_function(x, f.call->name, a);
    tft_jinja_leave(x);
    return x->status == TFT_OK ? v : tft_jinja_undefined;
}
