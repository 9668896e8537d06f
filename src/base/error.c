#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

/* Messages contain names from files. This function keeps a message one line of valid UTF-8: each
   byte of a character that controls a terminal (C0, DEL, C1), or of invalid UTF-8, becomes '?'. */
static void make_printable(char *s)
{
    size_t n = strlen(s), len;
    for (; n; s += len, n -= len) {
        uint32_t c;
        len = tft_utf8_next(s, n, &c);
        if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c >= TFT_UTF8_BAD)
            memset(s, '?', len);
    }
}

static enum tft_status fill(struct tft_error *err, enum tft_status code, int os, uint64_t offset,
                            const char *prefix, const char *fmt, va_list args)
{
    if (err) {
        err->code = code;
        err->os = os;
        err->offset = offset;
        memset(err->reserved, 0, sizeof err->reserved);
        int used = snprintf(err->msg, sizeof err->msg, "%s", prefix);
        if (used < 0)
            used = 0;
        if ((size_t)used >= sizeof err->msg)
            used = sizeof err->msg - 1;
        vsnprintf(err->msg + used, sizeof err->msg - (size_t)used, fmt, args);
        make_printable(err->msg);
    }
    return code;
}

/* A long path must leave room for the message, so only the path's end, with the file's name, is
   shown, after *dots. */
static const char *short_name(const char *name, const char **dots)
{
    enum { MAX_SHOWN = 100 };
    size_t n = strlen(name);
    *dots = n > MAX_SHOWN ? "..." : "";
    return n > MAX_SHOWN ? name + n - MAX_SHOWN : name;
}

/* The name of a file at the start of a message, "%s: ..." or "%s/...", is shown as in
   tft_fail_at. */
enum tft_status tft_fail(struct tft_error *err, enum tft_status code, const char *fmt, ...)
{
    char prefix[160] = "";
    va_list args;
    va_start(args, fmt);
    if (strncmp(fmt, "%s: ", 4) == 0 || strncmp(fmt, "%s/", 3) == 0) {
        const char *dots, *tail = short_name(va_arg(args, const char *), &dots);
        snprintf(prefix, sizeof prefix, "%s%s", dots, tail);
        fmt += 2;
    }
    fill(err, code, 0, 0, prefix, fmt, args);
    va_end(args);
    return code;
}

enum tft_status tft_fail_at(struct tft_error *err, enum tft_status code, const char *name,
                            uint64_t offset, const char *fmt, ...)
{
    char prefix[160];
    const char *dots, *tail = short_name(name, &dots);
    snprintf(prefix, sizeof prefix, "%s%s: byte %llu: ", dots, tail, (unsigned long long)offset);

    va_list args;
    va_start(args, fmt);
    fill(err, code, 0, offset, prefix, fmt, args);
    va_end(args);
    return code;
}

enum tft_status tft_fail_os(struct tft_error *err, int os, const char *name, const char *what)
{
    const char *dots, *tail = short_name(name, &dots);
    tft_fail(err, TFT_ERR_IO, "%s%s: %s: %s", dots, tail, what, strerror(os));
    if (err)
        err->os = os;
    return TFT_ERR_IO;
}

const char *tft_status_text(enum tft_status code)
{
    switch (code) {
    case TFT_OK: return "success";
    case TFT_ERR_ARG: return "an argument is invalid";
    case TFT_ERR_NOMEM: return "out of memory";
    case TFT_ERR_IO: return "the operating system refused";
    case TFT_ERR_FORMAT: return "the file is damaged";
    case TFT_ERR_UNSUPPORTED: return "the file contains something that is not supported";
    case TFT_ERR_FULL: return "there is no room for the tokens";
    case TFT_ERR_DEVICE: return "the device is missing or has failed";
    case TFT_ERR_NUMBERS: return "the model computed logits that are NaN or infinity";
    case TFT_ERR_CANCELLED: return "the call was cancelled";
    }
    return "unknown status";
}

#define STR2(x) #x
#define STR(x) STR2(x)

const char *tft_version(void)
{
    return STR(TFT_VERSION_MAJOR) "." STR(TFT_VERSION_MINOR) "." STR(TFT_VERSION_PATCH);
}
