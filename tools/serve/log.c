#define _POSIX_C_SOURCE 200809L
#include "log.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/cli/cli.h"

int log_open(struct log *l)
{
    FILE *f = stderr;
    if (l->form == LOG_NONE)
        return CLI_OK;
    if (l->path && !(f = fopen(l->path, "ab")))
        return cli_fail("--log-file %s: %s", l->path, strerror(errno));
    log_close(l);
    l->f = f;
    return CLI_OK;
}

void log_close(struct log *l)
{
    if (l->f && l->f != stderr)
        fclose(l->f);
    l->f = NULL;
}

/* A text of a client: one word, so that no client writes lines of its own. */
static void put_word(FILE *f, const char *p)
{
    for (; *p; p++)
        putc(*p > ' ' && *p < 0x7f ? *p : '?', f);
}

static void put_member(FILE *f, const char *name, const char *value)
{
    if (!value)
        return;
    fprintf(f, " %s=", name);
    put_word(f, value);
}

static void write_text(FILE *f, const struct log_entry *e, const char *time)
{
    fprintf(f, "%s %s ", time, e->method);
    put_word(f, e->path);
    fprintf(f, " %d", e->status);
    put_member(f, "model", e->model);
    put_member(f, "key", e->key);
    fprintf(f, " prompt=%zu answer=%zu ms=%.1f\n", e->n_prompt, e->n_answer, e->ms);
}

static void write_json(FILE *f, const struct log_entry *e, const char *time)
{
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:s?, s:s?, s:I, s:I, s:f}", "time", time,
                            "method", e->method, "path", e->path, "status", e->status, "model",
                            e->model, "key", e->key, "prompt_tokens", (json_int_t)e->n_prompt,
                            "answer_tokens", (json_int_t)e->n_answer, "ms", e->ms);
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text)
        fprintf(f, "%s\n", text);
    free(text);
    json_decref(all);
}

void log_write(struct log *l, const struct log_entry *e)
{
    char text[40];
    time_t t = (time_t)e->time;
    struct tm tm;
    if (!l->f)
        return;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    if (l->form == LOG_JSON)
        write_json(l->f, e, text);
    else
        write_text(l->f, e, text);
    fflush(l->f);
}
