/*
 * BPE of characters: SentencePiece's (google/sentencepiece bpe_model.cc), and Gemma 4's. Of all
 * adjacent pairs that together are a piece, the pair with the best score of the piece merges first;
 * with a list of merges, the pair listed first. Characters outside pieces at the end become the
 * tokens of their bytes.
 *
 * Gemma 4's merges do not cross the ends of lines, and a run of newlines that is a token becomes
 * that token (llama.cpp, llama-vocab.cpp): no merge contains newlines.
 *
 * Pieces and text have spaces in place of SentencePiece's U+2581. So U+2581 in a text is a space,
 * as in SentencePiece.
 */
#include "vocab.h"

#include <string.h>

#include "base/utf8.h"

/* Only normal tokens are pieces: "</s>" in a text is four characters, not the end of the text. */
static int32_t find_piece(const struct tft_tokenizer *t, const char *p, size_t n)
{
    int32_t id = n <= t->longest ? tft_vocab_find(t, p, n, tft_vocab_hash(t, p, n)) : -1;
    return id >= 0 && t->token[id].kind == TFT_TOKEN_NORMAL ? id : -1;
}

static bool join(const void *ctx, const struct tft_merge *m, uint32_t left, uint32_t right,
                 int32_t *id, uint32_t *rank)
{
    const struct tft_tokenizer *t = ctx;
    *id = find_piece(t, m->text + left, m->symbol[right].next - left);
    if (*id < 0)
        return false;
    *rank = t->rank[*id];
    return true;
}

/* The symbols are the characters; bytes that are not UTF-8 are symbols too. */
static void add_characters(const struct tft_tokenizer *t, struct tft_merge *m)
{
    for (uint32_t pos = 0, end; pos < m->n; pos = end) {
        uint32_t c;
        end = pos + (uint32_t)tft_utf8_next(m->text + pos, m->n - pos, &c);
        tft_merge_add(m, pos, end, find_piece(t, m->text + pos, end - pos));
    }
}

void tft_push_bytes(const struct tft_tokenizer *t, const char *p, size_t n, struct tft_ids *out)
{
    for (size_t i = 0; i < n; i++)
        if (t->byte[(unsigned char)p[i]] < 0) {
            if (out->last != t->unknown)
                tft_ids_push(out, t->unknown);
            return;
        }
    for (size_t i = 0; i < n; i++)
        tft_ids_push(out, t->byte[(unsigned char)p[i]]);
}

static void push_symbols(const struct tft_tokenizer *t, const struct tft_merge *m,
                         struct tft_ids *out)
{
    for (uint32_t pos = 0, end; pos < m->n; pos = end) {
        end = m->symbol[pos].next;
        if (m->symbol[pos].id >= 0)
            tft_ids_push(out, m->symbol[pos].id);
        else
            tft_push_bytes(t, m->text + pos, end - pos, out);
    }
}

size_t tft_space_length(const char *p, size_t n)
{
    if (n && *p == ' ')
        return 1;
    return n >= 3 && memcmp(p, "\xe2\x96\x81", 3) == 0 ? 3 : 0;
}

size_t tft_word_length(const char *p, size_t n)
{
    size_t len = 0, k;
    while ((k = tft_space_length(p + len, n - len)))
        len += k;
    while (len < n && !tft_space_length(p + len, n - len))
        len++;
    return len;
}

size_t tft_put_spaces(char *to, const char *p, size_t n)
{
    size_t len = 0;
    for (size_t i = 0, k; i < n; i += k ? k : 1) {
        k = tft_space_length(p + i, n - i);
        to[len++] = k ? ' ' : p[i];
    }
    return len;
}

/* Sets the text to merge: p[n] with spaces for U+2581, after a space if `space_first`. */
static void set_text(struct tft_merge *m, const char *p, size_t n, bool space_first)
{
    m->n = 0;
    if (space_first)
        m->text[m->n++] = ' ';
    m->n += (uint32_t)tft_put_spaces(m->text + m->n, p, n);
}

/* Encodes text[n]; no piece crosses its ends. */
static enum tft_status encode_part(const struct tft_tokenizer *t, struct tft_merge *m,
                                   const char *text, size_t n, bool space_first,
                                   struct tft_ids *out)
{
    for (size_t len; n; text += len, n -= len, space_first = false) {
        len = t->words_apart ? tft_word_length(text, n) : n;
        enum tft_status status = tft_merge_start(m, len + space_first, n + space_first);
        if (status)
            return status;
        set_text(m, text, len, space_first);
        add_characters(t, m);
        tft_merge_run(m, t->kind == TFT_VOCAB_SPM ? join : tft_bpe_join, t);
        push_symbols(t, m, out);
    }
    return TFT_OK;
}

enum tft_status tft_spm_encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text,
                               size_t n, bool first, struct tft_ids *out)
{
    if (t->kind == TFT_VOCAB_SPM)
        return encode_part(t, m, text, n, first && t->space_first, out);
    enum tft_status status = TFT_OK;
    struct tft_pieces pieces;
    const char *p;
    tft_pieces_start(&pieces, &t->rules, text, n);
    for (size_t len; !status && (len = tft_pieces_next(&pieces, &p));) {
        int32_t id = *p == '\n' ? find_piece(t, p, len) : -1;
        if (id >= 0)
            tft_ids_push(out, id);
        else
            status = encode_part(t, m, p, len, false, out);
    }
    return status;
}
