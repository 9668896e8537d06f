/* Recognises the pre-tokenizer of tokenizer.json by its expressions. */
#include <string.h>

#include "vocabulary.h"

enum { MAX_STAGE = 8 };

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WHITE "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASE(more, digits)                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" more "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER    \
    "*" more "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" WHITE
#define PUNCTUATION "punctuation"
#define CJK "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+"
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" WHITE

/* The names for two cases: does a piece that is a token become it without merging (ignore_merges)?
   No, and yes. */
static const struct {
    const char *merging, *whole;
    const char *stage[MAX_STAGE];
} known[] = {
    {"gpt-2", NULL, {GPT2}},
    {"smollm", NULL, {"\\p{N}", GPT2}},
    {"smaug-bpe", "llama-bpe", {CONTRACTION "|" WORDS("{1,3}")}},
    {"qwen2", NULL, {CONTRACTION "|" WORDS("")}},
    {"qwen2",
     NULL,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++"
      "[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"qwen35",
     NULL,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" WHITE}},
    {NULL, "minicpm5", {"\\p{N}{1,3}", CONTRACTION "|" WORDS("+")}},
    {"ufakzeka", NULL, {WORDS("")}},
    {NULL, "tekken", {CASE("", "")}},
    {"gpt-4o", "granite-embed-multi-97m", {CASE(CONTRACTION "?", "{1,3}")}},
    {"exaone-moe",
     NULL,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"bloom",
     NULL,
     {" ?[^(\\s|[.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81\xe0\xa5\xa4"
      "\xdb\x94\xd8\x8c])]+"}},
    {"falcon", NULL, {PUNCTUATION, GPT2, "[0-9][0-9][0-9]"}},
    {"falcon-digits", NULL, {PUNCTUATION, GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"deepseek-coder",
     NULL,
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
      "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed"
      "\x9f\xbf]+",
      "\\p{N}"}},
    {"deepseek-v3", NULL, {"\\p{N}{1,3}", CJK, DEEPSEEK3}},
};

/* The expressions of a pre-tokenizer, in the order of use. */
struct stages {
    struct import_vocabulary *v;
    const char *stage[MAX_STAGE];
    size_t n;
};

static void add(struct stages *s, const char *regex)
{
    if (s->n == MAX_STAGE)
        VOCABULARY_UNSUPPORTED(s->v, "pre_tokenizer has more than %d parts", MAX_STAGE);
    else
        s->stage[s->n++] = regex;
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static void add_split(struct stages *s, const json_t *part)
{
    const json_t *regex = json_object_get(json_object_get(part, "pattern"), "Regex");
    const char *behavior = text(part, "behavior");
    bool invert = json_is_true(json_object_get(part, "invert"));
    if (!json_is_string(regex))
        VOCABULARY_UNSUPPORTED(s->v, "the pre-tokenizer \"%s\" has no regular expression", "Split");
    else if (strcmp(behavior, "Isolated") != 0 && !(invert && !strcmp(behavior, "Removed")))
        VOCABULARY_UNSUPPORTED(s->v, "the pre-tokenizer \"%s\" has the behavior \"%.40s\"", "Split",
                               behavior);
    else
        add(s, json_string_value(regex));
}

static void add_part(struct stages *s, const json_t *part)
{
    const char *type = text(part, "type");
    if (!strcmp(type, "Split")) {
        add_split(s, part);
    } else if (!strcmp(type, "ByteLevel")) {
        if (json_is_true(json_object_get(part, "add_prefix_space")))
            VOCABULARY_UNSUPPORTED(s->v, "the pre-tokenizer \"%s\" has add_prefix_space", type);
        const json_t *use = json_object_get(part, "use_regex");
        if (!use || json_is_true(use))
            add(s, GPT2);
    } else if (!strcmp(type, "Digits")) {
        add(s, json_is_true(json_object_get(part, "individual_digits")) ? "\\p{N}" : "\\p{N}+");
    } else if (!strcmp(type, "Punctuation") && !strcmp(text(part, "behavior"), "Contiguous")) {
        add(s, PUNCTUATION);
    } else {
        VOCABULARY_UNSUPPORTED(s->v, "the pre-tokenizer \"%.40s\" is not supported", type);
    }
}

/* Some files have a newline where others have \\n, which is the same in an expression. */
static bool same_regex(const char *a, const char *b)
{
    for (; *a && *b; b++) {
        char escaped = *a == '\n' ? 'n' : *a == '\r' ? 'r' : 0;
        if (escaped && (*b++ != '\\' || *b != escaped))
            return false;
        if (!escaped && *a != *b)
            return false;
        a++;
    }
    return !*a && !*b;
}

static bool same(const struct stages *s, const char *const *stage)
{
    for (size_t i = 0; i < MAX_STAGE; i++)
        if (i < s->n ? !stage[i] || !same_regex(s->stage[i], stage[i]) : stage[i] != NULL)
            return false;
    return true;
}

void vocabulary_read_pre(struct import_vocabulary *v, const json_t *pre, bool whole_pieces)
{
    struct stages s = {.v = v};
    const json_t *list = json_object_get(pre, "pretokenizers");
    if (!list)
        add_part(&s, pre);
    for (size_t i = 0; i < json_array_size(list) && !v->im->status; i++)
        add_part(&s, json_array_get(list, i));
    if (v->im->status)
        return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (same(&s, known[i].stage)) {
            v->pre = whole_pieces ? known[i].whole : known[i].merging;
            if (!v->pre)
                VOCABULARY_UNSUPPORTED(v,
                                       "ignore_merges is %s, which is not supported with the "
                                       "pre-tokenizer of \"%s\"",
                                       whole_pieces ? "true" : "false",
                                       whole_pieces ? known[i].merging : known[i].whole);
            return;
        }
    VOCABULARY_UNSUPPORTED(v, "the pre-tokenizer is not known: %zu parts, the last is \"%.120s\"",
                           s.n, s.n ? s.stage[s.n - 1] : "");
}
