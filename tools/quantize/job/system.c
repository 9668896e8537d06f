#include "tools/quantize/job/system.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tools/quantize/job/format.h"
#include "tools/quantize/round/prefix_pack.h"

static enum tft_status check_system(struct job *j, size_t index)
{
    const struct tft_quantize_system *all = j->o->system, *is = &all[index];
    if (tft_options_reserved(is->reserved, sizeof is->reserved, "tft_quantize_system",
                             j->err) != TFT_OK)
        return TFT_ERR_ARG;
    if (!is->name || !is->text)
        return job_misuse(j, "--intact-system: a system message has no name, or no text");
    if (!tft_prefix_name_valid(is->name, strlen(is->name)))
        return job_misuse(j,
                          "--intact-system: the name \"%s\" is not 1 to %d of a-z, 0-9, _ and -, "
                          "or is \"main\"",
                          is->name, TFT_PREFIX_NAME);
    for (size_t i = 0; i < index; i++)
        if (strcmp(all[i].name, is->name) == 0)
            return job_misuse(j, "--intact-system: two texts have the name \"%s\": give NAME=TEXT",
                              is->name);
    return *is->text ? TFT_OK
                     : job_misuse(j, "--intact-system: the text of \"%s\" is empty", is->name);
}

enum tft_status job_system_check(struct job *j)
{
    enum tft_status status = TFT_OK;
    if (j->o->n_system && !j->o->system)
        return job_misuse(j, "struct tft_quantize_opts: n_system is not 0, and system is NULL");
    if (j->o->n_system > TFT_PREFIX_NAMES)
        return job_misuse(j, "--intact-system is given more than %d times", (int)TFT_PREFIX_NAMES);
    for (size_t i = 0; i < j->o->n_system && status == TFT_OK; i++)
        status = check_system(j, i);
    return status;
}

/* ---- before quantize() */

/* Whether ids[n] begin with the prefix's last text, or with BOS and this text. */
static bool begins_with_text(const struct tft_model *m, const int32_t *ids, size_t n,
                             const struct job_prefix *prefix)
{
    size_t at = n && ids[0] == tft_token_bos(m), text = prefix->n_text;
    return !text || (n - at > text &&
                     memcmp(ids + at, prefix->ids + prefix->n - text, text * sizeof *ids) == 0);
}

static enum tft_status add(struct job_system *c, const struct tft_quantize_system *given,
                           const struct job_prefix *prefix, uint32_t room)
{
    struct job *j = c->j;
    struct named_prefix *p = &c->prefix[c->n];
    int32_t **ids = &c->ids[c->n];
    size_t n;
    enum tft_status status = job_format_system(j, ids, &n, given->text);
    if (status != TFT_OK)
        return status;
    *p = (struct named_prefix){
        .name = given->name, .system = given->text, .tokens = *ids, .n = (uint32_t)n};
    c->n++;
    if (!begins_with_text(j->m, *ids, n, prefix))
        return job_misuse(j, "--intact-text and --intact-system exclude each other, unless "
                             "conversations with the system message begin with that text");
    if (n >= room)
        return tft_fail(j->err, TFT_ERR_ARG,
                        "%s: the system message \"%s\" has %zu tokens, but after the prefix the "
                        "context has room for %u: shorten the message",
                        j->m->source.name, p->name, n, room ? room - 1 : 0);
    return TFT_OK;
}

enum tft_status job_system_choose(struct job_system *c, struct job *j,
                                  const struct job_prefix *prefix)
{
    const struct tft_model *m = j->m;
    uint32_t most_prefix = job_prefix_most(prefix),
             room = most_prefix < m->n_ctx ? m->n_ctx - most_prefix : 0;
    size_t n = j->o->n_system;
    if (!n)
        return TFT_OK;
    c->j = j;
    c->type = job_prefix_type(j);
    enum tft_status status = job_format_need(j);
    if (status == TFT_OK)
        status = prefix_check_type(m, c->type, j->err);
    if (status != TFT_OK)
        return status;
    c->prefix = calloc(n, sizeof *c->prefix);
    c->ids = calloc(n, sizeof *c->ids);
    if (!c->prefix || !c->ids)
        return job_no_memory(j);
    for (size_t i = 0; i < n && status == TFT_OK; i++)
        status = add(c, &j->o->system[i], prefix, room);
    return status;
}

enum tft_status job_system_fit(const struct job_system *c)
{
    bool fit = true;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct named_prefix *p = &c->prefix[i];
        enum tft_status status = job_prefix_check_fit(c->j, p->tokens, p->n, &fit);
        if (status != TFT_OK)
            return status;
        if (!fit)
            return tft_fail(c->j->err, TFT_ERR_UNSUPPORTED,
                            "%s: no prefix for the system message \"%s\": keys or values exceed "
                            "f16, in which a file stores a prefix",
                            c->j->m->source.name, p->name);
    }
    return TFT_OK;
}

/* Removes given[n] from the start of a prefix, unless nothing else is there. */
static void drop(struct named_prefix *p, const int32_t *given, uint32_t n)
{
    if (p->n <= n || (n && memcmp(p->tokens, given, n * sizeof *given) != 0))
        return;
    p->tokens += n;
    p->n -= n;
}

/* Named rows follow the file's prefix, and a prompt is not fed the tokens that the prefix holds:
   BOS, and its text. */
static void drop_held(struct job_system *c)
{
    const struct quantize_opts *o = c->o;
    int32_t bos = tft_token_bos(c->j->m);
    bool given = false;
    for (uint32_t i = 0; i < o->n_prefix; i++)
        given |= o->prefix[i] == bos;
    for (uint32_t i = 0; i < c->n; i++) {
        drop(&c->prefix[i], &bos, given);
        drop(&c->prefix[i], o->prefix + o->n_prefix - o->n_prefix_text, o->n_prefix_text);
    }
}

enum tft_status job_system_begin(struct job_system *c, struct quantize_opts *o)
{
    if (!c->n)
        return TFT_OK;
    c->o = o;
    drop_held(c);
    if (!quantize_values_open(&c->values, c->j->m))
        return job_no_memory(c->j);
    o->values = &c->values;
    return TFT_OK;
}

/* ---- after quantize() */

static enum tft_status compute(struct job_system *c, const struct tft_model *made)
{
    struct job *j = c->j;
    bool stopped;
    enum tft_status status = job_begin(j, "computing system messages", 1);
    if (status != TFT_OK)
        return status;
    status = named_rows(j->m, made, c->o, c->prefix, c->n, &stopped, j->err);
    return job_end(j, status, stopped);
}

enum tft_status job_system_finish(struct job_system *c, struct job_made *made)
{
    if (!c->n)
        return TFT_OK;
    enum tft_status status = job_made_open(made);
    if (status == TFT_OK)
        status = compute(c, made->model);
    made->change.type = c->type;
    made->change.named = c->prefix;
    made->change.n_named = c->n;
    made->changed = true;
    return status;
}

void job_system_free(struct job_system *c)
{
    named_rows_free(c->prefix, c->n);
    for (uint32_t i = 0; i < c->n; i++)
        free(c->ids[i]);
    free(c->ids);
    free(c->prefix);
    quantize_values_close(&c->values);
}
