#include "tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "vocab.h"

enum tft_status tft_tokenizer_open(struct tft_tokenizer **out, const struct tft_source *s,
                                   const struct tft_allocator *a, struct tft_error *err)
{
    return tft_vocab_read(out, s, a, err);
}

void tft_tokenizer_close(struct tft_tokenizer *t)
{
    if (t)
        tft_free(t->allocator, t, t->size);
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

static bool is_token(const struct tft_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->n_token;
}

bool tft_tokenizer_ends(const struct tft_tokenizer *t, int32_t id)
{
    return is_token(t, id) && t->token[id].ends;
}

/* ---- to tokens */

/* The bytes before the first special token, which is `*id` and has `*skip` bytes; n if there is
   none. */
static size_t plain_length(const struct tft_tokenizer *t, const char *text, size_t n, bool control,
                           int32_t *id, size_t *skip)
{
    size_t at = 0;
    for (*skip = 0; at < n; at++) {
        *skip = tft_special_match(t, text + at, n - at, control, id);
        if (*skip)
            break;
    }
    return at;
}

/* As in llama.cpp, SentencePiece text after a special token gets the space that goes before a first
   word. */
static enum tft_status encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text,
                              size_t n, bool control, struct tft_ids *out)
{
    for (size_t len, skip; n; text += len + skip, n -= len + skip) {
        int32_t id = -1;
        len = plain_length(t, text, n, control, &id, &skip);
        enum tft_status status = TFT_OK;
        if (len)
            status = (t->is_spm ? tft_spm_encode : tft_bpe_encode)(t, m, text, len, out);
        if (status)
            return status;
        if (skip)
            tft_ids_push(out, id);
    }
    return TFT_OK;
}

enum tft_status tft_tokenizer_encode(const struct tft_tokenizer *t, const char *text, size_t len,
                                     unsigned flags, int32_t *ids, size_t cap, size_t *n)
{
    *n = 0;
    if (len > INT32_MAX || (flags & ~(unsigned)(TFT_ADD_BOS | TFT_PARSE_SPECIAL)))
        return TFT_ERR_ARG;
    struct tft_ids out = {.ids = ids, .cap = cap, .last = -1};
    if ((flags & TFT_ADD_BOS) && t->add_bos)
        tft_ids_push(&out, t->bos);

    struct tft_merge m;
    tft_merge_init(&m, t->allocator);
    enum tft_status status = encode(t, &m, text, len, flags & TFT_PARSE_SPECIAL, &out);
    tft_merge_free(&m);
    if (!status)
        *n = out.n;
    return status;
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
    return t->bytes + t->token[id].at;
}

/* The same, without the space that encoding put first. One of a user token was in the text. */
static const char *text_to_push(const struct tft_tokenizer *t, struct tft_text *state, int32_t id,
                                size_t *n)
{
    const char *p = tft_tokenizer_text(t, id, false, n);
    if (!*n)
        return p;
    bool drop = t->is_spm && t->space_first && !state->started && *p == ' ' &&
                t->token[id].kind != TFT_TOKEN_USER;
    state->started = true;
    *n -= drop;
    return p + drop;
}

/* Whole characters of in[0..n) to out, U+FFFD for what is none. What may still become one is held,
   but at the end. */
static size_t push_characters(struct tft_text *state, const char *in, size_t n, bool end, char *out)
{
    size_t written = 0;
    state->held = 0;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = tft_utf8_next(in + at, n - at, &c);
        if (c == TFT_UTF8_CUT && !end) {
            memcpy(state->bytes, in + at, len);
            state->held = (unsigned char)len;
        } else if (c >= TFT_UTF8_BAD) {
            memcpy(out + written, "\xef\xbf\xbd", 3);
            written += 3;
        } else {
            memcpy(out + written, in + at, len);
            written += len;
        }
    }
    return written;
}

/* At most 3 held bytes and TFT_TOKEN_MAX of a token go in. A byte in no character becomes 3, and
   none becomes more. */
_Static_assert(3 * (3 + TFT_TOKEN_MAX) <= TFT_TEXT_MAX,
               "what a token completes must fit the caller's buffer");

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
