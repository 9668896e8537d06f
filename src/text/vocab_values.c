#include "vocab_build.h"

#include "keys.h"
#include "unigram.h"

enum tft_status tft_build_array(struct tft_build *b, const char *key, enum tft_value_type type,
                                bool required, const struct tft_value **out)
{
    const struct tft_value *v = *out = tft_source_value(b->s, key);
    if (!v)
        return required ? tft_fail(b->err, TFT_ERR_FORMAT, "%s: %s is missing", b->s->name, key)
                        : TFT_OK;
    if (!v->is_array || v->type != type)
        return TFT_BAD(b, v, "%s is of type %s%s, not an array of %s", key,
                       v->is_array ? "array of " : "", tft_value_type_name(v->type),
                       tft_value_type_name(type));
    if (v->n > TFT_BUILD_MAX)
        return TFT_BAD(b, v, "%s has %llu elements; at most %d are supported", key,
                       (unsigned long long)v->n, TFT_BUILD_MAX);
    return TFT_OK;
}

/* An array with an element for each token. */
static enum tft_status read_per_token(struct tft_build *b, const char *key,
                                      enum tft_value_type type, bool required,
                                      const struct tft_value **out)
{
    enum tft_status status = tft_build_array(b, key, type, required, out);
    if (!status && *out && (*out)->n != b->t->n_token)
        return TFT_BAD(b, *out, "%s has %llu elements for %u tokens", key,
                       (unsigned long long)(*out)->n, b->t->n_token);
    return status;
}

static enum tft_status read_string(struct tft_build *b, const char *key, struct tft_str *out)
{
    const struct tft_value *v = tft_source_value(b->s, key);
    if (v && !tft_value_str(v, out))
        return TFT_BAD(b, v, "%s is not a string", key);
    return TFT_OK;
}

enum tft_status tft_build_bool(struct tft_build *b, const char *key, bool *out)
{
    uint64_t n;
    const struct tft_value *v = tft_source_value(b->s, key);
    if (!v)
        return TFT_OK;
    if (v->is_array || !tft_value_uint(v, 0, &n) || n > 1)
        return TFT_BAD(b, v, "%s is not a bool", key);
    *out = n;
    return TFT_OK;
}

static enum tft_status read_id(struct tft_build *b, const char *key, int32_t *out)
{
    uint64_t n;
    const struct tft_value *v = tft_source_value(b->s, key);
    *out = -1;
    if (!v)
        return TFT_OK;
    if (v->is_array || !tft_value_uint(v, 0, &n))
        return TFT_BAD(b, v, "%s is not a token id", key);
    if (n >= b->t->n_token)
        return TFT_BAD(b, v, "%s is %llu, but there are only %u tokens", key, (unsigned long long)n,
                       b->t->n_token);
    *out = (int32_t)n;
    return TFT_OK;
}

static enum tft_status unsupported(struct tft_build *b, const char *key, struct tft_str name,
                                   const char *known)
{
    return tft_fail_at(b->err, TFT_ERR_UNSUPPORTED, b->s->name, tft_source_value(b->s, key)->offset,
                       "%s \"%.*s\" is not supported, but %s", key, TFT_STR_ARG(name), known);
}

static enum tft_status read_model(struct tft_build *b)
{
    struct tft_str name = {0}, pre = {"default", 7};
    enum tft_status status = read_string(b, "tokenizer.ggml.model", &name);
    if (!status)
        status = read_string(b, "tokenizer.ggml.pre", &pre);
    if (status)
        return status;
    if (!name.p)
        return tft_fail(b->err, TFT_ERR_FORMAT, "%s: tokenizer.ggml.model is missing", b->s->name);
    if (tft_str_is(name, "llama")) {
        b->t->kind = TFT_VOCAB_SPM;
        b->t->add_bos = b->t->space_first = b->t->by_character = true;
        return TFT_OK;
    }
    if (tft_str_is(name, "bert")) { /* tokenizer.ggml.pre means nothing */
        b->t->kind = TFT_VOCAB_WORDPIECE;
        b->t->space_first = true;
        return TFT_OK;
    }
    if (tft_str_is(name, "t5")) {
        b->t->kind = TFT_VOCAB_UNIGRAM;
        b->t->by_character = true;
        return TFT_OK;
    }
    if (tft_str_is(name, "rwkv")) {
        b->t->kind = TFT_VOCAB_LONGEST;
        return TFT_OK;
    }
    b->t->kind = TFT_VOCAB_BPE;
    if (tft_str_is(name, "gemma4"))
        pre = (struct tft_str){"gemma4", 6};
    else if (!tft_str_is(name, "gpt2"))
        return unsupported(b, "tokenizer.ggml.model", name, "llama gpt2 gemma4 t5 rwkv bert");
    if (!tft_pretokenize_find(pre, &b->t->rules))
        return unsupported(b, "tokenizer.ggml.pre", pre, tft_pretokenize_known);
    b->t->add_bos = b->t->rules.add_bos;
    b->t->add_sep = b->t->rules.add_sep;
    b->t->by_character = b->t->rules.characters;
    return TFT_OK;
}

/* An array of bytes, signed or not. */
static enum tft_status read_charsmap(struct tft_build *b)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const struct tft_value *v = tft_source_value(b->s, key);
    struct tft_charsmap map;
    if (!v)
        return TFT_OK;
    if (!v->is_array || (v->type != TFT_VALUE_U8 && v->type != TFT_VALUE_I8))
        return TFT_BAD(b, v, "%s is not an array of bytes", key);
    if (v->n && (v->n > TFT_BUILD_MAX || !tft_charsmap_read(&map, v->data, (size_t)v->n)))
        return TFT_BAD(b, v, "%s is damaged", key);
    b->charsmap = v->n ? v : NULL;
    return TFT_OK;
}

/* Tokens that are found after the space before the text is put, which SentencePiece's BPE alone
   puts. */
static enum tft_status read_late(struct tft_build *b)
{
    static const char *const keys[] = {TFT_KEY_NORMALIZED, TFT_KEY_NORMALIZED_SPACED};
    for (int i = 0; i < 2; i++) {
        enum tft_status status = tft_build_array(b, keys[i], TFT_VALUE_I32, false, &b->late[i]);
        if (status)
            return status;
        if (b->late[i] && b->t->kind != TFT_VOCAB_SPM)
            return TFT_BAD(b, b->late[i], "%s needs tokenizer.ggml.model to be llama", keys[i]);
        b->n_late += b->late[i] ? (size_t)b->late[i]->n : 0;
    }
    return TFT_OK;
}

/* SentencePiece's vocabularies. */
static bool has_scores(const struct tft_tokenizer *t)
{
    return t->kind == TFT_VOCAB_SPM || t->kind == TFT_VOCAB_UNIGRAM;
}

static enum tft_status read_arrays(struct tft_build *b)
{
    enum tft_status status =
        tft_build_array(b, "tokenizer.ggml.tokens", TFT_VALUE_STRING, true, &b->tokens);
    if (status)
        return status;
    if (!b->tokens->n)
        return TFT_BAD(b, b->tokens, "tokenizer.ggml.tokens is empty");
    b->t->n_token = (uint32_t)b->tokens->n;
    status = read_per_token(b, "tokenizer.ggml.token_type", TFT_VALUE_I32, false, &b->types);
    if (!status)
        status = tft_build_array(b, TFT_KEY_SUPPRESS, TFT_VALUE_I32, false, &b->suppressed);
    if (!status)
        status = tft_build_array(b, TFT_KEY_ENDS, TFT_VALUE_I32, false, &b->ends);
    if (!status)
        status = read_late(b);
    if (!status && b->t->kind == TFT_VOCAB_UNIGRAM)
        status = read_charsmap(b);
    if (!status && has_scores(b->t))
        return read_per_token(b, "tokenizer.ggml.scores", TFT_VALUE_F32, true, &b->scores);
    if (status || b->t->kind != TFT_VOCAB_BPE)
        return status;
    return tft_build_array(b, "tokenizer.ggml.merges", TFT_VALUE_STRING, true, &b->merges);
}

/* A token that WordPiece needs: by its key, or else by BERT's id. */
static enum tft_status default_id(struct tft_build *b, const char *key, uint32_t id, int32_t *out)
{
    if (*out >= 0)
        return TFT_OK;
    if (id >= b->t->n_token)
        return TFT_BAD(b, b->tokens, "%s is missing, and there is no token %u", key, id);
    *out = (int32_t)id;
    return TFT_OK;
}

/* The ends of texts and the separator of a pair. "seperator" is the key's spelling. */
static enum tft_status read_ends(struct tft_build *b)
{
    static const char sep[] = "tokenizer.ggml.seperator_token_id";
    struct tft_tokenizer *t = b->t;
    int32_t cls = -1;
    enum tft_status status = read_id(b, "tokenizer.ggml.cls_token_id", &cls);
    if (!status)
        status = read_id(b, sep, &t->sep);
    if (!status && t->kind == TFT_VOCAB_WORDPIECE) {
        t->bos = cls >= 0 ? cls : t->bos;
        status = default_id(b, "tokenizer.ggml.cls_token_id", 101, &t->bos);
        if (!status)
            status = default_id(b, sep, 102, &t->sep);
        if (!status)
            status = default_id(b, "tokenizer.ggml.unknown_token_id", 100, &t->unknown);
        t->eos = t->sep;
        return status;
    }
    t->bos = t->bos < 0 ? cls : t->bos;
    t->eos = t->eos < 0 ? t->sep : t->eos;
    t->sep = t->sep < 0 ? t->eos : t->sep;
    return status;
}

static enum tft_status read_special_ids(struct tft_build *b)
{
    static const char *const fim[] = {"tokenizer.ggml.fim_pad_token_id",
                                      "tokenizer.ggml.fim_rep_token_id",
                                      "tokenizer.ggml.fim_sep_token_id"};
    static const char *const parts[TFT_FIM_MIDDLE + 1] = {"tokenizer.ggml.fim_pre_token_id",
                                                          "tokenizer.ggml.fim_suf_token_id",
                                                          "tokenizer.ggml.fim_mid_token_id"};
    struct tft_tokenizer *t = b->t;
    enum tft_status status = read_id(b, "tokenizer.ggml.bos_token_id", &t->bos);
    if (!status)
        status = read_id(b, "tokenizer.ggml.eos_token_id", &t->eos);
    if (!status)
        status = read_id(b, "tokenizer.ggml.unknown_token_id", &t->unknown);
    if (!status)
        status = read_ends(b);
    if (!status)
        status = read_id(b, "tokenizer.ggml.eot_token_id", &b->eot);
    if (!status)
        status = read_id(b, "tokenizer.ggml.eom_token_id", &b->eom);
    for (size_t i = 0; !status && i < sizeof fim / sizeof *fim; i++)
        status = read_id(b, fim[i], &b->fim[i]);
    for (size_t i = 0; !status && i < sizeof parts / sizeof *parts; i++)
        status = read_id(b, parts[i], &t->fim[i]);
    return status;
}

/* WordPiece's rules; its texts always have both ends. */
static enum tft_status read_wordpiece(struct tft_build *b)
{
    struct tft_wordpiece *w = &b->wordpiece;
    b->t->add_bos = b->t->add_eos = true;
    w->lowercase = true;
    enum tft_status status =
        tft_build_bool(b, "tokenizer.ggml.normalizer.lowercase", &w->lowercase);
    w->strip_accents = w->lowercase;
    return status ? status
                  : tft_build_bool(b, "tokenizer.ggml.normalizer.strip_accents", &w->strip_accents);
}

/* What is between the texts of a pair, and the types of tokens. Some files say add_sep_token for
   models with one separator, of BERT's name, between the texts: it is the end of the first text. */
static enum tft_status read_pair(struct tft_build *b)
{
    struct tft_tokenizer *t = b->t;
    uint64_t types = t->kind == TFT_VOCAB_WORDPIECE ? 2 : 1;
    const struct tft_value *v = tft_source_value(b->s, "tokenizer.ggml.token_type_count");
    struct tft_str sep = {0};
    if (v && (v->is_array || !tft_value_uint(v, 0, &types)))
        return TFT_BAD(b, v, "%s is not a number", "tokenizer.ggml.token_type_count");
    t->add_sep = t->add_sep || (t->kind == TFT_VOCAB_UNIGRAM && t->add_bos && t->add_eos);
    enum tft_status status = tft_build_bool(b, "tokenizer.ggml.add_sep_token", &t->add_sep);
    const unsigned char *next = b->tokens->data;
    for (int32_t i = 0; i <= t->sep; i++)
        sep = tft_value_next_str(&next);
    t->add_sep = t->add_sep && t->sep >= 0 && !(t->add_eos && tft_str_is(sep, "[SEP]"));
    t->two_types = types > 1 && !t->add_sep; /* RoBERTa has one type in use */
    return status;
}

static enum tft_status read_flags(struct tft_build *b)
{
    const struct tft_value *v = tft_source_value(b->s, "tokenizer.ggml.add_bos_token");
    enum tft_status status = tft_build_bool(b, "tokenizer.ggml.add_bos_token", &b->t->add_bos);
    if (!status)
        status = tft_build_bool(b, "tokenizer.ggml.add_eos_token", &b->t->add_eos);
    if (!status && b->t->kind == TFT_VOCAB_WORDPIECE)
        status = read_wordpiece(b);
    else if (!status && has_scores(b->t))
        status = tft_build_bool(b, "tokenizer.ggml.add_space_prefix", &b->t->space_first);
    if (!status)
        status = tft_build_bool(b, TFT_KEY_SPACE_AT_START, &b->t->space_at_start);
    if (!status)
        status = tft_build_bool(b, TFT_KEY_SPACE_IF_NONE, &b->t->space_if_none);
    if (!status)
        status = tft_build_bool(b, TFT_KEY_STRIP_LEFT, &b->t->strip_left);
    if (!status)
        status = tft_build_bool(b, TFT_KEY_STRIP_RIGHT, &b->t->strip_right);
    if (!status)
        status = tft_build_bool(b, TFT_KEY_NFC, &b->t->nfc);
    if (status)
        return status;
    if (v && b->t->add_bos && b->t->bos < 0)
        return TFT_BAD(
            b, v,
            "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing");
    /* Early files of Gemma 4 say false, but the model needs BOS (llama.cpp overrides it too). */
    bool always = b->t->rules.characters && b->t->rules.add_bos;
    b->t->add_bos = (b->t->add_bos || always) && b->t->bos >= 0;
    b->t->add_eos = b->t->add_eos && b->t->eos >= 0;
    return read_pair(b);
}

enum tft_status tft_build_values(struct tft_build *b)
{
    enum tft_status status = read_model(b);
    if (!status)
        status = read_arrays(b);
    if (!status)
        status = read_special_ids(b);
    return status ? status : read_flags(b);
}
