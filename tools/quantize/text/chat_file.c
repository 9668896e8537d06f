#include "tools/quantize/text/chat_file.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/json/read.h"
#include "tools/quantize/job/format.h"

struct file {
    struct job *j;
    struct talks *out;
    size_t line; /* counted from 1 */
};

static enum tft_status bad(const struct file *f, const char *fmt, ...) TFT_PRINTF(2, 3);

static enum tft_status bad(const struct file *f, const char *fmt, ...)
{
    char why[sizeof f->j->err->msg];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return tft_fail(f->j->err, TFT_ERR_FORMAT, "%s:%zu: %s", f->j->o->calib_name, f->line, why);
}

static bool is_role(const char *role)
{
    static const char *const known[] = {"system", "developer", "user", "assistant", "tool"};
    for (size_t i = 0; i < sizeof known / sizeof *known && role; i++)
        if (strcmp(role, known[i]) == 0)
            return true;
    return false;
}

static enum tft_status check_messages(const struct file *f, const json_t *list)
{
    if (!json_is_array(list) || !json_array_size(list))
        return bad(f, "has no \"messages\"");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(list, i), "role"));
        if (!is_role(role))
            return bad(f,
                       "message %zu has %s%.40s%s: roles are system, developer, user, assistant "
                       "and tool",
                       i + 1, role ? "the role \"" : "no role", role ? role : "", role ? "\"" : "");
    }
    return TFT_OK;
}

static enum tft_status check_line(const struct file *f, const char *line, size_t n)
{
    json_error_t why;
    json_t *object = read_json(line, n, JSON_REJECT_DUPLICATES, &why);
    if (!object)
        return bad(f, "is not JSON: %s (column %d)", why.text, why.column);
    enum tft_status status = check_messages(f, json_object_get(object, "messages"));
    if (status == TFT_OK && json_object_get(object, "tools") &&
        !tft_chat_uses(f->j->format, "tools"))
        status = bad(f, "has tools, which the template does not know");
    json_decref(object);
    return status;
}

/* Adds the tokens of the text, without BOS before them. */
static enum tft_status add(const struct file *f, const struct tft_chat_text *text)
{
    int32_t *ids;
    size_t n;
    enum tft_status status = job_format_tokenize(f->j, &ids, &n, text);
    if (status != TFT_OK)
        return status;
    size_t skip = talks_lead(f->j->m, ids, n);
    bool good = talks_add(f->out, ids + skip, n - skip);
    free(ids);
    return good ? TFT_OK : job_no_memory(f->j);
}

static enum tft_status read_line(const struct file *f, const char *line, size_t n)
{
    struct tft_chat_input in = {.size = sizeof in,
                                .json = line,
                                .n_json = n,
                                .no_prompt = true,
                                .has_time = true,
                                .time = TALKS_TIME,
                                .read_arguments = true};
    struct tft_chat_text text;
    struct tft_error err;
    enum tft_status status = check_line(f, line, n);
    if (status != TFT_OK)
        return status;
    if (tft_chat_render_for(&text, f->j->format, f->j->m, &in, &err) != TFT_OK)
        return bad(f, "%s", err.msg);
    status = add(f, &text);
    tft_chat_text_free(&text);
    return status;
}

enum tft_status chat_file_read(struct talks *out, struct job *j)
{
    struct file file = {j, out, 0};
    const char *text = j->o->calib, *end = text + j->o->n_calib;
    enum tft_status status = TFT_OK;
    text += tft_utf8_mark(text, j->o->n_calib);
    for (const char *p = text, *next; p < end && status == TFT_OK; p = next) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        next = newline ? newline + 1 : end;
        file.line++;
        size_t len = (size_t)((newline ? newline : end) - p);
        if (strspn(p, " \t\r") < len) /* a NUL ends the text */
            status = read_line(&file, p, len);
    }
    return status;
}
