#include "tools/quantize/sink.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/utf8.h"

/* Makes room for n more bytes and a NUL. */
static bool grow(struct sink *to, size_t n)
{
    size_t room = to->n + n + 1;
    if (room <= to->room)
        return true;
    room = room > 2 * to->room ? room : 2 * to->room;
    char *text = realloc(to->text, room);
    to->failed |= !text;
    if (!text)
        return false;
    to->text = text;
    to->room = room;
    return true;
}

void sink_print(struct sink *to, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = to->f ? vfprintf(to->f, fmt, args) : vsnprintf(NULL, 0, fmt, args);
    if (!to->f && n >= 0 && grow(to, (size_t)n)) {
        vsnprintf(to->text + to->n, (size_t)n + 1, fmt, again);
        to->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void sink_escaped(struct sink *to, const char *p, size_t n)
{
    char out[TFT_UTF8_ESCAPED];
    for (size_t i = 0, used; i < n; i += used) {
        size_t len = tft_utf8_escape(out, p + i, n - i, &used);
        sink_print(to, "%.*s", (int)len, out);
    }
}

void sink_number(struct sink *to, const char *name, double x)
{
    if (isfinite(x))
        sink_print(to, ",\"%s\":%.9g", name, x);
    else
        sink_print(to, ",\"%s\":null", name);
}
