#include "unigram.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* ---- normalisation */

/* The output of normalisation: p[n], or only a count of bytes. */
struct writer {
    const struct tft_tokenizer *t;
    char *p;
    size_t n;
    bool space_first; /* put a space before the first word */
    bool word;    /* the last character was not a space */
    bool started; /* such a character has come */
};

static void put(struct writer *w, char c)
{
    if (w->p)
        w->p[w->n] = c;
    w->n++;
}

static void put_space(struct writer *w)
{
    w->word = false;
    if (!w->t->unigram->merges_spaces)
        put(w, ' ');
}

/* Puts text without spaces, after a space if a word begins and needs one. */
static void put_text(struct writer *w, const char *p, size_t n)
{
    bool merged = w->t->unigram->merges_spaces && w->started;
    if (!w->word && (merged || (w->space_first && !w->started)))
        put(w, ' ');
    w->word = w->started = true;
    for (size_t i = 0; i < n; i++)
        put(w, p[i]);
}

/* U+2581 is a space, as in SentencePiece. */
static void put_normal(struct writer *w, const char *p, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        len = tft_space_length(p + i, n - i);
        if (len) {
            put_space(w);
        } else {
            len = 1;
            put_text(w, p + i, 1);
        }
    }
}

/* Bytes that are not UTF-8 become U+FFFD, as in SentencePiece. */
static void normalise(struct writer *w, const char *text, size_t n)
{
    const struct tft_charsmap *map = &w->t->unigram->map;
    for (size_t len; n; text += len, n -= len) {
        uint32_t c;
        const char *to = tft_charsmap_find(map, text, n, &len);
        if (to) {
            put_normal(w, to, strlen(to));
            continue;
        }
        len = tft_utf8_next(text, n, &c);
        if (c < TFT_UTF8_BAD)
            put_normal(w, text, len);
        else
            put_normal(w, "\xef\xbf\xbd", 3);
    }
}

/* ---- the best path */

/* The best way to cut the text up to a position. */
struct step {
    double score;
    uint32_t from; /* the start of the last piece */
    int32_t id;    /* the token of the piece; NONE: an unknown character; UNSEEN: no way yet */
};
enum { NONE = -1, UNSEEN = -2 };

static void offer(struct step *step, double score, uint32_t from, int32_t id)
{
    if (step->id == UNSEEN || score > step->score)
        *step = (struct step){score, from, id};
}

static void find_path(const struct tft_tokenizer *t, const char *text, uint32_t n,
                      struct step *step)
{
    const struct tft_unigram *u = t->unigram;
    for (uint32_t i = 0; i <= n; i++)
        step[i].id = UNSEEN;
    step[0] = (struct step){0, 0, NONE};
    for (uint32_t pos = 0, next; pos < n; pos = next) {
        uint32_t c;
        next = pos + (uint32_t)tft_utf8_next(text + pos, n - pos, &c);
        bool whole = false;
        const struct tft_trie_node *node = u->trie.node;
        for (uint32_t end = pos; end < n; end++) {
            node = tft_trie_child(&u->trie, node, (unsigned char)text[end]);
            if (!node)
                break;
            if (node->id < 0)
                continue;
            whole = whole || end + 1 == next;
            offer(&step[end + 1], step[pos].score + u->score[node->id], pos, node->id);
        }
        if (!whole)
            offer(&step[next], step[pos].score + u->unknown, pos, NONE);
    }
}

/* Reverses the links `from`, which lead back from the end: `from` becomes the end of the piece that
   begins at a position. Then pushes the pieces in order. */
static void push_path(const struct tft_tokenizer *t, const char *text, uint32_t n,
                      struct step *step, struct tft_ids *out)
{
    int32_t id = NONE;
    for (uint32_t pos = n, end = n;;) {
        struct step s = step[pos];
        step[pos].from = end;
        step[pos].id = id;
        if (!pos)
            break;
        end = pos;
        id = s.id;
        pos = s.from;
    }
    for (uint32_t pos = 0; pos < n; pos = step[pos].from)
        if (step[pos].id >= 0)
            tft_ids_push(out, step[pos].id);
        else
            tft_push_bytes(t, text + pos, step[pos].from - pos, out);
}

enum tft_status tft_unigram_encode(const struct tft_tokenizer *t, const char *text, size_t n,
                                   bool first, struct tft_ids *out)
{
    struct writer count = {.t = t, .space_first = first && t->space_first};
    normalise(&count, text, n);
    if (!count.n)
        return TFT_OK;
    if (count.n > UINT32_MAX)
        return TFT_ERR_NOMEM;
    struct writer w = {
        .t = t, .space_first = count.space_first, .p = tft_alloc(t->allocator, count.n)};
    if (!w.p)
        return TFT_ERR_NOMEM;
    normalise(&w, text, n);

    size_t longest = t->words_apart ? 0 : w.n, size;
    for (size_t pos = 0, len; t->words_apart && pos < w.n; pos += len) {
        len = tft_word_length(w.p + pos, w.n - pos);
        longest = len > longest ? len : longest;
    }
    bool fits = tft_mul(longest + 1, sizeof(struct step), &size);
    struct step *step = fits ? tft_alloc(t->allocator, size) : NULL;
    for (size_t pos = 0, len; step && pos < w.n; pos += len) {
        len = t->words_apart ? tft_word_length(w.p + pos, w.n - pos) : w.n;
        find_path(t, w.p + pos, (uint32_t)len, step);
        push_path(t, w.p + pos, (uint32_t)len, step, out);
    }
    if (step)
        tft_free(t->allocator, step, size);
    tft_free(t->allocator, w.p, w.n);
    return step ? TFT_OK : TFT_ERR_NOMEM;
}
