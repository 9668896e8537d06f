#include "tools/quantize/text/chat_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/chat/template.h"
#include "tools/cli/cli.h"

struct file {
    const struct tft_model *m;
    const struct tft_chat_template *format;
    const char *path;
    struct talks *out;
    size_t line; /* counted from 1 */
};

static bool is_role(const char *role)
{
    static const char *const known[] = {"system", "developer", "user", "assistant", "tool"};
    for (size_t i = 0; i < sizeof known / sizeof *known && role; i++)
        if (strcmp(role, known[i]) == 0)
            return true;
    return false;
}

static int check_messages(const struct file *f, const json_t *list)
{
    if (!json_is_array(list) || !json_array_size(list))
        return cli_fail("%s:%zu: has no \"messages\"", f->path, f->line);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(list, i), "role"));
        if (!is_role(role))
            return cli_fail("%s:%zu: message %zu has %s%.40s%s: roles are system, developer, user, "
                            "assistant and tool",
                            f->path, f->line, i + 1, role ? "the role \"" : "no role",
                            role ? role : "", role ? "\"" : "");
    }
    return CLI_OK;
}

static int check_line(const struct file *f, const char *line, size_t n)
{
    json_error_t bad;
    json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES, &bad);
    if (!object)
        return cli_fail("%s:%zu: is not JSON: %s (column %d)", f->path, f->line, bad.text,
                        bad.column);
    int status = check_messages(f, json_object_get(object, "messages"));
    if (status == CLI_OK && json_object_get(object, "tools") && !tft_chat_uses(f->format, "tools"))
        status = cli_fail("%s:%zu: has tools, which the template does not know", f->path, f->line);
    json_decref(object);
    return status;
}

/* Adds the tokens of the text, without BOS before them. */
static int add(const struct file *f, const struct tft_chat_text *text)
{
    size_t n;
    int32_t *ids = template_tokenize(text, f->m, &n, NULL);
    if (!ids)
        return CLI_FAILED;
    size_t skip = talks_lead(f->m, ids, n);
    bool good = talks_add(f->out, ids + skip, n - skip);
    free(ids);
    return good ? CLI_OK : cli_fail("out of memory");
}

static int read_line(const struct file *f, const char *line, size_t n)
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
    int status = check_line(f, line, n);
    if (status != CLI_OK)
        return status;
    if (tft_chat_render_for(&text, f->format, f->m, &in, &err) != TFT_OK)
        return cli_fail("%s:%zu: %s", f->path, f->line, err.msg);
    status = add(f, &text);
    tft_chat_text_free(&text);
    return status;
}

int chat_file_read(struct talks *out, const struct tft_model *m,
                   const struct tft_chat_template *t, const char *path, const char *text, size_t n)
{
    struct file file = {m, t, path, out, 0};
    int status = CLI_OK;
    for (const char *p = text + chat_file_mark(text), *end = text + n, *next; p < end && status == CLI_OK; p = next) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        next = newline ? newline + 1 : end;
        file.line++;
        size_t len = (size_t)((newline ? newline : end) - p);
        if (strspn(p, " \t\r") < len) /* text[n] is a NUL */
            status = read_line(&file, p, len);
    }
    return status;
}
