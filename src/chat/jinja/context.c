/* The pool, the bounds, and failures. */
#include "jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct jinja_chunk {
    struct jinja_chunk *before;
    size_t size, used; /* including this header */
};

enum { CHUNK = 16384, ALIGN = 16 };

static bool new_chunk(struct jinja *x, size_t least)
{
    size_t size = least + TFT_ALIGN > CHUNK ? least + TFT_ALIGN : CHUNK;
    if (size > x->max_memory - x->memory) {
        tft_jinja_fail(x, TFT_ERR_FULL, "the %s needs more than %zu bytes of memory",
                       x->what, x->max_memory);
        return false;
    }
    struct jinja_chunk *c = tft_alloc(NULL, size);
    if (!c) {
        tft_jinja_fail(x, TFT_ERR_NOMEM, "out of memory");
        return false;
    }
    *c = (struct jinja_chunk){.before = x->chunk, .size = size, .used = TFT_ALIGN};
    x->chunk = c;
    x->memory += size;
    return true;
}

void *tft_jinja_take(struct jinja *x, size_t count, size_t size)
{
    size_t bytes;
    if (x->status != TFT_OK)
        return NULL;
    if (!tft_mul(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        tft_jinja_fail(x, TFT_ERR_NOMEM, "out of memory");
        return NULL;
    }
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if ((!x->chunk || bytes > x->chunk->size - x->chunk->used) && !new_chunk(x, bytes))
        return NULL;
    void *p = (char *)x->chunk + x->chunk->used;
    x->chunk->used += bytes;
    return memset(p, 0, bytes);
}

void tft_jinja_free(struct jinja *x)
{
    for (struct jinja_chunk *c = x->chunk, *before; c; c = before) {
        before = c->before;
        tft_free(NULL, c, c->size);
    }
    x->chunk = NULL;
}

bool tft_jinja_spend(struct jinja *x, size_t n)
{
    x->steps += n;
    if (x->steps > x->max_steps)
        tft_jinja_fail(x, TFT_ERR_FULL, "the %s takes more than %llu steps", x->what,
                       (unsigned long long)x->max_steps);
    return x->status == TFT_OK;
}

bool tft_jinja_enter(struct jinja *x)
{
    if (++x->depth > x->max_depth)
        tft_jinja_fail(x, TFT_ERR_FULL, "macros, expressions or values are more than %u deep",
                       x->max_depth);
    return x->status == TFT_OK;
}

void tft_jinja_leave(struct jinja *x) { x->depth--; }

struct jinja_value tft_jinja_fail(struct jinja *x, enum tft_status status, const char *fmt, ...)
{
    char msg[sizeof x->err.msg];
    va_list args;
    if (x->status != TFT_OK)
        return tft_jinja_undefined;
    va_start(args, fmt);
    vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    if (x->line)
        x->status = tft_fail(&x->err, status, "chat template: line %d: %s", x->line, msg);
    else
        x->status = tft_fail(&x->err, status, "%s", msg);
    return tft_jinja_undefined;
}
