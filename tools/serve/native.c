/*
 * llama.cpp's own API: tokens, the template and the model; completion.c has /completion, metrics.c
 * the counters.
 */
#define _POSIX_C_SOURCE 200809L
#include "native.h"

#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "request.h"

enum { MOST_TEXT = 1 << 20 }; /* bytes: more would delay other clients */

/* ---- tokens */

/* A token as text, or, if it is not valid text by itself, as a list of bytes. */
static json_t *piece(const struct tft_model *m, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(m, id, true, &n);
    json_t *text = json_stringn(p ? p : "", n);
    if (text)
        return text;
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)p[i]));
    return bytes;
}

/* Writes text at once: a tree of JSON takes 500 bytes for each token. */
static bool write_tokens(struct cli_text *t, const struct tft_model *m, const int32_t *ids,
                         size_t n, bool pieces)
{
    bool good = cli_text_append(t, "{\"tokens\":[", 11);
    for (size_t i = 0; i < n && good; i++) {
        json_t *one = pieces ? json_pack("{s:i, s:o}", "id", ids[i], "piece", piece(m, ids[i]))
                             : json_integer(ids[i]);
        char *text = one ? json_dumps(one, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        good = text && (!i || cli_text_append(t, ",", 1)) && cli_text_append(t, text, strlen(text));
        free(text);
        json_decref(one);
    }
    return good && cli_text_append(t, "]}", 2);
}

void native_tokenize(struct exchange *x)
{
    struct fields f = {.body = exchange_json(x)};
    if (!f.body)
        return;
    parameters_check(&f, f.body, API_TOKENS);
    const struct tft_model *m = x->served->m;
    const char *text = field_text(&f, "content", "");
    bool bos = field_flag(&f, "add_special", false);
    bool pieces = field_flag(&f, "with_pieces", false);
    unsigned flags =
        (bos ? TFT_ADD_BOS : 0) | (field_flag(&f, "parse_special", true) ? TFT_PARSE_SPECIAL : 0);
    size_t len = json_string_length(field(&f, "content")), most = cli_most_tokens(len), n;
    struct cli_text list = {0};
    if (!field(&f, "content"))
        fields_fail(&f, "content is missing");
    if (len > MOST_TEXT)
        fields_fail(&f, "content has more than %d bytes", MOST_TEXT);
    int32_t *ids = f.failed ? NULL : malloc(most * sizeof *ids);
    aside_begin();
    bool good = ids && tft_tokenize(m, text, len, flags, ids, most, &n) == TFT_OK,
         written = good && write_tokens(&list, m, ids, n, pieces);
    aside_end();
    if (f.failed)
        request_fail(x, &f);
    else if (!good)
        reply_error(x, 500, "server_error", "the text cannot be tokenized");
    else if (!written)
        reply_error(x, 500, "server_error", "out of memory");
    else
        reply_text(x, 200, "application/json; charset=utf-8", list.p, list.n);
    free(list.p);
    free(ids);
    json_decref(f.body);
}

void native_detokenize(struct exchange *x)
{
    struct fields f = {.body = exchange_json(x)};
    struct tft_text state = {.started = true};
    struct cli_text all = {0};
    char part[TFT_TEXT_MAX];
    if (!f.body)
        return;
    parameters_check(&f, f.body, API_TOKENS);
    const json_t *list = field(&f, "tokens");
    if (!json_is_array(list))
        fields_fail(&f, "tokens must be a list of numbers");
    for (size_t i = 0; i <= json_array_size(list) && !f.failed; i++) {
        const json_t *id = json_array_get(list, i);
        int64_t whole = -1;
        bool good = !id || (json_whole(id, &whole) && whole >= 0 && whole <= INT32_MAX);
        int32_t token = (int32_t)whole; /* after the last: -1 */
        size_t len;
        if (!good || (id && !tft_token_text(x->served->m, token, true, &len)))
            fields_fail(&f, "tokens[%zu] is not a token of the model", i);
        else if (!cli_text_append(&all, part, tft_text_push(&state, x->served->m, token, part)))
            fields_fail(&f, "out of memory");
    }
    if (f.failed)
        request_fail(x, &f);
    else
        reply_json(x, 200, json_pack("{s:o}", "content", json_bytes(all.n ? all.p : "", all.n)));
    free(all.p);
    json_decref(f.body);
}

/* ---- the template */

/* The text of the same request to /v1/chat/completions. */
void native_apply_template(struct exchange *x)
{
    struct request r;
    struct tft_chat_text text = {0};
    if (!request_begin(&r, x, API_CHAT))
        return;
    params_read(&r.p, &r.f, x->served->m);
    request_tools(&r, x->served);
    if (!r.f.failed)
        prompt_render(&text, &r.prompt, x, &r.f, r.tools, r.p.most);
    if (r.f.failed)
        request_fail(x, &r.f);
    else
        reply_json(x, 200, json_pack("{s:o}", "prompt", json_bytes(text.p, text.n)));
    tft_chat_text_free(&text);
    tft_chat_tools_close(r.tools);
    request_end(&r);
}

/* ---- the model */

static json_t *token_name(const struct tft_model *m, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(m, id, true, &n);
    return json_bytes(p ? p : "", n);
}

void native_props(struct exchange *x)
{
    const struct served *s = x->served;
    const struct cli_sampling_options *z = &cli_sampling_options;
    const char *jinja = s->template ? template_source(s->template) : NULL,
               *tools = s->tool_template ? template_source(s->tool_template) : jinja;
    json_t *params =
        json_pack("{s:f, s:i, s:f, s:f, s:f, s:i, s:i, s:i}", "temperature", (double)z->temperature,
                  "top_k", (int)z->top_k, "top_p", (double)z->top_p, "min_p", (double)z->min_p,
                  "repeat_penalty", z->repeat_penalty > 0 ? (double)z->repeat_penalty : 1,
                  "repeat_last_n", (int)z->repeat_last, "n_predict", (int)x->server->o.n_most,
                  "max_tokens", (int)x->server->o.n_most);
    json_t *steps = json_pack(
        "{s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:f, s:I, s:b}",
        "dry_multiplier", (double)z->dry_multiplier, "dry_base", (double)z->dry_base,
        "dry_allowed_length", (json_int_t)z->dry_allowed_length, "dry_penalty_last_n",
        (json_int_t)z->dry_last, "xtc_probability", (double)z->xtc_probability, "xtc_threshold",
        (double)z->xtc_threshold, "typical_p", (double)z->typical_p, "top_n_sigma",
        (double)z->top_n_sigma, "mirostat", z->mirostat ? 2 : 0, "mirostat_tau",
        (double)z->mirostat_tau, "mirostat_eta", (double)z->mirostat_eta, "dynatemp_range",
        (double)z->dynatemp_range, "dynatemp_exponent", (double)z->dynatemp_exponent, "min_tokens",
        (json_int_t)z->min_tokens, "ignore_eos", z->ignore_eos);
    json_object_update(params, steps);
    json_decref(steps);
    json_t *each =
        json_pack("{s:I, s:o}", "n_ctx", (json_int_t)engine_capacity(s->engine), "params", params);
    json_t *all = json_pack("{s:o, s:i, s:s, s:s, s:o, s:o, s:o}", "default_generation_settings",
                            each, "total_slots", (int)served_slots(s, x->server->o.n_slots),
                            "model_alias", s->id, "build_info", tft_version(), "chat_template",
                            json_bytes(jinja ? jinja : "", jinja ? strlen(jinja) : 0), "bos_token",
                            token_name(s->m, tft_token_bos(s->m)), "eos_token",
                            token_name(s->m, tft_token_eos(s->m)));
    if (tools != jinja)
        json_object_set_new(all, "chat_template_tool_use", json_bytes(tools, strlen(tools)));
    reply_json(x, 200, all);
}
