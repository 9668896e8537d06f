/*
 * Byte-level BPE (openai/gpt-2 encoder.py): text is cut into pieces, the symbols of a piece are its bytes, and of all
 * neighbours that tokenizer.ggml.merges lists the pair listed first merges first.
 *
 * A merge makes a token longer than its parts, so there can be no cycles, whatever the file says.
 */
#include "vocab.h"

#include <string.h>

#include "error.h"
#include "utf8.h"

/* ---- bytes as GPT-2 writes them */

/* Bytes that are printable characters of Latin-1 stand for themselves; the other 68 are U+0100 and up, in order. */
static int byte_of(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xff && c != 0xad))
        return (int)c;
    if (c < 0x100 || c > 0x143)
        return -1;
    c -= 0x100;
    return c < 0x21 ? (int)c : c < 0x43 ? (int)(c - 0x21 + 0x7f) : 0xad;
}

size_t tft_bpe_decode(struct tft_str s, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; n++) {
        uint32_t c;
        i += tft_utf8_next(s.p + i, s.n - i, &c);
        int byte = byte_of(c);
        if (byte < 0) {
            memcpy(out, s.p, s.n);
            return s.n;
        }
        out[n] = (char)byte;
    }
    return n;
}

/* ---- the table of pairs */

/* Where a pair is in the table, or the empty place where it belongs. */
static struct tft_pair *find_pair(const struct tft_tokenizer *t, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    for (uint32_t i = (uint32_t)(h >> 32) ^ (uint32_t)h;; i++) {
        struct tft_pair *pair = &t->pair[i & (t->n_pair - 1)];
        if (pair->id < 0 || (pair->left == left && pair->right == right))
            return pair;
    }
}

/* A merge, cut at its space: what it merges, and what it makes. */
struct merge {
    int32_t left, right, id; /* -1: not in the vocabulary */
};

static bool read_merge(const struct tft_tokenizer *t, struct tft_str s, struct merge *m)
{
    char bytes[2 * TFT_TOKEN_MAX];
    const char *cut = s.n ? memchr(s.p + 1, ' ', s.n - 1) : NULL;
    if (!cut || cut + 1 == s.p + s.n)
        return false;
    *m = (struct merge){-1, -1, -1};
    struct tft_str left = {s.p, (size_t)(cut - s.p)}, right = {cut + 1, s.n - left.n - 1};
    if (left.n > TFT_TOKEN_MAX || right.n > TFT_TOKEN_MAX)
        return true;
    size_t n_left = tft_bpe_decode(left, bytes), n_right = tft_bpe_decode(right, bytes + n_left);
    m->left = tft_vocab_find(t, bytes, n_left);
    m->right = tft_vocab_find(t, bytes + n_left, n_right);
    m->id = tft_vocab_find(t, bytes, n_left + n_right);
    return true;
}

/* Whether plain text may become this token. */
static bool is_plain(const struct tft_tokenizer *t, int32_t id)
{
    return t->token[id].kind == TFT_TOKEN_NORMAL || t->token[id].kind == TFT_TOKEN_USER;
}

/* The first of two equal merges counts. One that would make a control token of plain text never happens. */
static void add_merge(struct tft_tokenizer *t, struct merge m, uint32_t rank)
{
    struct tft_pair *pair = find_pair(t, (uint32_t)m.left, (uint32_t)m.right);
    if (pair->id < 0 && is_plain(t, m.left) && is_plain(t, m.right) && is_plain(t, m.id))
        *pair = (struct tft_pair){(uint32_t)m.left, (uint32_t)m.right, rank, m.id};
}

enum tft_status tft_bpe_read_merges(struct tft_tokenizer *t, const struct tft_source *s, const struct tft_value *merges,
                                    struct tft_error *err)
{
    const unsigned char *at = merges->data;
    for (uint32_t i = 0; i < merges->n; i++) {
        struct merge m;
        uint64_t offset = tft_vocab_offset(s, merges, at);
        struct tft_str text = tft_value_next_str(&at);
        if (!read_merge(t, text, &m))
            return tft_fail_at(err, TFT_ERR_FORMAT, s->name, offset,
                               "merge %u of tokenizer.ggml.merges is \"%.*s\", not two tokens with a space between", i,
                               TFT_STR_ARG(text));
        if (m.left < 0 || m.right < 0 || m.id < 0)
            return tft_fail_at(err, TFT_ERR_FORMAT, s->name, offset,
                               "merge %u of tokenizer.ggml.merges, \"%.*s\": %s not a token", i, TFT_STR_ARG(text),
                               m.left < 0 ? "the left part is" : m.right < 0 ? "the right part is" : "what it makes is");
        add_merge(t, m, i);
    }
    return TFT_OK;
}

/* ---- encoding */

static bool join(const void *ctx, const struct tft_merge *m, uint32_t left, uint32_t right, int32_t *id, uint32_t *rank)
{
    const struct tft_symbol *s = m->symbol;
    if (s[left].id < 0 || s[right].id < 0)
        return false;
    const struct tft_pair *pair = find_pair(ctx, (uint32_t)s[left].id, (uint32_t)s[right].id);
    *id = pair->id;
    *rank = pair->rank;
    return pair->id >= 0;
}

static void push(int32_t id, struct tft_ids *out)
{
    if (id >= 0)
        tft_ids_push(out, id);
}

/* The piece as the token it is as a whole, where the vocabulary goes by that. */
static bool push_whole(const struct tft_tokenizer *t, const char *p, size_t n, struct tft_ids *out)
{
    int32_t id = t->rules.whole_pieces ? tft_vocab_find(t, p, n) : -1;
    if (id < 0 || t->token[id].kind != TFT_TOKEN_NORMAL)
        return false;
    tft_ids_push(out, id);
    return true;
}

static enum tft_status encode_piece(const struct tft_tokenizer *t, struct tft_merge *m, const char *p, size_t n,
                                    size_t most, struct tft_ids *out)
{
    if (push_whole(t, p, n, out))
        return TFT_OK;
    enum tft_status status = tft_merge_start(m, n, most);
    if (status)
        return status;
    for (uint32_t at = 0; at < n; at++)
        tft_merge_put(m, at, at + 1, t->byte[(unsigned char)p[at]]);
    tft_merge_run(m, join, t);
    for (uint32_t at = 0; at < n; at = m->symbol[at].next)
        push(m->symbol[at].id, out);
    return TFT_OK;
}

enum tft_status tft_bpe_encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text, size_t n,
                               struct tft_ids *out)
{
    enum tft_status status = TFT_OK;
    for (size_t len; !status && n; text += len, n -= len) {
        len = tft_pretokenize_next(t->rules, text, n);
        status = encode_piece(t, m, text, len, n, out);
    }
    return status;
}
