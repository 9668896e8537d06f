#include "tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "character.h"
#include "nfc.h"
#include "vocab_build.h"

enum tft_status tft_tokenizer_open(struct tft_tokenizer **out, const struct tft_source *s,
                                   const struct tft_allocator *a, struct tft_error *err)
{
    return tft_vocab_read(out, s, a, err);
}

void tft_tokenizer_close(struct tft_tokenizer *t)
{
    if (t)
        tft_vocab_free(t);
}

uint32_t tft_tokenizer_size(const struct tft_tokenizer *t)
{
    return t->n_token;
}

int32_t tft_tokenizer_bos(const struct tft_tokenizer *t)
{
    return t->bos;
}

int32_t tft_tokenizer_eos(const struct tft_tokenizer *t)
{
    return t->eos;
}

int32_t tft_tokenizer_fim(const struct tft_tokenizer *t, enum tft_fim part)
{
    return (unsigned)part <= TFT_FIM_MIDDLE ? t->fim[part] : -1;
}

const int32_t *tft_tokenizer_suppressed(const struct tft_tokenizer *t, uint32_t *n)
{
    *n = t->n_suppressed;
    return t->suppressed;
}

static bool is_token(const struct tft_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->n_token;
}

bool tft_tokenizer_adds_eos(const struct tft_tokenizer *t) { return t->add_eos; }

bool tft_tokenizer_ends(const struct tft_tokenizer *t, int32_t id)
{
    return is_token(t, id) && t->token[id].flags & TFT_TOKEN_ENDS;
}

/* ---- to tokens */

/* A text, and the spans where names of control tokens are read. */
struct marked {
    const char *p;               /* [n] */
    size_t n;
    const struct tft_span *span; /* [n_span] in order, disjoint; passed spans are dropped */
    size_t n_span;
    bool goes_on;   /* the text continues another text */
    bool drops_bos; /* a BOS at the start of the text is left out */
};

/* The number of bytes from `at` on in the same span. */
static size_t in_span(struct marked *text, size_t at)
{
    while (text->n_span && text->span->end <= at)
        text->span++, text->n_span--;
    return text->n_span && text->span->begin <= at ? text->span->end - at : 0;
}

/* The number of bytes from `at` on before the first special token, *id, of *skip bytes. Without a
   special token, the number of all bytes, and *skip = 0. */
static size_t plain_length(const struct tft_tokenizer *t, struct marked *text, size_t at,
                           int32_t *id, size_t *skip)
{
    size_t pos = at;
    for (*skip = 0; pos < text->n; pos++) {
        size_t trusted = in_span(text, pos);
        *skip = tft_special_match(t, &t->special, text->p + pos, text->n - pos, trusted, id);
        if (*skip)
            break;
    }
    return pos - at;
}

/* The length of the white space at the start of text[n]; next, at the end. */
static size_t leading_spaces(const char *text, size_t n)
{
    return (size_t)(tft_skip(tft_look(text, text + n), TFT_SPACES).p - text);
}

static size_t trailing_spaces(const char *text, size_t n)
{
    size_t end = n;
    for (size_t start = n; start; ) {
        do
            start--;
        while (start && end - start < 4 && ((unsigned char)text[start] & 0xc0) == 0x80);
        struct tft_position a = tft_look(text + start, text + end);
        if (!(a.kind & TFT_SPACES) || a.n != end - start)
            break;
        end = start;
    }
    return n - end;
}

/* Encodes text[n], in which spaces are put, with tokens of t->late. */
static enum tft_status encode_with_late(const struct tft_tokenizer *t, struct tft_merge *m,
                                        const char *text, size_t n, struct tft_ids *out)
{
    enum tft_status status = TFT_OK;
    size_t begin = 0;
    for (size_t pos = 0; pos < n && !status;) {
        int32_t id;
        size_t skip = tft_special_match(t, &t->late, text + pos, n - pos, 0, &id);
        if (!skip) {
            pos++;
            continue;
        }
        if (pos > begin)
            status = tft_spm_encode(t, m, text + begin, pos - begin, false, out);
        tft_ids_push(out, id);
        begin = pos += skip;
    }
    return status || begin == n ? status
                                : tft_spm_encode(t, m, text + begin, n - begin, false, out);
}

/* Puts spaces in text[n], and encodes it. */
static enum tft_status encode_spaced(const struct tft_tokenizer *t, struct tft_merge *m,
                                     const char *text, size_t n, bool first, struct tft_ids *out)
{
    char *spaced = tft_alloc(t->allocator, n + 1);
    if (!spaced)
        return TFT_ERR_NOMEM;
    bool space = first && t->space_first;
    *spaced = ' ';
    enum tft_status status =
        encode_with_late(t, m, spaced, space + tft_put_spaces(spaced + space, text, n), out);
    tft_free(t->allocator, spaced, n + 1);
    return status;
}

/* Encodes text without special tokens. */
static enum tft_status encode_plain(const struct tft_tokenizer *t, struct tft_merge *m,
                                    const char *text, size_t n, bool first, struct tft_ids *out)
{
    if (t->late.n)
        return encode_spaced(t, m, text, n, first, out);
    if (t->unigram)
        return tft_unigram_encode(t, text, n, first, out);
    if (t->wordpiece) {
        tft_wordpiece_encode(t, text, n, out);
        return TFT_OK;
    }
    if (t->trie) {
        tft_longest_encode(t, text, n, out);
        return TFT_OK;
    }
    return t->by_character ? tft_spm_encode(t, m, text, n, first, out)
                           : tft_bpe_encode(t, m, text, n, out);
}

static enum tft_status encode_composed(const struct tft_tokenizer *t, struct tft_merge *m,
                                       const char *text, size_t n, bool first,
                                       struct tft_ids *out)
{
    size_t size, n_composed;
    char *composed = tft_mul(n, TFT_NFC_MAX, &size) ? tft_alloc(t->allocator, size) : NULL;
    if (!composed)
        return TFT_ERR_NOMEM;
    enum tft_status status = tft_nfc(text, n, t->allocator, composed, &n_composed);
    if (!status && n_composed > INT32_MAX) /* the limit of encode_plain */
        status = TFT_ERR_NOMEM;
    if (!status)
        status = encode_plain(t, m, composed, n_composed, first, out);
    tft_free(t->allocator, composed, size);
    return status;
}

/* Whether a space goes before text[n], the part of the text from `at` on. With SentencePiece, text
   after a special token gets a space too, as in llama.cpp, unless the file says otherwise. */
static bool takes_space(const struct tft_tokenizer *t, const struct marked *marked, size_t at,
                        const char *text, size_t n)
{
    if (at ? t->space_at_start : marked->goes_on)
        return false;
    return !t->space_if_none || !tft_space_length(text, n);
}

/* text[n], the part of the text from `at` on, without the white space that the vocabulary drops. */
static struct tft_str stripped(const struct tft_tokenizer *t, const struct marked *marked,
                               size_t at, const char *text, size_t n)
{
    size_t lead = t->strip_left && (at || !marked->goes_on) ? leading_spaces(text, n) : 0;
    size_t tail = t->strip_right ? trailing_spaces(text + lead, n - lead) : 0;
    return (struct tft_str){text + lead, n - lead - tail};
}

static enum tft_status encode(const struct tft_tokenizer *t, struct tft_merge *m,
                              struct marked *marked, struct tft_ids *out)
{
    for (size_t at = 0, len, skip; at < marked->n; at += len + skip) {
        const char *text = marked->p + at;
        size_t n = marked->n - at;
        int32_t id = -1;
        len = plain_length(t, marked, at, &id, &skip);
        unsigned flags = skip ? t->token[id].flags : 0;
        size_t plain = flags & TFT_TOKEN_LSTRIP ? len - trailing_spaces(text, len) : len;
        struct tft_str part = stripped(t, marked, at, text, plain);
        bool first = takes_space(t, marked, at, part.p, part.n);
        enum tft_status status = TFT_OK;
        if (part.n && t->nfc && tft_nfc_may_change(part.p, part.n))
            status = encode_composed(t, m, part.p, part.n, first, out);
        else if (part.n)
            status = encode_plain(t, m, part.p, part.n, first, out);
        if (status)
            return status;
        if (skip && !(marked->drops_bos && at + len == 0 && id == t->bos))
            tft_ids_push(out, id);
        if (flags & TFT_TOKEN_RSTRIP)
            skip += leading_spaces(text + len + skip, n - len - skip);
    }
    return TFT_OK;
}

/* Whether the spans are in order, disjoint, and within the text. */
static bool valid_spans(const struct tft_span *span, size_t n_span, size_t len)
{
    for (size_t i = 0, end = 0; i < n_span; end = span[i++].end)
        if (span[i].begin < end || span[i].end < span[i].begin || span[i].end > len)
            return false;
    return true;
}

enum tft_status tft_tokenizer_encode_spans(const struct tft_tokenizer *t, const char *text,
                                           size_t len, const struct tft_span *span, size_t n_span,
                                           unsigned flags, int32_t *ids, size_t cap, size_t *n)
{
    *n = 0;
    if (len > INT32_MAX ||
        (flags & ~(unsigned)(TFT_ADD_BOS | TFT_ADD_EOS | TFT_CONTINUE | TFT_HAS_BOS)) ||
        !valid_spans(span, n_span, len))
        return TFT_ERR_ARG;
    bool adds_bos = (flags & TFT_ADD_BOS) && t->add_bos;
    struct marked marked = {text, len, span, n_span, flags & TFT_CONTINUE,
                            adds_bos || (flags & TFT_HAS_BOS)};
    struct tft_ids out = {.ids = ids, .cap = cap, .last = -1};
    if (adds_bos)
        tft_ids_push(&out, t->bos);

    struct tft_merge m;
    tft_merge_init(&m, t->allocator);
    enum tft_status status = encode(t, &m, &marked, &out);
    tft_merge_free(&m);
    if ((flags & TFT_ADD_EOS) && t->add_eos)
        tft_ids_push(&out, t->eos);
    if (!status)
        *n = out.n;
    return status;
}

/* Appends a text of a pair, and its EOS. */
static enum tft_status encode_of_pair(const struct tft_tokenizer *t, struct tft_merge *m,
                                      struct tft_str text, bool trusted, bool drops_bos,
                                      struct tft_ids *out)
{
    const struct tft_span all = {0, text.n};
    struct marked marked = {text.p, text.n, &all, trusted, false, drops_bos};
    enum tft_status status = encode(t, m, &marked, out);
    if (t->add_eos)
        tft_ids_push(out, t->eos);
    return status;
}

enum tft_status tft_tokenizer_encode_pair(const struct tft_tokenizer *t, struct tft_str first,
                                          struct tft_str second, unsigned flags, int32_t *ids,
                                          unsigned char *types, size_t cap, size_t *n)
{
    *n = 0;
    if (!t->add_eos && !t->add_sep)
        return TFT_ERR_UNSUPPORTED;
    if (first.n > INT32_MAX || second.n > INT32_MAX ||
        (flags & ~(unsigned)(TFT_ADD_BOS | TFT_PARSE_SPECIAL | TFT_HAS_BOS)))
        return TFT_ERR_ARG;
    struct tft_ids out = {.ids = ids, .cap = cap, .last = -1};
    bool adds_bos = (flags & TFT_ADD_BOS) && t->add_bos, trusted = flags & TFT_PARSE_SPECIAL;
    struct tft_merge m;
    tft_merge_init(&m, t->allocator);
    if (adds_bos)
        tft_ids_push(&out, t->bos);
    enum tft_status status =
        encode_of_pair(t, &m, first, trusted, adds_bos || (flags & TFT_HAS_BOS), &out);
    if (t->add_sep)
        tft_ids_push(&out, t->sep);
    size_t n_first = out.n;
    if (!status)
        status = encode_of_pair(t, &m, second, trusted, false, &out);
    tft_merge_free(&m);
    for (size_t i = 0; types && i < out.n && i < cap; i++)
        types[i] = i >= n_first && t->two_types;
    if (!status)
        *n = out.n;
    return status;
}

enum tft_status tft_tokenizer_encode(const struct tft_tokenizer *t, const char *text, size_t len,
                                     unsigned flags, int32_t *ids, size_t cap, size_t *n)
{
    const struct tft_span all = {0, len};
    return tft_tokenizer_encode_spans(t, text, len, &all, flags & TFT_PARSE_SPECIAL ? 1 : 0,
                                      flags & ~(unsigned)TFT_PARSE_SPECIAL, ids, cap, n);
}

/* ---- to text */

static bool has_text(const struct tft_token *token)
{
    return token->kind == TFT_TOKEN_NORMAL || token->kind == TFT_TOKEN_USER ||
           token->kind == TFT_TOKEN_BYTE;
}

const char *tft_tokenizer_text(const struct tft_tokenizer *t, int32_t id, bool special, size_t *len)
{
    *len = 0;
    if (!is_token(t, id))
        return NULL;
    if (special || has_text(&t->token[id]))
        *len = t->token[id].n;
    return t->bytes + t->token[id].offset;
}

/* Whether WordPiece's p[n] is a mark that has no space before it in most texts: the token says
   nothing of the space that was there. */
static bool ends_a_phrase(const char *p, size_t n)
{
    return n == 2 && *p == ' ' && memchr(".,!?", p[1], 4);
}

/* The text of a token, without the space that encoding put before the first word. A space of a user
   token was in the text and stays. */
static const char *text_to_push(const struct tft_tokenizer *t, struct tft_text *state, int32_t id,
                                size_t *n)
{
    const char *p = tft_tokenizer_text(t, id, false, n);
    if (!*n)
        return p;
    bool first =
        t->space_first && !state->started && *p == ' ' && t->token[id].kind != TFT_TOKEN_USER;
    bool drop = first || (t->wordpiece && ends_a_phrase(p, *n));
    state->started = true;
    *n -= drop;
    return p + drop;
}

/* Writes the characters of in[n] to out, with U+FFFD for invalid bytes, and returns the length.
   Holds the bytes of an incomplete character at the end of `in`, unless the text ends. */
static size_t push_characters(struct tft_text *state, const char *in, size_t n, bool end, char *out)
{
    size_t written = 0;
    state->held = 0;
    for (size_t pos = 0, len; pos < n; pos += len) {
        uint32_t c;
        len = tft_utf8_next(in + pos, n - pos, &c);
        if (c == TFT_UTF8_CUT && !end) {
            memcpy(state->bytes, in + pos, len);
            state->held = (unsigned char)len;
        } else if (c >= TFT_UTF8_BAD) {
            memcpy(out + written, "\xef\xbf\xbd", 3);
            written += 3;
        } else {
            memcpy(out + written, in + pos, len);
            written += len;
        }
    }
    return written;
}

/* The input is at most 3 held bytes and TFT_TOKEN_MAX bytes of a token. Each byte becomes at most 3
   bytes: U+FFFD for an invalid byte. */
_Static_assert(3 * (3 + TFT_TOKEN_MAX) <= TFT_TEXT_MAX,
               "the text of a token fits the caller's buffer");

size_t tft_tokenizer_push(const struct tft_tokenizer *t, struct tft_text *state, int32_t id,
                          char out[TFT_TEXT_MAX])
{
    char in[3 + TFT_TOKEN_MAX];
    size_t held = state->held <= 3 ? state->held : 0, n;
    const char *p = text_to_push(t, state, id, &n);
    memcpy(in, state->bytes, held);
    if (n)
        memcpy(in + held, p, n);
    return push_characters(state, in, held + n, id == -1, out);
}
