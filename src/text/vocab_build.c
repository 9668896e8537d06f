/*
 * Builds a vocabulary from the tokenizer.ggml.* values of a source (ggml docs/gguf.md,
 * "Tokenizer"), which may be hostile.
 *
 * Choices, where the format leaves room or real vocabularies are unusual:
 *   - Two tokens with the same text: encoding makes the first with a proper name; decoding takes
 *     both.
 *   - A token without text is valid and never produced (it pads a vocabulary to a round number).
 *   - A token with a name that ends generation in llama.cpp is a control token, although the file
 *     calls it normal: many files call "</s>" or "<|im_end|>" so, and then a user's text could end
 *     the turn. It is not one where the file has a list of the tokens that end generation. Nor is
 *     "</s>" where the file calls it text of the user: in Gemma and Phi-3 it is HTML.
 *   - Without token_type, the ids in other keys are control tokens, and "<0xHH>" is a byte.
 *   - A special id outside the vocabulary or a NaN score is an error; so is add_bos_token without a
 *     bos_token_id.
 *   - SentencePiece: there must be scores, and an unknown token or all 256 byte tokens, so every
 *     text can be encoded.
 *   - RWKV: there must be an unknown token or all 256 bytes, likewise.
 *   - WordPiece: there must be tokens for the start of a text, its end and unknown words. Without
 *     their keys they are tokens 101, 102 and 100, as in BERT's vocabularies.
 *   - Byte-level BPE: a byte without a token is dropped from the text before its neighbours merge,
 *     as in Hugging Face. Vocabularies trained on UTF-8 often lack the bytes that never occur in
 *     it.
 */
#include "vocab_build.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "keys.h"
#include "unigram.h"

/* ---- tokens */

/* Whether llama.cpp ends generation at a token of this name (llama-vocab.cpp, special_eog_ids) for
   any file. Omitted: names that occur only with pre-tokenizers that tuffet lacks, gpt-oss's, where
   "<|end|>" does not end generation, and names for fill-in-the-middle, such as "<|file_sep|>",
   which are text in other models: keys name these tokens. */
static bool has_end_name(struct tft_str s)
{
    static const char *const names[] = {
        "</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|endoftext|>", "<|end_of_text|>",
        "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<end_of_utterance>",
        "<turn|>", "<|tool_response>", /* Gemma 4 */
        "[e~[",                        /* MiniMax M2 */
        /* DeepSeek: U+FF5C, U+2581 */
        "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>",
    };
    if (!s.n || !strchr("<_[", *s.p))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tft_str_is(s, names[i]))
            return true;
    return false;
}

/* The byte HH of the name "<0xHH>", or -1. */
static int byte_of_name(struct tft_str s)
{
    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>')
        return -1;
    int high = tft_hex_digit(s.p[3]), low = tft_hex_digit(s.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* What the file says of token i; 0: nothing, or no kind. */
static unsigned named_kind(const struct tft_build *b, uint32_t i)
{
    int64_t type;
    return b->types && tft_value_int(b->types, i, &type) && type >= 1 && type <= TFT_TOKEN_BYTE
               ? (unsigned)type
               : 0;
}

static bool ends_by_name(const struct tft_build *b, uint32_t i, struct tft_str s)
{
    unsigned kind = named_kind(b, i);
    if (!has_end_name(s))
        return false;
    return b->ends ? kind == TFT_TOKEN_CONTROL : kind != TFT_TOKEN_USER || !tft_str_is(s, "</s>");
}

static bool ends(const struct tft_build *b, int32_t id, struct tft_str s)
{
    return id == b->t->eos || id == b->eot || id == b->eom || id == b->fim[0] ||
           id == b->fim[1] || id == b->fim[2] || ends_by_name(b, (uint32_t)id, s);
}

/* The kind of token i with name s; 0 if tokenizer.ggml.token_type is invalid. */
static unsigned kind_of(const struct tft_build *b, uint32_t i, struct tft_str s)
{
    if (ends_by_name(b, i, s))
        return TFT_TOKEN_CONTROL;
    if (b->types)
        return named_kind(b, i);
    int32_t id = (int32_t)i;
    if (id == b->t->bos || ends(b, id, s))
        return TFT_TOKEN_CONTROL;
    if (id == b->t->unknown)
        return TFT_TOKEN_UNKNOWN;
    return b->t->by_character && byte_of_name(s) >= 0 ? TFT_TOKEN_BYTE : TFT_TOKEN_NORMAL;
}

static bool is_special(unsigned kind)
{
    return kind == TFT_TOKEN_USER || kind == TFT_TOKEN_CONTROL || kind == TFT_TOKEN_UNKNOWN;
}

static enum tft_status check_token(struct tft_build *b, uint32_t i, struct tft_str s)
{
    uint64_t pos = tft_vocab_offset(b->s, b->tokens, s.p);
    unsigned kind = kind_of(b, i, s);
    double score;
    if (s.n > TFT_TOKEN_MAX)
        return tft_fail_at(
            b->err, TFT_ERR_UNSUPPORTED, b->s->name, pos,
            "token %u of tokenizer.ggml.tokens has %zu bytes; at most %d are supported", i, s.n,
            TFT_TOKEN_MAX);
    if (!kind)
        return TFT_BAD_AT(b, tft_vocab_offset(b->s, b->types, b->types->data + 4 * (size_t)i),
                      "tokenizer.ggml.token_type of token %u is not 1 to 6", i);
    if (kind == TFT_TOKEN_BYTE && byte_of_name(s) < 0)
        return TFT_BAD_AT(b, pos,
                      "token %u of tokenizer.ggml.tokens has the type byte, but its name is "
                      "\"%.*s\", not \"<0xHH>\"",
                      i, TFT_STR_ARG(s));
    if (b->t->kind == TFT_VOCAB_LONGEST && kind == TFT_TOKEN_NORMAL &&
        !tft_longest_decode(s, NULL, &(size_t){0}))
        return TFT_BAD_AT(b, pos,
                          "token %u of tokenizer.ggml.tokens has a \"\\x\" without two digits "
                          "after it, or a backslash at its end",
                          i);
    if (b->scores && tft_value_real(b->scores, i, &score) && isnan(score))
        return TFT_BAD_AT(b, tft_vocab_offset(b->s, b->scores, b->scores->data + 4 * (size_t)i),
                      "tokenizer.ggml.scores of token %u is not a number", i);
    return TFT_OK;
}

/* Checks all tokens, and counts their bytes and the special tokens. */
static enum tft_status check_tokens(struct tft_build *b)
{
    const unsigned char *next = b->tokens->data;
    for (uint32_t i = 0; i < b->t->n_token; i++) {
        struct tft_str s = tft_value_next_str(&next);
        enum tft_status status = check_token(b, i, s);
        if (status)
            return status;
        b->n_bytes += s.n;
        b->n_special += is_special(kind_of(b, i, s));
    }
    if (b->n_bytes > UINT32_MAX)
        return TFT_BAD(b, b->tokens,
                   "tokenizer.ggml.tokens has %llu bytes of text; less than 4 GiB is supported",
                   (unsigned long long)b->n_bytes);
    return TFT_OK;
}

/* Writes the text of a token with the name s to out[s.n]; returns its length. */
static size_t decode(const struct tft_tokenizer *t, unsigned kind, struct tft_str s, char *out)
{
    if (kind == TFT_TOKEN_NORMAL)
        return tft_vocab_decode(t, s, out);
    if (kind == TFT_TOKEN_BYTE) {
        *out = (char)byte_of_name(s);
        return 1;
    }
    memcpy(out, s.p, s.n);
    return s.n;
}

/* Whether the name s of a normal token, with the text p[n], stands for no text: the vocabulary has
   U+2581 for a space, or characters for bytes, and the name has the space or the bytes
   themselves. */
static bool is_raw(const struct tft_tokenizer *t, struct tft_str s, const char *p, size_t n)
{
    if (t->by_character || t->kind == TFT_VOCAB_WORDPIECE)
        return memchr(s.p, ' ', s.n) != NULL;
    if (t->kind == TFT_VOCAB_LONGEST)
        return false;
    for (size_t i = 0; n == s.n && i < n; i++)
        if ((unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f)
            return true;
    return false;
}

/* Without a key, the first token with one of the names begins a part of fill-in-the-middle. */
static void note_fim(struct tft_tokenizer *t, uint32_t i, struct tft_str s)
{
    int part = tft_build_fim(s);
    if (part >= 0 && t->fim[part] < 0)
        t->fim[part] = (int32_t)i;
}

static void fill_tokens(struct tft_build *b)
{
    struct tft_tokenizer *t = b->t;
    const unsigned char *next = b->tokens->data;
    size_t used = 0;
    for (uint32_t i = 0; i < t->n_token; i++) {
        struct tft_str s = tft_value_next_str(&next);
        unsigned kind = kind_of(b, i, s);
        size_t n = decode(t, kind, s, t->bytes + used);
        t->token[i] = (struct tft_token){(uint32_t)used, (uint16_t)n, (unsigned char)kind,
                                         ends(b, (int32_t)i, s) ? TFT_TOKEN_ENDS : 0};
        if (kind == TFT_TOKEN_NORMAL && is_raw(t, s, t->bytes + used, n))
            t->token[i].flags |= TFT_TOKEN_RAW;
        if (is_special(kind) && n)
            t->special.name[t->special.n++] =
                (struct tft_special){t->bytes + used, (uint32_t)n, (int32_t)i};
        if (kind == TFT_TOKEN_UNKNOWN && t->unknown < 0)
            t->unknown = (int32_t)i;
        if (n > t->longest)
            t->longest = (uint32_t)n;
        note_fim(t, i, s);
        used += n;
    }
}

/* Fills in the tokens of single bytes: tokens of the kind byte if symbols are characters, else
   normal tokens. */
static void fill_bytes(struct tft_tokenizer *t)
{
    unsigned kind = t->by_character ? TFT_TOKEN_BYTE : TFT_TOKEN_NORMAL;
    memset(t->byte, -1, sizeof t->byte);
    for (unsigned raw = 0; raw <= TFT_TOKEN_RAW; raw += TFT_TOKEN_RAW)
        for (uint32_t i = 0; i < t->n_token; i++) {
            const struct tft_token *x = &t->token[i];
            unsigned char byte = x->n == 1 ? (unsigned char)t->bytes[x->offset] : 0;
            if (x->n == 1 && x->kind == kind && (x->flags & TFT_TOKEN_RAW) == raw &&
                t->byte[byte] < 0)
                t->byte[byte] = (int32_t)i;
        }
}

/* ---- symbols that are characters */

/* The rank of a score: a higher score has a lower rank. The bits of floats of one sign are in the
   order of magnitudes. */
static uint32_t rank_of(float score)
{
    uint32_t bits;
    score = score == 0 ? 0 : score; /* -0 becomes 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

/* Whether p[n] has a space after another character. */
static bool has_inner_space(const char *p, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (p[i] == ' ' && p[i - 1] != ' ')
            return true;
    return false;
}

static enum tft_status finish_by_character(struct tft_build *b)
{
    struct tft_tokenizer *t = b->t;
    t->words_apart = true;
    for (uint32_t i = 0; i < t->n_token; i++) {
        double score = 0;
        if (b->scores && tft_value_real(b->scores, i, &score) && t->kind == TFT_VOCAB_SPM)
            t->rank[i] = rank_of((float)score);
        if (t->token[i].kind == TFT_TOKEN_NORMAL &&
            has_inner_space(t->bytes + t->token[i].offset, t->token[i].n))
            t->words_apart = false;
    }
    for (int byte = 0; byte < 256; byte++)
        if (t->byte[byte] < 0 && t->unknown < 0)
            return TFT_BAD(b, b->tokens,
                       "tokenizer.ggml.tokens has neither an unknown token nor \"<0x%02X>\"", byte);
    return TFT_OK;
}

static enum tft_status no_memory(struct tft_build *b)
{
    return tft_fail(b->err, TFT_ERR_NOMEM, "%s: out of memory for %u tokens", b->s->name,
                    b->t->n_token);
}

/* Every text must become tokens. */
static enum tft_status finish_longest(struct tft_build *b)
{
    const struct tft_tokenizer *t = b->t;
    for (int byte = 0; byte < 256; byte++)
        if (t->byte[byte] < 0 && t->unknown < 0)
            return TFT_BAD(b, b->tokens,
                           "tokenizer.ggml.tokens has neither an unknown token nor \"\\x%02x\"",
                           byte);
    return tft_trie_build(t->trie, t) ? no_memory(b) : TFT_OK;
}

/* SentencePiece's penalty of an unknown character, below the lowest score. */
static enum tft_status finish_unigram(struct tft_build *b)
{
    struct tft_tokenizer *t = b->t;
    struct tft_unigram *u = t->unigram;
    double lowest = 0, score = 0;
    for (uint32_t i = 0; i < t->n_token; i++) {
        tft_value_real(b->scores, i, &score);
        u->score[i] = (float)score;
        if (t->token[i].kind == TFT_TOKEN_NORMAL && score < lowest)
            lowest = score;
    }
    u->unknown = lowest - 10;
    enum tft_status status = tft_build_bool(b, "tokenizer.ggml.remove_extra_whitespaces",
                                       &u->merges_spaces);
    return !status && tft_trie_build(&u->trie, t) ? no_memory(b) : status;
}

static enum tft_status finish_wordpiece(struct tft_build *b)
{
    if (tft_trie_build(&b->t->wordpiece->trie, b->t))
        return tft_fail(b->err, TFT_ERR_NOMEM, "%s: out of memory for %u tokens", b->s->name,
                        b->t->n_token);
    return TFT_OK;
}

/* ---- special tokens */

/* Writes the name of a token of t->late to `to`, and returns its length: at most a byte more. */
static size_t put_late_name(char *to, const struct tft_special *x, bool spaced)
{
    *to = ' ';
    return spaced + tft_put_spaces(to + spaced, x->p, x->n);
}

/* Moves user tokens with the flag LATE from t->special to t->late, and sorts both. */
static void sort_names(struct tft_tokenizer *t)
{
    char *to = t->late_bytes;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->special.n; i++) {
        struct tft_special x = t->special.name[i];
        struct tft_token token = t->token[x.id];
        if (token.kind != TFT_TOKEN_USER || !(token.flags & TFT_TOKEN_LATE)) {
            t->special.name[kept++] = x;
            continue;
        }
        size_t n = put_late_name(to, &x, token.flags & TFT_TOKEN_SPACED);
        t->late.name[t->late.n++] = (struct tft_special){to, (uint32_t)n, x.id};
        to += n;
    }
    t->special.n = kept;
    tft_special_sort(&t->special);
    tft_special_sort(&t->late);
}

/* Whether "Phi-3", "phi3" or "Phi 3" is in s. */
static bool is_phi3(struct tft_str s)
{
    static const char phi[] = "phi";
    for (size_t at = 0, i; at + 4 <= s.n; at++) {
        for (i = 0; i < 3 && (s.p[at + i] | 0x20) == phi[i]; i++)
            ;
        i += i == 3 && memchr("- _", s.p[at + 3], 3) && at + 4 < s.n;
        if (i >= 3 && s.p[at + i] == '3')
            return true;
    }
    return false;
}

/* Element i of v, the array `key`. */
static enum tft_status id_at(struct tft_build *b, const char *key, const struct tft_value *v,
                             uint64_t i, int32_t *out)
{
    uint64_t id;
    if (!tft_value_uint(v, i, &id) || id >= b->t->n_token)
        return TFT_BAD(b, v, "element %llu of %s is not a token id", (unsigned long long)i, key);
    *out = (int32_t)id;
    return TFT_OK;
}

/* Marks the tokens in the array `key`. Ids of tokens that are not special have no effect. */
static enum tft_status mark(struct tft_build *b, const char *key, unsigned char flag)
{
    const struct tft_value *v;
    int32_t id = 0;
    enum tft_status status = tft_build_array(b, key, TFT_VALUE_I32, false, &v);
    for (uint64_t i = 0; !status && v && i < v->n; i++) {
        status = id_at(b, key, v, i, &id);
        if (!status)
            b->t->token[id].flags |= flag;
    }
    return status;
}

static enum tft_status fill_suppressed(struct tft_build *b)
{
    enum tft_status status = TFT_OK;
    for (uint32_t i = 0; !status && i < b->t->n_suppressed; i++)
        status = id_at(b, TFT_KEY_SUPPRESS, b->suppressed, i, &b->t->suppressed[i]);
    return status;
}

/* GGUF files of Phi-3 lack the array. The name identifies them, as in llama.cpp; the tokens are all
   special tokens except three. */
static void mark_phi3(struct tft_build *b)
{
    static const char *const not_phi3[] = {"<unk>", "<s>", "<|endoftext|>"};
    const struct tft_names *names = &b->t->special;
    for (uint32_t i = 0; i < names->n; i++) {
        struct tft_str s = {names->name[i].p, names->name[i].n};
        bool strips = true;
        for (size_t k = 0; k < sizeof not_phi3 / sizeof *not_phi3; k++)
            strips = strips && !tft_str_is(s, not_phi3[k]);
        if (strips)
            b->t->token[names->name[i].id].flags |= TFT_TOKEN_RSTRIP;
    }
}

static enum tft_status mark_strips(struct tft_build *b)
{
    const struct tft_value *v = tft_source_value(b->s, "general.name");
    struct tft_str name;
    if (b->t->kind == TFT_VOCAB_SPM && v && tft_value_str(v, &name) && is_phi3(name))
        mark_phi3(b);
    enum tft_status status = mark(b, TFT_KEY_LSTRIP, TFT_TOKEN_LSTRIP);
    return status ? status : mark(b, TFT_KEY_RSTRIP, TFT_TOKEN_RSTRIP);
}

/* ---- the tokenizer */

static void place_unigram(struct tft_tokenizer *t, struct tft_arena *a, const struct tft_build *b)
{
    struct tft_unigram *u = t->unigram = tft_arena_take(a, 1, sizeof *u);
    float *score = tft_arena_take(a, t->n_token, sizeof *score);
    unsigned char *map = tft_arena_take(a, b->charsmap ? (size_t)b->charsmap->n : 0, 1);
    if (!u)
        return;
    *u = (struct tft_unigram){.score = score};
    if (b->charsmap) {
        memcpy(map, b->charsmap->data, (size_t)b->charsmap->n);
        tft_charsmap_read(&u->map, map, (size_t)b->charsmap->n);
    }
}

static void place_wordpiece(struct tft_tokenizer *t, struct tft_arena *a, const struct tft_build *b)
{
    t->wordpiece = tft_arena_take(a, 1, sizeof *t->wordpiece);
    if (t->wordpiece)
        *t->wordpiece = b->wordpiece;
}

static void place(struct tft_tokenizer *t, struct tft_arena *a, const struct tft_build *b)
{
    tft_arena_take(a, 1, sizeof *t);
    t->token = tft_arena_take(a, t->n_token, sizeof *t->token);
    t->bytes = tft_arena_take(a, (size_t)b->n_bytes, 1);
    t->entry = tft_arena_take(a, t->n_entry, sizeof *t->entry);
    t->special.name = tft_arena_take(a, b->n_special, sizeof *t->special.name);
    t->late.name = tft_arena_take(a, b->n_late, sizeof *t->late.name);
    t->late_bytes = tft_arena_take(a, b->n_late ? (size_t)b->n_bytes + b->n_late : 0, 1);
    t->suppressed = tft_arena_take(a, t->n_suppressed, sizeof *t->suppressed);
    t->rank = tft_arena_take(a, t->kind == TFT_VOCAB_SPM ? t->n_token : 0, sizeof *t->rank);
    if (t->kind == TFT_VOCAB_UNIGRAM)
        place_unigram(t, a, b);
    t->trie = tft_arena_take(a, t->kind == TFT_VOCAB_LONGEST, sizeof *t->trie);
    t->trie = t->kind == TFT_VOCAB_LONGEST ? t->trie : NULL;
    if (t->kind == TFT_VOCAB_WORDPIECE)
        place_wordpiece(t, a, b);
    t->pair = tft_arena_take(a, t->n_pair, sizeof *t->pair);
}

static enum tft_status allocate(struct tft_build *b)
{
    struct tft_tokenizer *t = b->t;
    struct tft_arena count = {0};
    t->n_entry = tft_vocab_table_size(t->n_token);
    t->n_suppressed = b->suppressed ? (uint32_t)b->suppressed->n : 0;
    t->n_pair = b->merges ? tft_vocab_table_size((uint32_t)b->merges->n) : 0;
    place(t, &count, b);
    t->size = count.used;
    struct tft_tokenizer *block = count.failed ? NULL : tft_alloc(t->allocator, count.used);
    if (!block)
        return no_memory(b);
    *block = *t;
    b->t = block;
    place(block, &(struct tft_arena){.base = (char *)block}, b);
    if (block->trie)
        *block->trie = (struct tft_trie){0};
    memset(block->entry, -1, block->n_entry * sizeof *block->entry);
    memset(block->pair, -1, block->n_pair * sizeof *block->pair);
    return TFT_OK;
}

static enum tft_status check(struct tft_build *b)
{
    enum tft_status status = tft_build_values(b);
    return status ? status : check_tokens(b);
}

static enum tft_status fill(struct tft_build *b)
{
    fill_tokens(b);
    fill_bytes(b->t);
    if (!tft_vocab_fill_table(b->t))
        return TFT_BAD(b, b->tokens,
                   "too many entries of tokenizer.ggml.tokens have the same hash: look-ups would "
                   "take too long");
    enum tft_status status = mark(b, TFT_KEY_NORMALIZED, TFT_TOKEN_LATE);
    if (!status)
        status = mark(b, TFT_KEY_NORMALIZED_SPACED, TFT_TOKEN_LATE | TFT_TOKEN_SPACED);
    if (!status)
        sort_names(b->t);
    if (!status)
        status = mark_strips(b);
    if (!status)
        status = mark(b, TFT_KEY_ENDS, TFT_TOKEN_ENDS);
    if (!status)
        status = fill_suppressed(b);
    if (!status && b->t->by_character)
        status = finish_by_character(b);
    if (!status && b->t->unigram)
        status = finish_unigram(b);
    if (!status && b->t->trie)
        status = finish_longest(b);
    if (!status && b->t->wordpiece)
        status = finish_wordpiece(b);
    if (!status && b->merges)
        status = tft_bpe_read_merges(b->t, b->s, b->merges, b->err);
    return status;
}

enum tft_status tft_vocab_read(struct tft_tokenizer **out, const struct tft_source *s,
                               const struct tft_allocator *a, struct tft_error *err)
{
    struct tft_tokenizer head = {.allocator = a};
    struct tft_build b = {.s = s, .err = err, .t = &head};
    *out = NULL;
    enum tft_status status = check(&b);
    if (!status)
        status = allocate(&b);
    if (status)
        return status;
    status = fill(&b);
    if (status)
        tft_vocab_free(b.t);
    else
        *out = b.t;
    return status;
}

void tft_vocab_free(struct tft_tokenizer *t)
{
    if (t->unigram)
        tft_trie_free(&t->unigram->trie, t);
    if (t->trie)
        tft_trie_free(t->trie, t);
    if (t->wordpiece)
        tft_trie_free(&t->wordpiece->trie, t);
    tft_free(t->allocator, t, t->size);
}
