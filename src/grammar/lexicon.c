#include "lexicon.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static uint8_t kind_of(unsigned byte)
{
    static const char *const kinds[] = {"\t", "\n", "\r", "\"", "\\", "\x7f", " ", "/", ",", ":",
                                        ".", "-", "_", "+", "{", "}", "[", "]", "'", "0",
                                        "123456789", "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEF",
                                        "GHIJKLMNOPQRSTUVWXYZ", "()", "<>", "|"};
    if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r')
        return 5; /* a control character, like U+007F */
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (byte && strchr(kinds[k], (int)byte))
            return (uint8_t)k;
    return 28;
}

/* Unicode 15, table 3-7. 4: after E0, 5: after ED, 6: after F0, 7: after F4 */
int tft_utf8_step(int state, unsigned byte)
{
    static const struct {
        uint8_t lo, hi, next;
    } after[TFT_UTF8_STATES] = {
        {0, 0, 0},       {0x80, 0xbf, 0}, {0x80, 0xbf, 1}, {0x80, 0xbf, 2},
        {0xa0, 0xbf, 1}, {0x80, 0x9f, 1}, {0x90, 0xbf, 2}, {0x80, 0x8f, 2}};
    if (state)
        return byte >= after[state].lo && byte <= after[state].hi ? after[state].next : -1;
    if (byte < 0x80)
        return 0;
    if (byte >= 0xc2 && byte <= 0xdf)
        return 1;
    if (byte >= 0xe0 && byte <= 0xef)
        return byte == 0xe0 ? 4 : byte == 0xed ? 5 : 2;
    if (byte >= 0xf0 && byte <= 0xf4)
        return byte == 0xf0 ? 6 : byte == 0xf4 ? 7 : 3;
    return -1;
}

/* A token to be sorted: its first 8 bytes, the first in the highest place. */
struct item {
    uint64_t start;
    int32_t id;
};

static const unsigned char *bytes_of(const struct tft_lexicon *lx, int32_t id, size_t *n)
{
    return (const unsigned char *)tft_tokenizer_text(lx->t, id, false, n);
}

static bool item_before(const struct tft_lexicon *lx, const struct item *a, const struct item *b)
{
    size_t n, m;
    if (a->start != b->start)
        return a->start < b->start;
    const unsigned char *p = bytes_of(lx, a->id, &n), *q = bytes_of(lx, b->id, &m);
    int c = memcmp(p, q, n < m ? n : m);
    return c ? c < 0 : n != m ? n < m : a->id < b->id;
}

/* Sorts item[n] by merging; spare: [n] room. Returns the array with the result, item or spare. */
static struct item *sort(const struct tft_lexicon *lx, struct item *item, struct item *spare,
                         size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t from = 0; from < n; from += 2 * width) {
            size_t mid = from + width < n ? from + width : n,
                   end = from + 2 * width < n ? from + 2 * width : n, i = from, j = mid;
            for (size_t k = from; k < end; k++)
                spare[k] = j >= end || (i < mid && !item_before(lx, &item[j], &item[i]))
                               ? item[i++]
                               : item[j++];
        }
        struct item *t = item;
        item = spare;
        spare = t;
    }
    return item;
}

/* Reads the text tokens into item[], and the tokens that end generation into lx->ends. */
static void collect(struct tft_lexicon *lx, struct item *item)
{
    for (uint32_t i = 0; i < lx->n_vocab; i++) {
        size_t n;
        const unsigned char *p = bytes_of(lx, (int32_t)i, &n);
        if (tft_tokenizer_ends(lx->t, (int32_t)i))
            lx->ends[i / 32] |= 1u << i % 32;
        else if (p && n) {
            uint64_t start = 0;
            for (size_t k = 0; k < 8; k++)
                start = start << 8 | (k < n ? p[k] : 0);
            if (n == 1)
                lx->has_byte[*p] = true;
            lx->longest = n > lx->longest ? (uint32_t)n : lx->longest;
            item[lx->n_token++] = (struct item){start, (int32_t)i};
        }
    }
}

/* The number of bytes that two tokens share at the start. */
static size_t common(const struct tft_lexicon *lx, int32_t a, int32_t b)
{
    size_t n, m, i = 0;
    const unsigned char *p = bytes_of(lx, a, &n), *q = bytes_of(lx, b, &m);
    while (i < n && i < m && p[i] == q[i])
        i++;
    return i;
}

/* Makes the nodes of token[]; if node is NULL, only counts nodes. path: [longest + 1] room, the
   nodes on the way to the last token. */
static void build(struct tft_lexicon *lx, uint32_t *path)
{
    uint32_t n_node = 1;
    size_t depth = 0, n;
    path[0] = 0;
    if (lx->node)
        lx->node[0] = (struct tft_lexicon_node){0};
    for (uint32_t i = 0; i < lx->n_token; i++) {
        const unsigned char *p = bytes_of(lx, lx->token[i], &n);
        size_t shared = i ? common(lx, lx->token[i - 1], lx->token[i]) : 0;
        for (; lx->node && depth > shared; depth--)
            lx->node[path[depth]].end = n_node;
        for (depth = shared; depth < n; n_node++) {
            uint8_t byte = p[depth++];
            path[depth] = n_node;
            if (lx->node)
                lx->node[n_node] =
                    (struct tft_lexicon_node){.token = i, .depth = depth & 0x3fff, .byte = byte};
        }
    }
    if (lx->node) {
        for (size_t i = 0; i <= depth; i++)
            lx->node[path[i]].end = n_node;
        lx->node[n_node] = (struct tft_lexicon_node){.token = lx->n_token};
    }
    lx->n_node = n_node;
}

/* Fills in kinds and chars: goes down for the states of UTF-8, then up to combine the nodes below
   each node. state: [n_node] */
static void measure(struct tft_lexicon *lx, int8_t *state, uint32_t *path)
{
    static const uint32_t none = 1u << TFT_KIND_NONE;
    state[0] = 0;
    path[0] = 0;
    for (uint32_t i = 1; i < lx->n_node; i++) {
        struct tft_lexicon_node *node = &lx->node[i];
        int before = state[path[node->depth - 1]];
        state[i] = (int8_t)(before < 0 ? -1 : tft_utf8_step(before, node->byte));
        path[node->depth] = i;
        node->chars = before == 0;
        if (state[i] < 0)
            node->kinds = none;
        else if (!before)
            node->kinds = 1u << (node->byte < 0x80 ? lx->kind[node->byte] : TFT_KIND_WIDE);
    }
    for (uint32_t i = lx->n_node; i-- > 0;) {
        struct tft_lexicon_node *node = &lx->node[i];
        unsigned most = 0;
        for (uint32_t c = i + 1; c < node->end; c = lx->node[c].end) {
            most = lx->node[c].chars > most ? lx->node[c].chars : most;
            node->kinds |= lx->node[c].kinds;
        }
        most += node->chars;
        node->chars = (most < TFT_LEXICON_LONG ? most : TFT_LEXICON_LONG) & 0xff;
    }
    for (uint32_t i = 1; i < lx->n_node; i++) { /* a node that begins within a character has no
                                                   kind */
        path[lx->node[i].depth] = i;
        if (state[path[lx->node[i].depth - 1]] != 0)
            lx->node[i].kinds |= none;
    }
}

static bool make(struct tft_lexicon *lx)
{
    const struct tft_allocator *a = lx->allocator;
    size_t items, room = lx->n_vocab;
    for (unsigned byte = 0; byte < 0x80; byte++)
        lx->kind[byte] = kind_of(byte);
    bool fits = tft_mul(2 * room, sizeof(struct item), &items);
    struct item *item = fits ? tft_alloc(a, items) : NULL;
    lx->ends = tft_alloc(a, lx->n_word * sizeof *lx->ends);
    lx->token = tft_alloc(a, room * sizeof *lx->token);
    if (item && lx->ends && lx->token) {
        memset(lx->ends, 0, lx->n_word * sizeof *lx->ends);
        collect(lx, item);
        struct item *sorted = sort(lx, item, item + room, lx->n_token);
        for (uint32_t i = 0; i < lx->n_token; i++)
            lx->token[i] = sorted[i].id;
    }
    bool sorted = item && lx->ends && lx->token;
    tft_free(a, item, items);
    size_t depths = (lx->longest + 1) * sizeof(uint32_t);
    uint32_t *path = sorted ? tft_alloc(a, depths) : NULL;
    if (!path)
        return false;
    build(lx, path); /* counts */
    int8_t *state = tft_alloc(a, lx->n_node);
    lx->node = tft_alloc(a, (lx->n_node + (size_t)1) * sizeof *lx->node);
    bool made = state && lx->node && tft_within_make(lx);
    if (made) {
        build(lx, path);
        measure(lx, state, path);
    }
    tft_free(a, state, lx->n_node);
    tft_free(a, path, depths);
    return made;
}

enum tft_status tft_lexicon_make(struct tft_lexicon **out, const struct tft_tokenizer *t,
                                 const struct tft_allocator *a, struct tft_error *err)
{
    uint32_t n_vocab = tft_tokenizer_size(t);
    struct tft_lexicon *lx = tft_alloc(a, sizeof *lx);
    *out = NULL;
    if (lx) {
        *lx = (struct tft_lexicon){.t = t, .n_vocab = n_vocab, .n_word = (n_vocab + 31) / 32};
        if (a) {
            lx->allocator_copy = *a;
            lx->allocator = &lx->allocator_copy;
        }
        if (make(lx)) {
            *out = lx;
            return TFT_OK;
        }
    }
    tft_lexicon_close(lx);
    return tft_fail(err, TFT_ERR_NOMEM, "lexicon: out of memory");
}

void tft_lexicon_close(struct tft_lexicon *lx)
{
    if (!lx)
        return;
    struct tft_allocator copy = lx->allocator_copy;
    const struct tft_allocator *a = lx->allocator ? &copy : NULL;
    tft_free(a, lx->node, (lx->n_node + (size_t)1) * sizeof *lx->node);
    tft_free(a, lx->token, lx->n_vocab * sizeof *lx->token);
    tft_within_free(lx);
    tft_free(a, lx->ends, lx->n_word * sizeof *lx->ends);
    tft_free(a, lx, sizeof *lx);
}

uint32_t tft_lexicon_size(const struct tft_lexicon *lx)
{
    return lx->n_vocab;
}

int32_t tft_lexicon_special(const struct tft_lexicon *lx, const char *name, size_t n)
{
    for (uint32_t i = 0; i < lx->n_vocab; i++) {
        size_t len;
        const char *p = tft_tokenizer_text(lx->t, (int32_t)i, true, &len);
        if (p && len == n && memcmp(p, name, n) == 0)
            return (int32_t)i;
    }
    return -1;
}
