#include "bench_compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/compare.h"

static bool append(struct cli_text *t, const char *s) { return cli_text_append(t, s, strlen(s)); }

static bool append_number(struct cli_text *t, uint64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, n);
    return append(t, text);
}

/* The word of this index in a list like "no|token". */
static bool append_word(struct cli_text *t, const char *words, int index)
{
    for (; index > 0; index--)
        words = strchr(words, '|') + 1;
    return cli_text_append(t, words, strcspn(words, "|"));
}

/* Whether the command line gave the option: their defaults are all zero. */
static bool is_given(const struct cli_option *o)
{
    switch (o->type) {
    case CLI_FLAG: return *(const bool *)o->value;
    case CLI_TEXT: return *(const char *const *)o->value != NULL;
    case CLI_COUNT:
    case CLI_NUMBER: return *(const uint32_t *)o->value != 0;
    case CLI_BYTES: return *(const uint64_t *)o->value != 0;
    case CLI_WORD: return *(const int *)o->value != 0;
    default: return false; /* no option of bench */
    }
}

static bool append_value(struct cli_text *t, const struct cli_option *o)
{
    switch (o->type) {
    case CLI_TEXT: return append(t, *(const char *const *)o->value);
    case CLI_COUNT:
    case CLI_NUMBER: return append_number(t, *(const uint32_t *)o->value);
    case CLI_BYTES: return append_number(t, *(const uint64_t *)o->value);
    default: return append_word(t, o->arg, *(const int *)o->value);
    }
}

/* "--name=VALUE", which the caller frees; NULL: out of memory. */
static char *argument(const struct cli_option *o)
{
    struct cli_text t = {0};
    bool ok = append(&t, "--") && append(&t, o->name);
    if (o->type != CLI_FLAG)
        ok = ok && append(&t, "=") && append_value(&t, o);
    if (ok && cli_text_append(&t, "", 1))
        return t.p;
    free(t.p);
    return NULL;
}

static bool is_among(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* Adds the given options of a list to c->args. */
static bool add_options(struct compare *c, const struct cli_option *list,
                        const char *const *left_out)
{
    for (const struct cli_option *o = list; o->help; o++) {
        if (!is_given(o) || is_among(left_out, o->name))
            continue;
        char *text = c->n_args < COMPARE_ARGS ? argument(o) : NULL;
        if (!text)
            return false;
        c->args[c->n_args++] = text;
    }
    return true;
}

int bench_compare(const struct bench_compare *o)
{
    struct compare c = {.own = cli_program_path,
                        .other = o->other,
                        .args = {o->path},
                        .n_args = 1,
                        .pairs = o->pairs,
                        .json = o->json};
    bool ok = add_options(&c, o->options, o->left_out) &&
              add_options(&c, cli_session_option_list, NULL) &&
              add_options(&c, cli_tokenizer_option_list, NULL) &&
              add_options(&c, cli_model_option_list, NULL);
    int status = ok ? compare_programs(&c) : cli_fail("out of memory");
    for (int i = 1; i < c.n_args; i++)
        free((char *)(uintptr_t)c.args[i]);
    return status;
}
