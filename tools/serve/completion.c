/* llama.cpp's /completion, which continues a text, and /infill, which fills a gap in one. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "gap.h"
#include "native.h"
#include "talk.h"

static double rate(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

static json_t *timings(const struct talk *t)
{
    const struct job *j = t->job;
    double cached = (double)(j->n_cached + t->n_held), prompt = (double)t->n_prompt - cached;
    double n = (double)j->n_tokens;
    return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:f}", "cache_n", (json_int_t)cached,
                     "prompt_n", (json_int_t)prompt, "prompt_ms", j->prompt_seconds * 1e3,
                     "prompt_per_second", rate(prompt, j->prompt_seconds), "predicted_n",
                     (json_int_t)n, "predicted_ms", j->seconds * 1e3, "predicted_per_second",
                     rate(n, j->seconds));
}

static json_t *part_of(const char *p, size_t n, bool stop)
{
    return json_pack("{s:i, s:o, s:b}", "index", 0, "content", json_bytes(n ? p : "", n), "stop",
                     stop);
}

static void part(struct talk *t, const struct item *item)
{
    if (item->kind == ITEM_TEXT) {
        json_t *one = part_of(item->p, item->n, false);
        json_object_set_new(one, "tokens", json_copy(t->tokens));
        json_array_clear(t->tokens);
        reply_event(t->x, one);
    }
}

/* The reason for the end of the answer, and its costs. */
static json_t *last(const struct talk *t, const char *p, size_t n)
{
    const struct job *j = t->job;
    const char *stopped = j->answer.stopped;
    json_t *all = part_of(p, n, true);
    json_t *more = json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:b, s:O, s:o}", "model",
                             t->served->id, "tokens_predicted", (json_int_t)j->n_tokens,
                             "tokens_evaluated", (json_int_t)t->n_prompt, "tokens_cached",
                             (json_int_t)(j->n_cached + t->n_held), "stop_type",
                             strcmp(j->finish, "length") == 0 ? "limit"
                             : stopped                        ? "word"
                                                              : "eos",
                             "stopping_word", stopped ? stopped : "", "truncated", false, "tokens",
                             t->tokens, "timings", timings(t));
    if (j->looped)
        json_object_set_new(more, "tuffet_stop", json_string("loop"));
    json_object_update(all, more);
    json_decref(more);
    return all;
}

static void end(struct talk *t)
{
    if (t->stream) {
        reply_event(t->x, last(t, "", 0));
        reply_end(t->x);
    } else {
        reply_json(t->x, 200, last(t, t->text.p, t->text.n));
    }
}

static const struct talk_kind completion = {.part = part, .end = end};

/* Makes the job of a request with its prompt. */
static void begin(struct exchange *x, struct request *r)
{
    const char *stream = field_flag(&r->f, "stream", false) ? "text/event-stream" : NULL;
    params_read(&r->p, &r->f, x->served->m);
    r->p.logprobs = field_flag(&r->f, "return_tokens", false) ? 0 : -1;
    talk_begin(x, r, true, stream, &completion, NULL);
}

void native_completion(struct exchange *x)
{
    struct request r;
    if (!request_begin(&r, x, API_NATIVE))
        return;
    const json_t *prompt = field(&r.f, "prompt");
    if (json_is_string(prompt))
        prompt_text(&r.prompt, x->served, &r.f, json_string_value(prompt),
                    json_string_length(prompt), true);
    else if (json_array_size(prompt))
        prompt_tokens(&r.prompt, x->served, &r.f, prompt);
    else
        fields_fail(&r.f, "prompt must be a string, or a list of tokens");
    begin(x, &r);
    request_end(&r);
}

static void add_member(struct cli_text *t, struct fields *f, const char *name)
{
    const char *text = field_text(f, name, "");
    if (f->failed) /* then the text is not the member's */
        return;
    if (!cli_text_append(t, text, json_string_length(field(f, name))))
        fields_fail(f, "out of memory");
}

/* `prompt` is the end of the text before the gap. */
void native_infill(struct exchange *x)
{
    struct request r;
    struct cli_text before = {0}, after = {0};
    if (!request_begin(&r, x, API_INFILL))
        return;
    add_member(&before, &r.f, "input_prefix");
    add_member(&before, &r.f, "prompt");
    add_member(&after, &r.f, "input_suffix");
    if (!r.f.failed)
        prompt_gap(&r.prompt, x->served, &r.f, &before, &after);
    free(before.p);
    free(after.p);
    begin(x, &r);
    request_end(&r);
}
