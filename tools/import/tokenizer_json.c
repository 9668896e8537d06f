/*
 * tokenizer.json (huggingface/tokenizers): byte-level BPE, BPE of characters with byte fallback,
 * Unigram, and WordPiece. Unsupported features of a file are refused by name.
 *
 * BPE of characters is SentencePiece's if its list of merges follows from SentencePiece's scores:
 * all pairs that make a token are together, and none is missing. Then a token's score is its place
 * in the list. Other lists are written as Gemma 4's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "vocabulary.h"

#define LOW "\xe2\x96\x81" /* U+2581 */

static struct tft_str string_of(const json_t *s)
{
    return (struct tft_str){json_string_value(s), json_string_length(s)};
}

static struct tft_str member(const json_t *object, const char *key)
{
    return string_of(json_object_get(object, key));
}

static bool is(struct tft_str s, const char *text) { return s.p && tft_str_is(s, text); }

/* ---- normalizer and pre-tokenizer */

/* Decodes base64; NULL if it is damaged, or memory is short. */
static unsigned char *base64(struct tft_str s, size_t *n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char *out = malloc(s.n / 4 * 3 + 3);
    uint32_t bits = 0;
    size_t used = 0, count = 0;
    while (s.n && s.p[s.n - 1] == '=')
        s.n--;
    for (; out && used < s.n; used++) {
        const char *at = s.p[used] ? strchr(digits, s.p[used]) : NULL;
        if (!at)
            break;
        bits = bits << 6 | (uint32_t)(at - digits);
        if (used % 4)
            out[count++] = (unsigned char)(bits >> (6 - used % 4 * 2));
    }
    if (!out || used < s.n) {
        free(out);
        return NULL;
    }
    *n = count;
    return out;
}

/* BertNormalizer. Its other steps are always on in src/text. */
static void read_bert_normalizer(struct import_vocabulary *v, const json_t *part)
{
    static const char *const always[] = {"clean_text", "handle_chinese_chars"};
    const json_t *strip = json_object_get(part, "strip_accents");
    for (size_t i = 0; i < 2; i++)
        if (json_is_false(json_object_get(part, always[i])))
            VOCABULARY_UNSUPPORTED(v, "BertNormalizer without \"%s\" is not supported", always[i]);
    v->of_bert = true;
    v->lowercase = !json_is_false(json_object_get(part, "lowercase"));
    if (json_is_boolean(strip))
        v->strip_accents = json_is_true(strip);
}

static void read_normalizer(struct import_vocabulary *v, const json_t *part)
{
    struct tft_str type = member(part, "type");
    const json_t *list = json_object_get(part, "normalizers");
    const json_t *pattern = json_object_get(part, "pattern");
    if (is(type, "Sequence")) {
        for (size_t i = 0; i < json_array_size(list) && !v->im->status; i++) {
            const json_t *one = json_array_get(list, i);
            if (is(member(one, "type"), "Sequence"))
                VOCABULARY_UNSUPPORTED(v, "the normalizer has a %s in a Sequence", "Sequence");
            else
                read_normalizer(v, one);
        }
    } else if (is(type, "NFC")) {
        v->nfc = true;
    } else if (is(type, "BertNormalizer")) {
        read_bert_normalizer(v, part);
    } else if (is(type, "Prepend") && is(member(part, "prepend"), LOW)) {
        v->space_first = v->prepends = true;
    } else if (is(type, "Replace") && is(member(pattern, "String"), " ") &&
               is(member(part, "content"), LOW)) {
        v->by_character = true;
    } else if (is(type, "Replace") && is(member(pattern, "Regex"), " {2,}")) {
        v->merges_spaces = true;
    } else if (is(type, "Strip")) {
        v->strip_left |= !json_is_false(json_object_get(part, "strip_left"));
        v->strip_right |= !json_is_false(json_object_get(part, "strip_right"));
        v->strips_late |= v->prepends || v->by_character;
    } else if (is(type, "Precompiled") && !v->charsmap) {
        v->charsmap = base64(member(part, "precompiled_charsmap"), &v->n_charsmap);
        if (!v->charsmap)
            VOCABULARY_BAD(v, "%s is damaged", "precompiled_charsmap");
    } else {
        VOCABULARY_UNSUPPORTED(v, "the normalizer \"%.*s\" is not supported", TFT_STR_ARG(type));
    }
}

/* The pre-tokenizers of vocabularies with characters as symbols: places of spaces. False: another
   pre-tokenizer. */
static bool read_spaces(struct import_vocabulary *v, const json_t *part)
{
    struct tft_str type = member(part, "type");
    const json_t *list = json_object_get(part, "pretokenizers");
    if (is(type, "Sequence")) {
        for (size_t i = 0; i < json_array_size(list); i++)
            if (is(member(json_array_get(list, i), "type"), "Sequence") ||
                !read_spaces(v, json_array_get(list, i)))
                return false;
        return true;
    }
    if (is(type, "WhitespaceSplit")) {
        v->merges_spaces = true;
        return true;
    }
    if (is(type, "Split"))
        return is(member(json_object_get(part, "pattern"), "String"), " ");
    if (!is(type, "Metaspace") || !is(member(part, "replacement"), LOW))
        return false;
    struct tft_str scheme = member(part, "prepend_scheme");
    v->by_character = v->space_if_none = true;
    v->space_first = !is(scheme, "never") && !json_is_false(json_object_get(part,
                                                                            "add_prefix_space"));
    v->space_at_start = is(scheme, "first");
    v->splits = !json_is_false(json_object_get(part, "split"));
    return true;
}

/* ---- BPE */

static void read_vocab(struct import_vocabulary *v, const json_t *model)
{
    const char *key;
    json_t *value, *vocab = json_object_get(model, "vocab");
    uint64_t id;
    if (!json_is_object(vocab))
        VOCABULARY_BAD(v, "model.%s is not an object", "vocab");
    json_object_foreach(vocab, key, value)
    {
        struct tft_str text = {key, strlen(key)};
        bool byte = v->by_character && vocabulary_is_byte(text);
        if (!import_json_whole(value, UINT32_MAX, &id)) {
            VOCABULARY_BAD(v, "the id of \"%.80s\" is not a number", key);
            return;
        }
        if (!vocabulary_add(v, id, text, byte ? TFT_TOKEN_BYTE : TFT_TOKEN_NORMAL, 0))
            return;
    }
}

/* The two parts of a merge, "A B" or ["A","B"]; false if it is neither. */
static bool parts_of(const json_t *merge, struct tft_str *left, struct tft_str *right)
{
    struct tft_str s = string_of(merge);
    if (json_array_size(merge) == 2) {
        *left = string_of(json_array_get(merge, 0));
        *right = string_of(json_array_get(merge, 1));
        return left->p && right->p && left->n && !memchr(left->p + 1, ' ', left->n - 1);
    }
    const char *cut = s.n ? memchr(s.p + 1, ' ', s.n - 1) : NULL;
    if (!cut)
        return false;
    *left = (struct tft_str){s.p, (size_t)(cut - s.p)};
    *right = (struct tft_str){cut + 1, s.n - left->n - 1};
    return true;
}

/* Fills in v->merge: with strings of the file, or with pairs joined by a space. */
static void read_merges(struct import_vocabulary *v, const json_t *model)
{
    const json_t *list = json_object_get(model, "merges");
    size_t n = json_array_size(list), bytes = 0;
    struct tft_str left, right;
    if (!json_is_array(list))
        VOCABULARY_BAD(v, "model.%s is not an array", "merges");
    for (size_t i = 0; i < n && !v->im->status; i++)
        if (!parts_of(json_array_get(list, i), &left, &right))
            VOCABULARY_BAD(v, "merge %zu is not two tokens", i);
        else
            bytes += left.n + right.n + 1;
    if (v->im->status)
        return;
    v->merge = calloc(n + 1, sizeof *v->merge);
    char *p = v->text = malloc(bytes + 1);
    if (!v->merge || !p) {
        VOCABULARY_FAIL(v, TFT_ERR_NOMEM, "%s: out of memory", v->path);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        parts_of(json_array_get(list, i), &left, &right);
        v->merge[i] = (struct tft_str){p, left.n + right.n + 1};
        memcpy(p, left.p, left.n);
        p[left.n] = ' ';
        memcpy(p + left.n + 1, right.p, right.n);
        p += v->merge[i].n;
    }
    v->n_merge = n;
}

/* ---- merges as scores */

static int64_t id_of(const json_t *vocab, const char *p, size_t n)
{
    const json_t *id = json_object_getn(vocab, p, n);
    return id ? (int64_t)json_real_value(id) : -1;
}

/* Number of pairs of tokens that make this one. */
static size_t count_pairs(const json_t *vocab, struct tft_str s)
{
    size_t pairs = 0;
    uint32_t c;
    for (size_t cut = tft_utf8_next(s.p, s.n, &c); cut < s.n;) {
        pairs += id_of(vocab, s.p, cut) >= 0 && id_of(vocab, s.p + cut, s.n - cut) >= 0;
        cut += tft_utf8_next(s.p + cut, s.n - cut, &c);
    }
    return pairs;
}

/* Enters the merges of each token, and its score: minus the place of the first. False if merges of
   one token are apart, or lack one. */
static bool score_merges(struct import_vocabulary *v, const json_t *vocab, uint32_t *pairs,
                         char *both)
{
    int64_t last = -1;
    for (size_t i = 0; i < v->n_merge; i++) {
        struct tft_str m = v->merge[i];
        const char *cut = memchr(m.p + 1, ' ', m.n - 1);
        size_t left = (size_t)(cut - m.p);
        memcpy(both, m.p, left);
        memcpy(both + left, cut + 1, m.n - left - 1);
        int64_t id = id_of(vocab, both, m.n - 1);
        if (id < 0 || (id != last && pairs[id]))
            return false;
        if (!pairs[id]++)
            v->score[id] = -(float)i;
        last = id;
    }
    for (size_t i = 0; i < v->n; i++)
        if (v->token[i].n && v->type[i] == TFT_TOKEN_NORMAL &&
            pairs[i] != count_pairs(vocab, v->token[i]))
            return false;
    return true;
}

/* Whether the merges are SentencePiece's; their scores are then in v->score. */
static bool are_scores(struct import_vocabulary *v, const json_t *vocab)
{
    size_t longest = 0;
    for (size_t i = 0; i < v->n_merge; i++)
        longest = v->merge[i].n > longest ? v->merge[i].n : longest;
    uint32_t *pairs = calloc(v->n, sizeof *pairs);
    char *both = malloc(longest + 1);
    bool yes = pairs && both && v->n_merge < 1 << 24 && score_merges(v, vocab, pairs, both);
    if (!pairs || !both)
        VOCABULARY_FAIL(v, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    free(pairs);
    free(both);
    return yes;
}

/* ---- kinds of models */

/* Text that Metaspace splits at its spaces never becomes a token with a space inside. */
static void check_words(struct import_vocabulary *v)
{
    for (size_t i = 0; i < v->n && !v->im->status; i++)
        for (size_t k = 1; v->type[i] == TFT_TOKEN_NORMAL && k + 3 <= v->token[i].n; k++)
            if (!memcmp(v->token[i].p + k, LOW, 3)) {
                VOCABULARY_UNSUPPORTED(v,
                                       "Metaspace splits words, but token %zu has a space inside, "
                                       "which is not supported",
                                       i);
                break;
            }
}

static void read_bpe(struct import_vocabulary *v, const json_t *root, const json_t *model)
{
    static const char *const no[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    for (size_t i = 0; i < 2; i++)
        if (json_string_length(json_object_get(model, no[i])))
            VOCABULARY_UNSUPPORTED(v, "model.%s is not supported", no[i]);
    if (!v->by_character && json_is_object(pre))
        read_spaces(v, pre);
    read_vocab(v, model);
    if (!v->im->status)
        read_merges(v, model);
    if (v->im->status)
        return;
    if (!v->by_character) {
        v->model = "gpt2";
        if (json_is_object(pre))
            vocabulary_read_pre(v, pre, json_is_true(json_object_get(model, "ignore_merges")));
        else
            VOCABULARY_UNSUPPORTED(v, "%s is missing", "pre_tokenizer");
        return;
    }
    if (json_is_object(pre) && !read_spaces(v, pre)) {
        VOCABULARY_UNSUPPORTED(v,
                               "the pre-tokenizer \"%.*s\" is not supported with this normalizer",
                               TFT_STR_ARG(member(pre, "type")));
        return;
    }
    if (v->splits)
        check_words(v);
    v->scored = are_scores(v, json_object_get(model, "vocab"));
    v->model = v->scored ? "llama" : "gemma4";
    if (!v->scored && v->space_first)
        VOCABULARY_UNSUPPORTED(v,
                               "model.%s are not those of SentencePiece, and the text begins with "
                               "a space",
                               "merges");
}

static void read_unigram(struct import_vocabulary *v, const json_t *root, const json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab");
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    uint64_t unknown;
    v->model = "t5";
    v->by_character = v->scored = true;
    v->merges_spaces |= v->strip_left || v->strip_right;
    v->strip_left = v->strip_right = v->strips_late = false;
    if (json_is_object(pre) && !read_spaces(v, pre))
        VOCABULARY_UNSUPPORTED(v, "the pre-tokenizer \"%.*s\" is not supported with Unigram",
                               TFT_STR_ARG(member(pre, "type")));
    if (!json_is_array(vocab))
        VOCABULARY_BAD(v, "model.%s is not an array", "vocab");
    for (size_t i = 0; i < json_array_size(vocab) && !v->im->status; i++) {
        const json_t *one = json_array_get(vocab, i);
        const json_t *text = json_array_get(one, 0), *score = json_array_get(one, 1);
        bool byte = json_is_string(text) && vocabulary_is_byte(string_of(text));
        if (!json_is_string(text) || !json_is_real(score))
            VOCABULARY_BAD(v, "element %zu of model.vocab is not a text and a score", i);
        else
            vocabulary_add(v, i, string_of(text), byte ? TFT_TOKEN_BYTE : TFT_TOKEN_NORMAL,
                           (float)json_real_value(score));
    }
    if (v->im->status)
        return;
    if (import_json_whole(json_object_get(model, "unk_id"), v->n - 1, &unknown)) {
        v->unknown = (int64_t)unknown;
        v->type[unknown] = TFT_TOKEN_UNKNOWN;
    }
}

/* WordPiece with the rules that src/text has. Names get the form of a GGUF file later, since other
   files of the folder name the tokens as here. */
static void read_wordpiece(struct import_vocabulary *v, const json_t *root, const json_t *model)
{
    const json_t *most = json_object_get(model, "max_input_chars_per_word");
    struct tft_str pre = member(json_object_get(root, "pre_tokenizer"), "type"),
                   prefix = member(model, "continuing_subword_prefix");
    v->model = "bert";
    if (!v->of_bert || v->nfc || v->by_character || v->charsmap || v->merges_spaces ||
        v->strip_left || v->strip_right)
        VOCABULARY_UNSUPPORTED(v, "model.type \"%s\" is supported with BertNormalizer alone",
                               "WordPiece");
    if (!is(pre, "BertPreTokenizer"))
        VOCABULARY_UNSUPPORTED(v, "the pre-tokenizer \"%.*s\" is not supported with WordPiece",
                               TFT_STR_ARG(pre));
    if (prefix.p && !is(prefix, "##"))
        VOCABULARY_UNSUPPORTED(v, "a continuing_subword_prefix of \"%.*s\" is not supported",
                               TFT_STR_ARG(prefix));
    if (json_is_real(most) && json_real_value(most) != 100)
        VOCABULARY_UNSUPPORTED(v, "a max_input_chars_per_word of %g is not supported, but 100 is",
                               json_real_value(most));
    if (!v->im->status)
        read_vocab(v, model);
}

/* ---- added tokens, and the ends of texts */

static bool has_low(struct tft_str text)
{
    for (size_t i = 0; i + 3 <= text.n; i++)
        if (!memcmp(text.p + i, LOW, 3))
            return true;
    return false;
}

/* A token that is not special, and that symbols merge to, stays a normal one if it has spaces: text
   has none of U+2581. */
static bool stays_normal(const struct import_vocabulary *v, uint64_t id, struct tft_str text)
{
    return v->by_character && has_low(text) && v->token[id].p && v->type[id] == TFT_TOKEN_NORMAL;
}

/* Whether an added token is found in the normalized text, with its own name normalized, so with a
   space before it. False also after an error: other normalizers than the space may change the name,
   and symbols may merge to a token of the vocabulary. */
static bool is_spaced(struct import_vocabulary *v, uint64_t id, const json_t *one,
                      struct tft_str text)
{
    if (!v->prepends || !json_is_true(json_object_get(one, "normalized")))
        return false;
    if (strcmp(v->model, "llama") == 0 && !v->nfc && !v->strip_left && !v->strip_right &&
        !v->space_if_none && !v->token[id].p && !has_low(text) &&
        !json_is_true(json_object_get(one, "lstrip")) &&
        !json_is_true(json_object_get(one, "rstrip")))
        return true;
    VOCABULARY_UNSUPPORTED(v,
                           "the added token \"%.*s\" is normalized, which is not supported with a "
                           "space before the text and another normalizer, lstrip, rstrip, or a "
                           "place in model.vocab",
                           TFT_STR_ARG(text));
    return false;
}

void vocabulary_add_added(struct import_vocabulary *v, uint64_t id, const json_t *one,
                          bool special)
{
    struct tft_str text = member(one, "content");
    if (!text.p) {
        VOCABULARY_BAD(v, "an element of added_tokens has no %s", "content");
        return;
    }
    if (json_is_true(json_object_get(one, "single_word"))) {
        VOCABULARY_UNSUPPORTED(v,
                               "the added token \"%.*s\" is a single_word, which is not supported",
                               TFT_STR_ARG(text));
        return;
    }
    if (id >= v->n) /* the embedding has no row for it: <image_soft_token> of Gemma 3 without
                       images */
        return;
    bool spaced = !special && is_spaced(v, id, one, text);
    if (v->im->status || (!special && !spaced && stays_normal(v, id, text)))
        return;
    bool unknown = v->type[id] == TFT_TOKEN_UNKNOWN;
    int32_t type = unknown ? TFT_TOKEN_UNKNOWN : special ? TFT_TOKEN_CONTROL : TFT_TOKEN_USER;
    if (!vocabulary_add(v, id, text, type, v->score[id]))
        return;
    if (json_is_true(json_object_get(one, "lstrip")))
        v->flags[id] |= VOCABULARY_LSTRIP;
    if (json_is_true(json_object_get(one, "rstrip")))
        v->flags[id] |= VOCABULARY_RSTRIP;
    v->flags[id] &= (unsigned char)~VOCABULARY_NORMALIZED; /* not a symbol of SentencePiece alone */
    if (spaced)
        v->flags[id] |= VOCABULARY_NORMALIZED_SPACED;
}

static void read_added(struct import_vocabulary *v, const json_t *one)
{
    uint64_t id;
    if (!import_json_whole(json_object_get(one, "id"), UINT32_MAX, &id)) {
        VOCABULARY_BAD(v, "an element of added_tokens has no %s", "id");
        return;
    }
    vocabulary_add_added(v, id, one, json_is_true(json_object_get(one, "special")));
    if (id < v->n)
        v->flags[id] |= VOCABULARY_ADDED;
}

/* The name of a special token in a template; p is NULL if the part is no special token. */
static struct tft_str special_of(const json_t *part)
{
    return member(json_object_get(part, "SpecialToken"), "id");
}

/* The special tokens between the texts of a pair. */
static size_t count_between(const json_t *pair)
{
    size_t count = 0, n = json_array_size(pair), i = 0;
    while (i < n && !json_object_get(json_array_get(pair, i), "Sequence"))
        i++;
    for (i++; i < n && special_of(json_array_get(pair, i)).p; i++)
        count++;
    return i < n ? count : 0;
}

/* A TemplateProcessing lists the special tokens around a text and around a pair. */
static void read_template(struct import_vocabulary *v, const json_t *part)
{
    const json_t *single = json_object_get(part, "single"), *pair = json_object_get(part, "pair");
    size_t n = json_array_size(single);
    struct tft_str first = special_of(json_array_get(single, 0)), last = {0};
    if (n > 1)
        last = special_of(json_array_get(single, n - 1));
    v->add_bos = first.p != NULL;
    v->add_eos = last.p != NULL;
    if (json_is_array(pair))
        v->add_sep = count_between(pair) > 1;
    if (first.p && v->bos < 0)
        v->bos = vocabulary_find(v, first);
    if (last.p)
        v->last = vocabulary_find(v, last);
}

/* BertProcessing and RobertaProcessing name a token before a text, and a token after it, as
   "cls":["[CLS]",101]. */
static void read_processing(struct import_vocabulary *v, const json_t *part, bool roberta)
{
    v->add_bos = v->add_eos = true;
    v->add_sep = roberta;
    v->bos = vocabulary_find(v, string_of(json_array_get(json_object_get(part, "cls"), 0)));
    v->last = vocabulary_find(v, string_of(json_array_get(json_object_get(part, "sep"), 0)));
    if (v->bos < 0 || v->last < 0)
        VOCABULARY_BAD(v, "the post-processor has tokens that are not in the vocabulary%s", "");
}

static void read_post_processor(struct import_vocabulary *v, const json_t *part)
{
    const json_t *list = json_object_get(part, "processors");
    struct tft_str type = member(part, "type");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_object_get(json_array_get(list, i), "processors"))
            read_post_processor(v, json_array_get(list, i));
    if (is(type, "TemplateProcessing"))
        read_template(v, part);
    else if (is(type, "BertProcessing") || is(type, "RobertaProcessing"))
        read_processing(v, part, is(type, "RobertaProcessing"));
}

void vocabulary_read_json(struct import_vocabulary *v, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *normalizer = json_object_get(root, "normalizer");
    const json_t *added = json_object_get(root, "added_tokens");
    struct tft_str type = member(model, "type"), unknown = member(model, "unk_token");
    if (json_is_object(normalizer))
        read_normalizer(v, normalizer);
    if (v->im->status)
        return;
    if (is(type, "BPE") || (!type.p && json_object_get(model, "merges")))
        read_bpe(v, root, model);
    else if (is(type, "Unigram"))
        read_unigram(v, root, model);
    else if (is(type, "WordPiece"))
        read_wordpiece(v, root, model);
    else
        VOCABULARY_UNSUPPORTED(
            v, "model.type \"%.*s\" is not supported, but BPE, Unigram and WordPiece are",
            TFT_STR_ARG(type));
    if (v->of_bert && v->model && strcmp(v->model, "bert") != 0)
        VOCABULARY_UNSUPPORTED(v, "%s is supported with WordPiece alone", "BertNormalizer");
    if (v->im->status)
        return;
    if (unknown.p) {
        v->unknown = vocabulary_find(v, unknown);
        if (v->unknown >= 0 && v->by_character)
            v->type[v->unknown] = TFT_TOKEN_UNKNOWN;
    }
    for (size_t i = 0; i < json_array_size(added) && !v->im->status; i++)
        read_added(v, json_array_get(added, i));
    if (!v->im->status)
        read_post_processor(v, json_object_get(root, "post_processor"));
}
