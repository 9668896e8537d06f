#include "tools/quantize/job/format.h"

#include <stdlib.h>
#include <string.h>

#define NAMES "chatml, qwen3, llama2, llama3, zephyr, phi3, gemma or mistral"

enum tft_status job_format_check(struct job *j)
{
    const char *name = j->o->format;
    return !name || tft_chat_builtin(name)
               ? TFT_OK
               : job_misuse(j, "--template must be " NAMES ", not \"%s\"", name);
}

void job_format_open(struct job *j)
{
    const char *name = j->o->format,
               *jinja = name ? tft_chat_builtin(name) : tft_model_chat_template(j->m);
    struct tft_error err;
    if (!jinja) {
        tft_fail(&j->formatless, TFT_ERR_UNSUPPORTED,
                 "%s: the file has no chat template: name the format with --template: " NAMES,
                 j->m->source.name);
        return;
    }
    enum tft_status status = tft_chat_open(&j->format, jinja, strlen(jinja), &err);
    if (status != TFT_OK && name)
        tft_fail(&j->formatless, status, "--template %s: %s", name, err.msg);
    else if (status != TFT_OK)
        tft_fail(&j->formatless, status, "%s: %s: name a format with --template: " NAMES,
                 j->m->source.name, err.msg);
}

void job_format_close(struct job *j)
{
    tft_chat_close(j->format);
    j->format = NULL;
}

enum tft_status job_format_need(struct job *j)
{
    if (j->format)
        return TFT_OK;
    *j->err = j->formatless;
    return j->formatless.code;
}

enum tft_status job_format_tokenize(struct job *j, int32_t **ids, size_t *n,
                                    const struct tft_chat_text *text)
{
    enum tft_status status = tft_chat_tokenize(text, j->m, NULL, 0, n, NULL);
    *ids = status == TFT_OK && *n ? malloc(*n * sizeof **ids) : NULL;
    if (*ids)
        status = tft_chat_tokenize(text, j->m, *ids, *n, n, NULL);
    if (*ids && status == TFT_OK)
        return TFT_OK;
    free(*ids);
    *ids = NULL;
    if (status == TFT_ERR_UNSUPPORTED)
        return tft_fail(j->err, status,
                        "the model has no tokenizer; a llama2.c model needs --tokenizer FILE");
    if (status == TFT_OK)
        return *n ? job_no_memory(j)
                  : tft_fail(j->err, TFT_ERR_FORMAT,
                             "cannot tokenize the conversation: it has no tokens");
    return tft_fail(j->err, status, "cannot tokenize the conversation: %s",
                    tft_status_text(status));
}

/* ---- a system message */

/* Possible beginnings of a user's message. A tokenizer may merge the last of the markup with the
   first of it. */
static const char *const openings[] = {"Hello", "what", "7",   "\n\n\n",
                                       "  1",   "\"A",  "- b", "\xc3\xa9"};
enum { OPENINGS = sizeof openings / sizeof *openings };

/* The tokens of a conversation with the first user message `opening`. */
static enum tft_status begin(struct job *j, int32_t **ids, size_t *n, const char *system,
                             const char *opening)
{
    const struct tft_chat_message said[] = {
        {.role = "system", .text = system, .n = strlen(system)},
        {.role = "user", .text = opening, .n = strlen(opening)}};
    struct tft_chat_input in = {
        .size = sizeof in, .message = said, .n_message = 2, .has_time = true, .time = j->o->time};
    struct tft_chat_text text;
    struct tft_error err;
    *ids = NULL;
    enum tft_status status = tft_chat_render_for(&text, j->format, j->m, &in, &err);
    if (status != TFT_OK)
        return j->o->format
                   ? tft_fail(j->err, status, "%s", err.msg)
                   : tft_fail(j->err, status, "%s: name a format with --template: " NAMES, err.msg);
    status = job_format_tokenize(j, ids, n, &text);
    tft_chat_text_free(&text);
    return status;
}

static size_t common(const int32_t *a, size_t n, const int32_t *b, size_t n_b)
{
    size_t i = 0;
    while (i < n && i < n_b && a[i] == b[i])
        i++;
    return i;
}

/* Reduces ids[*n] to the tokens that this conversation begins with, too. */
static enum tft_status reduce(struct job *j, const int32_t *ids, size_t *n, const char *system,
                              const char *opening)
{
    int32_t *other;
    size_t n_other;
    enum tft_status status = begin(j, &other, &n_other, system, opening);
    if (status == TFT_OK)
        *n = common(ids, *n, other, n_other);
    free(other);
    return status;
}

/* Fails if the tokens ids[n] do not depend on the system message: they are compared with the tokens
   of another message. (Without a message, a template may insert one of its own, even this one.) */
static enum tft_status check_dependent(struct job *j, const int32_t *ids, size_t n,
                                       const char *system)
{
    size_t len = strlen(system), same = n;
    char *changed = malloc(len + 2);
    if (!changed)
        return job_no_memory(j);
    changed[0] = '?';
    memcpy(changed + 1, system, len + 1);
    enum tft_status status = reduce(j, ids, &same, changed, openings[0]);
    free(changed);
    if (status == TFT_OK && same == n)
        return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                        "the chat template %s ignores the system message",
                        j->o->format ? j->o->format : "of the file");
    return status;
}

enum tft_status job_format_system(struct job *j, int32_t **ids, size_t *n, const char *system)
{
    enum tft_status status = begin(j, ids, n, system, openings[0]);
    for (int i = 1; i < OPENINGS && status == TFT_OK; i++)
        status = reduce(j, *ids, n, system, openings[i]);
    if (status == TFT_OK)
        status = check_dependent(j, *ids, *n, system);
    if (status == TFT_OK)
        return TFT_OK;
    free(*ids);
    *ids = NULL;
    return status;
}
