#include "wordpiece.h"

#include "base/utf8.h"
#include "character.h"
#include "nfc.h"
#include "wordpiece_tables.h"

/* ---- characters */

static bool is_nonspacing(uint32_t c)
{
    size_t low = 0, high = sizeof tft_mark_ranges / sizeof *tft_mark_ranges;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (tft_mark_ranges[mid][1] < c)
            low = mid + 1;
        else if (tft_mark_ranges[mid][0] > c)
            high = mid;
        else
            return true;
    }
    return false;
}

static uint32_t lower(uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c;
    size_t low = 0, high = sizeof tft_lower_cases / sizeof *tft_lower_cases;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (tft_lower_cases[mid].last < c)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == sizeof tft_lower_cases / sizeof *tft_lower_cases || c < tft_lower_cases[low].first ||
        (c - tft_lower_cases[low].first) % (uint32_t)tft_lower_cases[low].step)
        return c;
    return (uint32_t)((int32_t)c + tft_lower_cases[low].add);
}

/* Chinese characters, by the ranges of Hugging Face's tokenizers: the last but two begins at
   U+2B920 there. */
static bool is_chinese(uint32_t c)
{
    static const uint32_t ranges[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                         {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                         {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

/* All marks and symbols of ASCII count. */
static bool is_punctuation(uint32_t c, unsigned kind)
{
    return (kind & TFT_PUNCTUATION) || (c < 0x80 && (kind & TFT_SYMBOLS));
}

/* Control characters, characters without a meaning, and bytes that are not UTF-8, which are U+FFFD
   elsewhere. */
static bool is_dropped(struct tft_position a)
{
    enum { NEXT_LINE = 0x85, REPLACEMENT = 0xfffd };
    return (a.kind & 1u << TFT_CHAR_OTHER) || tft_is(a, '\v') || tft_is(a, '\f') ||
           a.code == NEXT_LINE || a.code == REPLACEMENT;
}

/* ---- words */

struct word {
    const struct tft_tokenizer *t;
    struct tft_ids *out;
    uint32_t code[TFT_WORDPIECE_MOST];
    size_t n;     /* of the word's characters; code[] has the first */
    size_t marks; /* code[marks] and those after it are marks that are sorted by class */
};

/* Writes a space and the word to text, and returns the length. */
static size_t put_word(const struct word *w, char *text)
{
    size_t n = 0;
    text[n++] = ' ';
    for (size_t i = 0; i < w->n; i++)
        n += tft_utf8_put(text + n, w->code[i]);
    return n;
}

/* The longest piece that text[n] begins with, or -1; *len: its bytes. */
static int32_t longest_piece(const struct tft_trie *trie, const char *text, size_t n, size_t *len)
{
    int32_t id = -1;
    const struct tft_trie_node *node = trie->node;
    for (size_t i = 0; i < n && (node = tft_trie_child(trie, node, (unsigned char)text[i])); i++)
        if (node->id >= 0) {
            id = node->id;
            *len = i + 1;
        }
    return id;
}

/* Pushes the pieces of text[n], a space and a word; false if a part of the word has no piece. The
   space alone is no piece: it would have no character of the word. */
static bool push_pieces(struct word *w, const char *text, size_t n)
{
    int32_t ids[4 * TFT_WORDPIECE_MOST]; /* a hostile vocabulary may have parts of characters */
    size_t n_ids = 0;
    for (size_t pos = 0, len = 0; pos < n; pos += len) {
        int32_t id = longest_piece(&w->t->wordpiece->trie, text + pos, n - pos, &len);
        if (id < 0 || pos + len == 1)
            return false;
        ids[n_ids++] = id;
    }
    for (size_t i = 0; i < n_ids; i++)
        tft_ids_push(w->out, ids[i]);
    return true;
}

static void end_word(struct word *w)
{
    char text[1 + 4 * TFT_WORDPIECE_MOST];
    if (w->n && (w->n > TFT_WORDPIECE_MOST || !push_pieces(w, text, put_word(w, text))))
        tft_ids_push(w->out, w->t->unknown);
    w->n = w->marks = 0;
}

static void add(struct word *w, uint32_t c)
{
    if (w->n < TFT_WORDPIECE_MOST)
        w->code[w->n] = c;
    w->n++;
}

/* Adds a character in the order of NFD: marks between two other characters are sorted by class. */
static void add_sorted(struct word *w, uint32_t c, unsigned class)
{
    add(w, c);
    if (!class)
        w->marks = w->n;
    if (!class || w->n > TFT_WORDPIECE_MOST)
        return;
    size_t at = w->n - 1;
    for (; at > w->marks && tft_nfd_class(w->code[at - 1]) > class; at--)
        w->code[at] = w->code[at - 1];
    w->code[at] = c;
}

/* Takes a character after decomposition. */
static void take_part(struct word *w, uint32_t c)
{
    enum { FIRST_MARK = 0x300 };
    enum { I_WITH_DOT = 0x130, DOT = 0x307 }; /* the only lower case of two characters */
    const struct tft_wordpiece *rules = w->t->wordpiece;
    bool may_be_mark = rules->strip_accents && c >= FIRST_MARK;
    unsigned class = may_be_mark ? tft_nfd_class(c) : 0;
    if (may_be_mark && is_nonspacing(c)) {
        if (!class)
            w->marks = w->n;
        return;
    }
    uint32_t small = rules->lowercase ? lower(c) : c;
    unsigned kind = 1u << (small < 0x80 ? tft_ascii_kind[small] : tft_char_kind(small));
    if (kind & TFT_SPACES) {
        end_word(w);
    } else if (is_punctuation(small, kind)) {
        end_word(w);
        add(w, small);
        end_word(w);
    } else if (rules->lowercase && c == I_WITH_DOT) {
        add(w, 'i');
        add(w, DOT);
    } else {
        add_sorted(w, small, class);
    }
}

static void take(struct word *w, uint32_t c)
{
    uint32_t part[TFT_NFD_MAX] = {c};
    bool decomposes = w->t->wordpiece->strip_accents && c >= 0x80;
    size_t n = decomposes ? tft_nfd(c, part) : 1;
    bool alone = is_chinese(c);
    if (alone)
        end_word(w);
    for (size_t i = 0; i < n; i++)
        take_part(w, part[i]);
    if (alone)
        end_word(w);
}

void tft_wordpiece_encode(const struct tft_tokenizer *t, const char *text, size_t n,
                          struct tft_ids *out)
{
    struct word w = {.t = t, .out = out};
    for (struct tft_position a = tft_look(text, text + n); a.n; a = tft_look_next(a))
        if (!is_dropped(a))
            take(&w, a.code);
    end_word(&w);
}
