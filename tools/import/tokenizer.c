/*
 * A folder's tokenizer: tokenizer.json, or else tokenizer.model, and tokens that are in
 * tokenizer_config.json or added_tokens.json alone. Names of special tokens come from
 * tokenizer_config.json, or else special_tokens_map.json; the tokens at which generation ends from
 * generation_config.json and config.json. RWKV's list of tokens, without these two files, has all
 * that. The chat template is from chat_template.jinja, or else tokenizer_config.json, or else
 * chat_template.json.
 */
#include "tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "text/tokenizer.h"
#include "vocabulary.h"

/* The files of the folder that are open. */
struct files {
    json_t *tokenizer, *config, *special, *chat, *added;
    struct tft_map model, rwkv;
};

static const char rwkv_file[] = "rwkv_vocab_v20230424.txt";

static struct tft_str string_of(const json_t *s)
{
    return (struct tft_str){json_string_value(s), json_string_length(s)};
}

/* ---- reading */

static void read_json(struct import *im, const char *name, json_t **out)
{
    char *path = import_path(im->folder.path, name);
    if (!path)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    else if (!im->status)
        im->status = import_json_read(out, path, true, im->err);
    free(path);
}

/* Maps a file that may be absent; it then counts as empty. */
static void read_bytes(struct import *im, const char *name, struct tft_map *map)
{
    char *path = import_path(im->folder.path, name);
    int os = path ? tft_port_map(map, path) : ENOENT;
    if (!path)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    else if (os && os != ENOENT && im->status == TFT_OK)
        im->status = tft_fail_os(im->err, os, path, "cannot be read");
    if (os)
        *map = (struct tft_map){0};
    free(path);
}

static void read_tokens(struct import_vocabulary *v, struct files *f)
{
    struct import *im = v->im;
    char *json = import_path(im->folder.path, "tokenizer.json");
    char *model = import_path(im->folder.path, "tokenizer.model"),
         *rwkv = import_path(im->folder.path, rwkv_file);
    if (!json || !model || !rwkv) {
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    } else if (f->tokenizer) {
        v->path = json;
        vocabulary_read_json(v, f->tokenizer);
    } else if (f->model.size) {
        v->path = model;
        vocabulary_read_model(v, f->model.data, f->model.size);
    } else if (f->rwkv.size) {
        v->path = rwkv;
        vocabulary_read_rwkv(v, f->rwkv.data, f->rwkv.size);
    } else {
        import_fail(im, TFT_ERR_FORMAT, "%s: there is no tokenizer.json and no tokenizer.model",
                    im->folder.path);
    }
    if (v->charsmap && v->model && strcmp(v->model, "t5") != 0)
        VOCABULARY_UNSUPPORTED(v, "%s is not supported with BPE, but with Unigram",
                               "precompiled_charsmap, which normalises text,");
    if (v->merges_spaces && v->model && strcmp(v->model, "t5") != 0)
        VOCABULARY_UNSUPPORTED(v, "%s is not supported with BPE, but with Unigram",
                               "remove_extra_whitespaces, or merging spaces,");
    if (v->strips_late)
        VOCABULARY_UNSUPPORTED(v, "the normalizer Strip is not supported after %s",
                               "Prepend or Replace");
    v->path = im->folder.path;
    free(json);
    free(model);
    free(rwkv);
}

/* ---- added tokens of other files */

/* Whether a file names this text among the special tokens. */
static bool is_special(const struct files *f, struct tft_str text)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                       "additional_special_tokens"};
    const json_t *const from[] = {f->config, f->special};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const json_t *v = json_object_get(from[i], keys[k]);
            for (size_t j = 0; j < (json_is_array(v) ? json_array_size(v) : 1); j++) {
                const json_t *one = json_is_array(v) ? json_array_get(v, j) : v;
                struct tft_str name =
                    string_of(json_is_object(one) ? json_object_get(one, "content") : one);
                if (name.n == text.n && name.n && !memcmp(name.p, text.p, name.n))
                    return true;
            }
        }
    return false;
}

/* added_tokens_decoder of tokenizer_config.json, which has objects by id, or else
   added_tokens.json, which has ids by name. What tokenizer.json has counts first. */
static void read_config_tokens(struct import_vocabulary *v, const struct files *f)
{
    const char *key;
    json_t *value, *decoder = json_object_get(f->config, "added_tokens_decoder");
    char *end;
    uint64_t id;
    json_object_foreach(decoder, key, value)
    {
        id = strtoull(key, &end, 10);
        if (*end || end == key)
            import_fail(v->im, TFT_ERR_FORMAT,
                        "%s/tokenizer_config.json: \"%.40s\" in added_tokens_decoder is not an id",
                        v->path, key);
        else if (id < v->n && !(v->flags[id] & VOCABULARY_ADDED))
            vocabulary_add_added(v, id, value, json_is_true(json_object_get(value, "special")));
    }
    if (json_object_size(decoder))
        return;
    json_object_foreach(f->added, key, value)
    {
        struct tft_str text = {key, strlen(key)};
        int32_t type = is_special(f, text) ? TFT_TOKEN_CONTROL : TFT_TOKEN_USER;
        if (!import_json_whole(value, UINT32_MAX, &id))
            import_fail(v->im, TFT_ERR_FORMAT, "%s/added_tokens.json: \"%.40s\" has no id", v->path,
                        key);
        else if (id < v->n && !(v->flags[id] & VOCABULARY_ADDED) &&
                 v->type[id] != TFT_TOKEN_UNKNOWN &&
                 vocabulary_add(v, id, text, type, v->score[id]))
            v->flags[id] &= (unsigned char)~VOCABULARY_NORMALIZED;
    }
}

/* ---- special tokens */

/* The token that a file names under `key`: a text, or an object with the text as "content". */
static int64_t named(const struct import_vocabulary *v, const struct files *f, const char *key)
{
    const json_t *one = json_object_get(f->config, key);
    if (!one || json_is_null(one))
        one = json_object_get(f->special, key);
    if (json_is_object(one))
        one = json_object_get(one, "content");
    return json_is_string(one) ? vocabulary_find(v, string_of(one)) : -1;
}

/* The i-th id of a value that is an id or a list of ids; -1 if there is none. */
static int64_t id_at(const struct import_vocabulary *v, const json_t *ids, size_t i)
{
    uint64_t id;
    const json_t *one = json_is_array(ids) ? json_array_get(ids, i) : i ? NULL : ids;
    return import_json_whole(one, v->n - 1, &id) ? (int64_t)id : -1;
}

static void take(int64_t *id, int64_t other)
{
    if (other >= 0)
        *id = other;
}

static void end_at(struct import_vocabulary *v, int64_t id)
{
    if (id >= 0)
        v->flags[id] |= VOCABULARY_ENDS;
}

/* Generation ends at several tokens. Three of them have keys that other programs know. */
static void read_ends(struct import_vocabulary *v)
{
    const json_t *ids = json_object_get(v->im->folder.generation, "eos_token_id");
    if (!ids)
        ids = json_object_get(v->im->folder.config, "eos_token_id");
    if (v->eos < 0)
        v->eos = id_at(v, ids, 0);
    end_at(v, v->eos);
    size_t n = json_is_array(ids) ? json_array_size(ids) : 1;
    for (size_t i = 0; i < n; i++) {
        int64_t id = id_at(v, ids, i);
        end_at(v, id);
        if (id < 0 || id == v->eos || id == v->eot || id == v->eom)
            continue;
        if (v->eot < 0)
            v->eot = id;
        else if (v->eom < 0)
            v->eom = id;
    }
}

static void read_special(struct import_vocabulary *v, const struct files *f)
{
    const json_t *add_bos = json_object_get(f->config, "add_bos_token");
    const json_t *add_eos = json_object_get(f->config, "add_eos_token");
    take(&v->bos, named(v, f, "bos_token"));
    take(&v->eos, named(v, f, "eos_token"));
    take(&v->unknown, named(v, f, "unk_token"));
    take(&v->pad, named(v, f, "pad_token"));
    take(&v->cls, named(v, f, "cls_token"));
    take(&v->sep, named(v, f, "sep_token"));
    take(&v->mask, named(v, f, "mask_token"));
    if (v->last >= 0 && v->last != v->eos) { /* generation ends at both */
        end_at(v, v->eos);
        v->eot = v->eos;
        v->eos = v->last;
    }
    if (v->bos < 0)
        v->bos = id_at(v, json_object_get(v->im->folder.config, "bos_token_id"), 0);
    if (json_is_boolean(add_bos))
        v->add_bos = json_is_true(add_bos);
    if (json_is_boolean(add_eos))
        v->add_eos = json_is_true(add_eos);
    read_ends(v);
}

/* ---- writing */

/* Gives names to the rows without a token; false if memory is short. */
static bool fill_gaps(struct import_vocabulary *v, char **names)
{
    enum { ROOM = 32 };
    size_t gaps = 0;
    for (size_t i = 0; i < v->n; i++)
        gaps += !v->token[i].p;
    char *p = *names = malloc(gaps * ROOM + 1);
    if (!p)
        return false;
    for (size_t i = 0; i < v->n; i++) {
        if (v->token[i].p)
            continue;
        int n = snprintf(p, ROOM, "[PAD%zu]", i);
        v->token[i] = (struct tft_str){p, (size_t)n};
        v->type[i] = TFT_TOKEN_UNUSED;
        p += n;
    }
    return true;
}

static bool contains(struct tft_str s, const char *mark)
{
    const size_t n = strlen(mark);
    for (size_t i = 0; i + n <= s.n; i++)
        if (!memcmp(s.p + i, mark, n))
            return true;
    return false;
}

/* Copies s[n] with a byte for each mark; `to` may be s. Returns the length. */
static size_t replace(char *to, const char *s, size_t n, const char *mark, char with)
{
    const size_t m = strlen(mark);
    char *at = to;
    for (size_t i = 0; i < n;) {
        bool found = n - i >= m && !memcmp(s + i, mark, m);
        *at++ = found ? with : s[i];
        i += found ? m : 1;
    }
    return (size_t)(at - to);
}

/* Replaces a mark in the names of all tokens, or of those of one type. The new names are in
   *memory. */
static void rename_tokens(struct import_vocabulary *v, int32_t type, const char *mark, char with,
                          char **memory)
{
    size_t bytes = 0;
    for (size_t i = 0; i < v->n; i++)
        if ((!type || v->type[i] == type) && contains(v->token[i], mark))
            bytes += v->token[i].n;
    char *p = *memory = bytes ? malloc(bytes) : NULL;
    if (bytes && !p)
        import_fail(v->im, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    for (size_t i = 0; p && i < v->n; i++)
        if ((!type || v->type[i] == type) && contains(v->token[i], mark)) {
            v->token[i] = (struct tft_str){p, replace(p, v->token[i].p, v->token[i].n, mark, with)};
            p += v->token[i].n;
        }
}

/* In GGUF files WordPiece's pieces are marked where a word begins, with U+2581, and no longer where
   it goes on, with "##". */
static void mark_words(struct import_vocabulary *v)
{
    static const char low[] = "\xe2\x96\x81";
    size_t bytes = 0;
    for (size_t i = 0; i < v->n; i++)
        bytes += v->token[i].n + 3;
    char *p = v->symbols = malloc(bytes + 1);
    if (!p) {
        import_fail(v->im, TFT_ERR_NOMEM, "%s: out of memory", v->path);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        struct tft_str s = v->token[i];
        if (!s.p || v->type[i] != TFT_TOKEN_NORMAL)
            continue;
        bool goes_on = s.n > 2 && memcmp(s.p, "##", 2) == 0;
        memcpy(p, low, 3);
        memcpy(p + 3, s.p, s.n);
        v->token[i] = (struct tft_str){p + (goes_on ? 5 : 0), goes_on ? s.n - 2 : s.n + 3};
        p += s.n + 3;
        if (v->token[i].n > VOCABULARY_MOST_NAME)
            import_fail(v->im, TFT_ERR_UNSUPPORTED,
                        "%s: token %zu has %zu bytes; at most %d are supported", v->path, i, s.n,
                        VOCABULARY_MOST_NAME - 3);
    }
}

/* NULs get back into names and merges; SentencePiece's symbols are texts with spaces. */
static void finish_names(struct import_vocabulary *v)
{
    rename_tokens(v, 0, IMPORT_JSON_NUL, 0, &v->nul);
    for (size_t i = 0; i < v->n_merge; i++)
        v->merge[i].n = replace(v->text + (v->merge[i].p - v->text), v->merge[i].p, v->merge[i].n,
                                IMPORT_JSON_NUL, 0);
    if (v->of_pieces)
        rename_tokens(v, TFT_TOKEN_USER, "\xe2\x96\x81", ' ', &v->symbols);
    else if (v->of_bert)
        mark_words(v);
}

static void put_id(struct tft_gguf_writer *w, const char *key, int64_t id)
{
    if (id >= 0)
        tft_gguf_put_u32(w, key, (uint32_t)id);
}

/* The ids of tokens with a flag. */
static void put_flagged(struct import_vocabulary *v, const char *key, unsigned flag, int32_t *ids)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (v->flags[i] & flag)
            ids[n++] = (int32_t)i;
    if (n)
        tft_gguf_put_array(v->im->gguf, key, TFT_VALUE_I32, ids, n);
}

/* The ids that generation_config.json suppresses. */
static void put_suppressed(struct import_vocabulary *v)
{
    const json_t *list = json_object_get(v->im->folder.generation, "suppress_tokens");
    size_t n = json_array_size(list);
    int32_t *ids = n ? malloc(n * sizeof *ids) : NULL;
    if (list && !json_is_null(list) && !json_is_array(list))
        import_fail(v->im, TFT_ERR_FORMAT,
                    "%s/generation_config.json: suppress_tokens is not a list", v->path);
    if (n && !ids)
        import_fail(v->im, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    for (size_t i = 0; i < n && ids && !v->im->status; i++) {
        ids[i] = (int32_t)id_at(v, list, i);
        if (ids[i] < 0)
            import_fail(v->im, TFT_ERR_FORMAT,
                        "%s/generation_config.json: element %zu of suppress_tokens is not a token",
                        v->path, i);
    }
    if (ids && !v->im->status)
        tft_gguf_put_array(v->im->gguf, TFT_KEY_SUPPRESS, TFT_VALUE_I32, ids, n);
    free(ids);
}

static void put_vocabulary(struct import_vocabulary *v)
{
    struct tft_gguf_writer *w = v->im->gguf;
    tft_gguf_put_str(w, "tokenizer.ggml.model", (struct tft_str){v->model, strlen(v->model)});
    if (v->pre)
        tft_gguf_put_str(w, "tokenizer.ggml.pre", (struct tft_str){v->pre, strlen(v->pre)});
    tft_gguf_put_strs(w, "tokenizer.ggml.tokens", v->token, v->n);
    if (v->scored)
        tft_gguf_put_array(w, "tokenizer.ggml.scores", TFT_VALUE_F32, v->score, v->n);
    tft_gguf_put_array(w, "tokenizer.ggml.token_type", TFT_VALUE_I32, v->type, v->n);
    if (!v->scored && !v->of_bert && strcmp(v->model, "rwkv") != 0)
        tft_gguf_put_strs(w, "tokenizer.ggml.merges", v->merge, v->n_merge);
    if (v->of_bert)
        tft_gguf_put_bool(w, "tokenizer.ggml.normalizer.lowercase", v->lowercase);
    if (v->of_bert && v->strip_accents >= 0)
        tft_gguf_put_bool(w, "tokenizer.ggml.normalizer.strip_accents", v->strip_accents);
    if (v->charsmap)
        tft_gguf_put_array(w, "tokenizer.ggml.precompiled_charsmap", TFT_VALUE_U8, v->charsmap,
                           v->n_charsmap);
    if (v->scored) {
        tft_gguf_put_bool(w, "tokenizer.ggml.add_space_prefix", v->space_first);
        tft_gguf_put_bool(w, "tokenizer.ggml.remove_extra_whitespaces", v->merges_spaces);
        if (v->space_first && v->space_at_start)
            tft_gguf_put_bool(w, TFT_KEY_SPACE_AT_START, true);
        if (v->space_first && v->space_if_none && !v->merges_spaces)
            tft_gguf_put_bool(w, TFT_KEY_SPACE_IF_NONE, true);
    }
}

static void put_special(struct import_vocabulary *v)
{
    struct tft_gguf_writer *w = v->im->gguf;
    put_id(w, "tokenizer.ggml.bos_token_id", v->bos);
    put_id(w, "tokenizer.ggml.eos_token_id", v->eos);
    put_id(w, "tokenizer.ggml.eot_token_id", v->eot);
    put_id(w, "tokenizer.ggml.eom_token_id", v->eom);
    put_id(w, "tokenizer.ggml.unknown_token_id", v->unknown);
    put_id(w, "tokenizer.ggml.padding_token_id", v->pad);
    put_id(w, "tokenizer.ggml.cls_token_id", v->cls >= 0 || !v->of_bert ? v->cls : v->bos);
    put_id(w, "tokenizer.ggml.seperator_token_id", v->sep >= 0 || !v->of_bert ? v->sep : v->last);
    put_id(w, "tokenizer.ggml.mask_token_id", v->mask);
    bool by_default = !strcmp(v->model, "llama") || v->of_bert;
    if (v->add_bos >= 0 || !by_default)
        tft_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", v->add_bos > 0 && v->bos >= 0);
    if (v->add_eos >= 0)
        tft_gguf_put_bool(w, "tokenizer.ggml.add_eos_token", v->add_eos > 0 && v->eos >= 0);
    if (v->add_sep >= 0)
        tft_gguf_put_bool(w, "tokenizer.ggml.add_sep_token", v->add_sep);
    if (v->nfc)
        tft_gguf_put_bool(w, TFT_KEY_NFC, true);
    if (v->strip_left)
        tft_gguf_put_bool(w, TFT_KEY_STRIP_LEFT, true);
    if (v->strip_right)
        tft_gguf_put_bool(w, TFT_KEY_STRIP_RIGHT, true);
    int32_t *ids = malloc(v->n * sizeof *ids);
    if (ids) {
        put_flagged(v, TFT_KEY_LSTRIP, VOCABULARY_LSTRIP, ids);
        put_flagged(v, TFT_KEY_RSTRIP, VOCABULARY_RSTRIP, ids);
        put_flagged(v, TFT_KEY_ENDS, VOCABULARY_ENDS, ids);
        put_flagged(v, TFT_KEY_NORMALIZED, VOCABULARY_NORMALIZED, ids);
        put_flagged(v, TFT_KEY_NORMALIZED_SPACED, VOCABULARY_NORMALIZED_SPACED, ids);
    } else {
        import_fail(v->im, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    }
    free(ids);
}

/* ---- templates */

static void put_named_template(struct import_vocabulary *v, struct tft_str name,
                               struct tft_str text)
{
    char key[96];
    snprintf(key, sizeof key, "tokenizer.chat_template.%.*s", TFT_STR_ARG(name));
    tft_gguf_put_str(v->im->gguf, key, text);
}

/* The text of the template of a list of {name, template} that is named "default". The others, such
   as "tool_use", are put under their names, as llama.cpp's converter does. */
static struct tft_str put_list(struct import_vocabulary *v, const json_t *list)
{
    struct tft_str text = {0};
    size_t n = json_array_size(list), named = 0;
    struct tft_str *names = malloc((n + 1) * sizeof *names);
    if (!names)
        import_fail(v->im, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    for (size_t i = 0; names && i < n; i++) {
        const json_t *one = json_array_get(list, i);
        struct tft_str name = string_of(json_object_get(one, "name")),
                       template = string_of(json_object_get(one, "template"));
        if (!name.n || !template.n)
            import_fail(v->im, TFT_ERR_FORMAT, "%s: chat template %zu has no name or no text",
                        v->path, i);
        else if (tft_str_is(name, "default"))
            text = template;
        else
            put_named_template(v, names[named++] = name, template);
    }
    if (named)
        tft_gguf_put_strs(v->im->gguf, "tokenizer.chat_templates", names, named);
    free(names);
    return text;
}

/* A template is a text, or a list. As in transformers, chat_template.jinja counts first; a
   processor of images has it in chat_template.json. */
static void put_template(struct import_vocabulary *v, const struct files *f, struct tft_map jinja)
{
    struct tft_str text = {(const char *)jinja.data, jinja.size};
    const json_t *chat = json_object_get(f->config, "chat_template");
    if (!chat || json_is_null(chat))
        chat = json_object_get(f->chat, "chat_template");
    struct tft_str of_json = json_is_array(chat) ? put_list(v, chat) : string_of(chat);
    if (!text.n)
        text = of_json;
    if (text.n)
        tft_gguf_put_str(v->im->gguf, "tokenizer.chat_template", text);
}

/* ---- all of it */

static void convert(struct import_vocabulary *v, struct files *f)
{
    struct tft_map jinja;
    char *names = NULL;
    read_tokens(v, f);
    if (v->im->status)
        return;
    bool rwkv = strcmp(v->model, "rwkv") == 0; /* its list says all */
    if (!rwkv) {
        read_config_tokens(v, f);
        read_special(v, f);
    }
    finish_names(v);
    read_bytes(v->im, "chat_template.jinja", &jinja);
    if (!fill_gaps(v, &names))
        import_fail(v->im, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    if (!v->im->status) {
        put_vocabulary(v);
        put_special(v);
        put_suppressed(v);
        put_template(v, f, jinja);
    }
    free(names);
    if (jinja.size)
        tft_port_unmap(&jinja);
}

void import_tokenizer(struct import *im)
{
    struct files f = {0};
    struct import_vocabulary v;
    bool ok = vocabulary_start(&v, im, (size_t)im->n_vocab);
    read_json(im, "tokenizer.json", &f.tokenizer);
    read_json(im, "tokenizer_config.json", &f.config);
    read_json(im, "special_tokens_map.json", &f.special);
    read_json(im, "chat_template.json", &f.chat);
    read_json(im, "added_tokens.json", &f.added);
    read_bytes(im, "tokenizer.model", &f.model);
    read_bytes(im, rwkv_file, &f.rwkv);
    if (ok && !im->status)
        convert(&v, &f);
    json_decref(f.tokenizer);
    json_decref(f.config);
    json_decref(f.special);
    json_decref(f.chat);
    json_decref(f.added);
    if (f.model.size)
        tft_port_unmap(&f.model);
    if (f.rwkv.size)
        tft_port_unmap(&f.rwkv);
    vocabulary_end(&v);
}
