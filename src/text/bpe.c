/*
 * Byte-level BPE (openai/gpt-2 encoder.py). The text is cut into pieces. The symbols of a piece are
 * its bytes. Of all adjacent pairs in the list tokenizer.ggml.merges, the pair listed first merges
 * first.
 *
 * A merged token is longer than its parts, so no file can make a cycle of merges.
 */
#include "vocab.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

/* ---- GPT-2's characters for bytes */

/* The byte of the character c, or -1. A printable character of Latin-1 is its own byte; U+0100 and
   the 67 characters after it are the other bytes in order. */
static int byte_of_character(uint32_t c)
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
        int byte = byte_of_character(c);
        if (byte < 0) {
            memcpy(out, s.p, s.n);
            return s.n;
        }
        out[n] = (char)byte;
    }
    return n;
}

/* ---- the table of pairs */

static uint32_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return (uint32_t)(h ^ h >> 32);
}

/* The entry of a pair, or the empty entry for the pair; NULL after TFT_PROBE_MAX other entries. */
static struct tft_pair *find_pair(const struct tft_tokenizer *t, uint32_t left, uint32_t right)
{
    uint32_t h = pair_hash(left, right);
    for (uint32_t i = 0; i < TFT_PROBE_MAX; i++) {
        struct tft_pair *pair = &t->pair[(h + i) & (t->n_pair - 1)];
        if (pair->id < 0 || (pair->left == left && pair->right == right))
            return pair;
    }
    return NULL;
}

/* ---- merges */

/* Merges are read in batches. Nearly all the time is cache misses in the hash tables, and in a
   batch the CPU waits for several misses at once. This halves the time to open a vocabulary. */
enum { BATCH = 8 };

struct merge {
    uint64_t offset; /* in the file, for messages */
    struct tft_str text;
    char bytes[2 * TFT_TOKEN_MAX]; /* of the left part, then of the right part */
    size_t n_left, n_right;
    uint32_t hash_left, hash_right, hash_id;
    int32_t left, right, id; /* the two tokens and the merged token; -1: not a token */
};

struct reader {
    struct tft_tokenizer *t;
    const struct tft_source *s;
    struct tft_error *err;
    struct merge batch[BATCH];
};

#define BAD(r, m, ...) tft_fail_at((r)->err, TFT_ERR_FORMAT, (r)->s->name, (m)->offset, __VA_ARGS__)

/* Cuts the text of a merge at its space; false if the text has no space. A part longer than any
   token becomes empty, and so is not a token. */
static bool cut_merge(const struct tft_tokenizer *t, struct merge *m)
{
    const char *p = m->text.p, *cut = m->text.n ? memchr(p + 1, ' ', m->text.n - 1) : NULL;
    if (!cut || cut + 1 == p + m->text.n)
        return false;
    struct tft_str left = {p, (size_t)(cut - p)}, right = {cut + 1, m->text.n - left.n - 1};
    m->n_left = left.n <= TFT_TOKEN_MAX ? tft_vocab_decode(t, left, m->bytes) : 0;
    m->n_right = right.n <= TFT_TOKEN_MAX ? tft_vocab_decode(t, right, m->bytes + m->n_left) : 0;
    m->hash_left = tft_vocab_hash(t, m->bytes, m->n_left);
    m->hash_right = tft_vocab_hash(t, m->bytes + m->n_left, m->n_right);
    m->hash_id = tft_vocab_hash(t, m->bytes, m->n_left + m->n_right);
    return true;
}

static void look_up(const struct tft_tokenizer *t, struct merge *m)
{
    m->left = tft_vocab_find(t, m->bytes, m->n_left, m->hash_left);
    m->right = tft_vocab_find(t, m->bytes + m->n_left, m->n_right, m->hash_right);
    m->id = tft_vocab_find(t, m->bytes, m->n_left + m->n_right, m->hash_id);
    __builtin_prefetch(
        &t->pair[pair_hash((uint32_t)m->left, (uint32_t)m->right) & (t->n_pair - 1)]);
}

/* Whether text without special tokens can become this token. */
static bool is_plain(const struct tft_tokenizer *t, int32_t id)
{
    return t->token[id].kind == TFT_TOKEN_NORMAL || t->token[id].kind == TFT_TOKEN_USER;
}

/* Enters a merge, unless an earlier merge is equal, or the merge would turn plain text into a
   control token. */
static enum tft_status add_merge(struct reader *r, const struct merge *m, uint32_t rank)
{
    struct tft_tokenizer *t = r->t;
    if (m->left < 0 || m->right < 0 || m->id < 0)
        return BAD(r, m, "merge %u of tokenizer.ggml.merges, \"%.*s\": %s not a token", rank,
                   TFT_STR_ARG(m->text),
                   m->left < 0    ? "the left part is"
                   : m->right < 0 ? "the right part is"
                                  : "the two parts together are");
    struct tft_pair *pair = find_pair(t, (uint32_t)m->left, (uint32_t)m->right);
    if (!pair)
        return BAD(r, m,
                   "too many entries of tokenizer.ggml.merges have the same hash: look-ups would "
                   "take too long");
    if (pair->id < 0 && is_plain(t, m->left) && is_plain(t, m->right) && is_plain(t, m->id))
        *pair = (struct tft_pair){(uint32_t)m->left, (uint32_t)m->right, rank, m->id};
    return TFT_OK;
}

/* Reads n <= BATCH merges, from number `first` on. */
static enum tft_status read_batch(struct reader *r, const struct tft_value *merges,
                                  const unsigned char **next, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct merge *m = &r->batch[i];
        m->offset = tft_vocab_offset(r->s, merges, *next);
        m->text = tft_value_next_str(next);
        if (!cut_merge(r->t, m))
            return BAD(r, m,
                       "merge %u of tokenizer.ggml.merges is \"%.*s\", not two tokens and a space "
                       "between them",
                       first + i, TFT_STR_ARG(m->text));
    }
    for (uint32_t i = 0; i < n; i++)
        look_up(r->t, &r->batch[i]);
    enum tft_status status = TFT_OK;
    for (uint32_t i = 0; !status && i < n; i++)
        status = add_merge(r, &r->batch[i], first + i);
    return status;
}

enum tft_status tft_bpe_read_merges(struct tft_tokenizer *t, const struct tft_source *s,
                                    const struct tft_value *merges, struct tft_error *err)
{
    struct reader r = {.t = t, .s = s, .err = err};
    const unsigned char *next = merges->data;
    enum tft_status status = TFT_OK;
    uint32_t n = (uint32_t)merges->n;
    for (uint32_t i = 0; !status && i < n; i += BATCH)
        status = read_batch(&r, merges, &next, i, n - i < BATCH ? n - i : BATCH);
    return status;
}

/* ---- encoding */

bool tft_bpe_join(const void *ctx, const struct tft_merge *m, uint32_t left, uint32_t right,
                  int32_t *id, uint32_t *rank)
{
    const struct tft_symbol *s = m->symbol;
    if (s[left].id < 0 || s[right].id < 0)
        return false;
    const struct tft_pair *pair = find_pair(ctx, (uint32_t)s[left].id, (uint32_t)s[right].id);
    if (!pair || pair->id < 0)
        return false;
    *id = pair->id;
    *rank = pair->rank;
    return true;
}

/* Pushes the whole piece as one token, if the rule whole_pieces and the vocabulary allow it. */
static bool push_whole(const struct tft_tokenizer *t, const char *p, size_t n, struct tft_ids *out)
{
    if (!t->rules.whole_pieces || n > t->longest)
        return false;
    int32_t id = tft_vocab_find(t, p, n, tft_vocab_hash(t, p, n));
    if (id < 0 || t->token[id].kind != TFT_TOKEN_NORMAL)
        return false;
    tft_ids_push(out, id);
    return true;
}

/* The symbols are the bytes. A byte without a token is dropped, so that its neighbours merge: it
   belongs to the symbol before it, or to the first. */
static void add_bytes(const struct tft_tokenizer *t, struct tft_merge *m, const char *p, size_t n)
{
    for (uint32_t pos = 0, end; pos < n; pos = end) {
        int32_t id = t->byte[(unsigned char)p[pos]];
        for (end = pos + 1; end < n; end++) {
            int32_t next = t->byte[(unsigned char)p[end]];
            if (id >= 0 && next >= 0)
                break;
            id = id < 0 ? next : id;
        }
        tft_merge_add(m, pos, end, id);
    }
}

static enum tft_status encode_piece(const struct tft_tokenizer *t, struct tft_merge *m,
                                    const char *p, size_t n, size_t longest, struct tft_ids *out)
{
    if (push_whole(t, p, n, out))
        return TFT_OK;
    enum tft_status status = tft_merge_start(m, n, longest);
    if (status)
        return status;
    add_bytes(t, m, p, n);
    tft_merge_run(m, tft_bpe_join, t);
    for (uint32_t pos = 0; pos < n; pos = m->symbol[pos].next)
        if (m->symbol[pos].id >= 0)
            tft_ids_push(out, m->symbol[pos].id);
    return TFT_OK;
}

enum tft_status tft_bpe_encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text,
                               size_t n, struct tft_ids *out)
{
    enum tft_status status = TFT_OK;
    const char *end = text + n, *piece;
    struct tft_pieces pieces;
    tft_pieces_start(&pieces, &t->rules, text, n);
    for (size_t len; !status && (len = tft_pieces_next(&pieces, &piece));)
        status = encode_piece(t, m, piece, len, (size_t)(end - piece), out);
    return status;
}
