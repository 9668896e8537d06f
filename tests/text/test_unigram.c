#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "memory.h"
#include "text/unigram.h"
#include "vocabs.h"

#define LOW "\xe2\x96\x81" /* U+2581 */

/* ---- a table of replacements: keys become a double array, by trying offsets */

enum { N_UNIT = 1024 };

struct table {
    unsigned char bytes[1 << 16];
    uint32_t unit[N_UNIT];
    bool used[N_UNIT];
    char texts[512];
    size_t n_text, n_unit, size;
};

struct entry {
    char key[64];
    const char *text;
};

static bool has_prefix(const struct entry *e, const char *prefix, size_t n)
{
    return !strncmp(e->key, prefix, n);
}

/* Fills in the children of unit `at`, which has the text prefix[n]. */
static void add_children(struct table *t, const struct entry *e, size_t n_entry, uint32_t at,
                         const char *prefix, size_t n)
{
    unsigned char child[256];
    size_t n_child = 0;
    const char *text = NULL;
    for (unsigned c = 0; c < 256; c++)
        for (size_t i = 0; i < n_entry; i++)
            if (has_prefix(&e[i], prefix, n) && (unsigned char)e[i].key[n] == c) {
                child[n_child++] = (unsigned char)c;
                text = c ? text : e[i].text;
                break;
            }
    uint32_t offset = 0;
    for (bool ok = false; !ok;) {
        ok = true;
        offset++;
        for (size_t i = 0; i < n_child; i++)
            ok = ok && (at ^ offset ^ child[i]) < N_UNIT && !t->used[at ^ offset ^ child[i]];
    }
    t->unit[at] |= offset << 10 | (text ? 1u << 8 : 0);
    for (size_t i = 0; i < n_child; i++)
        t->used[at ^ offset ^ child[i]] = true;
    for (size_t i = 0; i < n_child; i++) {
        uint32_t to = at ^ offset ^ child[i];
        if (!child[i]) {
            t->unit[to] = 1u << 31 | (uint32_t)t->n_text;
            strcpy(t->texts + t->n_text, text);
            t->n_text += strlen(text) + 1;
            continue;
        }
        char next[64];
        memcpy(next, prefix, n);
        next[n] = (char)child[i];
        t->unit[to] = child[i];
        add_children(t, e, n_entry, to, next, n + 1);
    }
}

static struct table *make_table(const struct entry *e, size_t n)
{
    static struct table t;
    t = (struct table){.used = {true}, .n_unit = N_UNIT};
    add_children(&t, e, n, 0, "", 0);
    tft_store_u32(t.bytes, (uint32_t)(4 * t.n_unit));
    for (size_t i = 0; i < t.n_unit; i++)
        tft_store_u32(t.bytes + 4 + 4 * i, t.unit[i]);
    memcpy(t.bytes + 4 + 4 * t.n_unit, t.texts, t.n_text);
    t.size = 4 + 4 * t.n_unit + t.n_text;
    return &t;
}

static const struct entry some[] = {{"\xef\xac\x81", "fi"},
                                    {"\xe3\x80\x80", " "},
                                    {"\t", " "},
                                    {"e\xcc\x81", "\xc3\xa9"},
                                    {"e", "e"},
                                    {"\x01", ""}};
enum { N_SOME = sizeof some / sizeof *some };

static const char *replaced(const struct tft_charsmap *map, const char *text, size_t want)
{
    size_t len = 0;
    const char *to = tft_charsmap_find(map, text, strlen(text), &len);
    assert_int_equal(len, want);
    return to;
}

static void the_longest_key_is_replaced(void **state)
{
    (void)state;
    struct table *t = make_table(some, N_SOME);
    struct tft_charsmap map;
    assert_true(tft_charsmap_read(&map, t->bytes, t->size));
    assert_string_equal(replaced(&map, "\xef\xac\x81x", 3), "fi");
    assert_string_equal(replaced(&map, "e\xcc\x81", 3), "\xc3\xa9");
    assert_string_equal(replaced(&map, "e\xcc", 1), "e");
    assert_string_equal(replaced(&map, "\x01", 1), "");
    assert_null(replaced(&map, "\xef\xac", 0));
    assert_null(replaced(&map, "x", 0));
}

/* Every table that can be read must be safe to search. */
static void damaged_tables(void **state)
{
    (void)state;
    struct table *t = make_table(some, N_SOME);
    struct tft_charsmap map;
    unsigned char *copy = malloc(t->size);
    uint64_t seed = 1;
    assert_false(tft_charsmap_read(&map, t->bytes, t->size - 1)); /* no NUL at the end */
    assert_false(tft_charsmap_read(&map, t->bytes, 3));
    assert_false(tft_charsmap_read(&map, t->bytes, 4 * t->n_unit));
    for (int round = 0; round < 2000; round++) {
        memcpy(copy, t->bytes, t->size);
        for (int i = 0; i < 400; i++)
            copy[4 + random_below(&seed, (uint32_t)(4 * t->n_unit))] =
                (unsigned char)random_below(&seed, 256);
        char text[128];
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)random_below(&seed, 256);
        size_t len = 0;
        assert_true(tft_charsmap_read(&map, copy, t->size));
        const char *to = tft_charsmap_find(&map, text, sizeof text, &len);
        assert_true(!to || (len && len <= sizeof text && strlen(to) <= TFT_CHARSMAP_TEXT));
    }
    free(copy);
    static unsigned char long_text[8 + 400];
    tft_store_u32(long_text, 4);
    memset(long_text + 8, 'a', 256);
    assert_true(tft_charsmap_read(&map, long_text, sizeof long_text));
    memset(long_text + 8, 'a', 257);
    assert_false(tft_charsmap_read(&map, long_text, sizeof long_text));
}

/* ---- encoding */

static struct vocab start(void)
{
    struct vocab v = {.model = "t5"};
    vocab_add(&v, "<pad>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    return v;
}

static void add(struct vocab *v, const char *text, float score)
{
    vocab_add(v, text, score, TFT_TOKEN_NORMAL);
}

static struct tft_tokenizer *open_with(const struct vocab *v, bool prefix, bool merge,
                                       const struct table *t)
{
    static struct values values;
    vocab_values(v, &values);
    values_bool(&values, "tokenizer.ggml.add_space_prefix", prefix);
    values_bool(&values, "tokenizer.ggml.remove_extra_whitespaces", merge);
    if (t)
        values_u8s(&values, "tokenizer.ggml.precompiled_charsmap", t->bytes, t->size);
    return open_values(&values);
}

static void the_best_sum_wins(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW, -2), add(&v, "a", -3), add(&v, "b", -3), add(&v, "ab", -5), add(&v, LOW "a", -4);
    add(&v, "abc", -20), add(&v, "ba", -4), add(&v, "aa", -6);
    struct tft_tokenizer *t = open_with(&v, true, true, NULL);
    encodes(t, "ab", 0, " |ab"); /* -7; " a" and "b" are -7 too, and were found later */
    encodes(t, "ab", TFT_CONTINUE, "ab"); /* no space in front */
    encodes(t, "aba", 0, " a|ba");
    encodes(t, "aa", 0, " a|a");
    encodes(t, "abc", 0, " |abc"); /* -22, and an unknown c is -30 */
    encodes(t, "  a \t b  ", 0, " a| |<unk>| |b");
    encodes(t, "a" LOW LOW "a", 0, " a| a");
    encodes(t, "", 0, "");
    encodes(t, "   ", 0, "");
    encodes(t, "xyz\xff", 0, " |<unk>");
    encodes(t, "xaxx", 0, " |<unk>|a|<unk>");
    encodes(t, "a</s> a", TFT_PARSE_SPECIAL, " a|</s>| a");
    tft_tokenizer_close(t);
    t = open_with(&v, false, false, NULL);
    encodes(t, " a  b", 0, " a| | |b");
    tft_tokenizer_close(t);
    t = open_with(&v, false, true, NULL);
    encodes(t, " a  b ", 0, "a| |b");
    tft_tokenizer_close(t);
}

static void text_is_normalised(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW, -2), add(&v, "fi", -3), add(&v, "\xc3\xa9", -3), add(&v, "e", -3);
    add(&v, "\xef\xbf\xbd", -1);
    struct tft_tokenizer *t = open_with(&v, true, true, make_table(some, N_SOME));
    encodes(t,
            "\xef\xac\x81\xe3\x80\x80 e\xcc\x81\t\x01"
            "e\x01",
            0, " |fi| |\xc3\xa9| |e");
    encodes(t,
            "\xff"
            "e\xe3\x80",
            0, " |\xef\xbf\xbd|e|\xef\xbf\xbd");
    encodes(t, "\x01\x01", 0, "");
    tft_tokenizer_close(t);
}

static void unknown_characters_become_bytes(void **state)
{
    (void)state;
    struct vocab v = start();
    vocab_add_bytes(&v);
    add(&v, LOW, -2), add(&v, "a", -3);
    struct tft_tokenizer *t = open_with(&v, true, false, NULL);
    encodes(t, "a\xc3\xa9", 0, " |a|\xc3|\xa9");
    tft_tokenizer_close(t);
}

/* ---- against all ways to cut a text */

static double best_of(const struct vocab *v, const char *text, double unknown)
{
    size_t n = strlen(text);
    double best[64];
    best[n] = 0;
    for (size_t pos = n; pos--;) {
        best[pos] = unknown + best[pos + 1];
        for (size_t i = 3; i < v->n; i++) {
            size_t len = strlen(v->text[i]);
            if (strncmp(text + pos, v->text[i], len))
                continue;
            if (len == 1 && best[pos] == unknown + best[pos + 1])
                best[pos] = -1e9; /* no unknown character where there is a token */
            if ((double)v->score[i] + best[pos + len] > best[pos])
                best[pos] = (double)v->score[i] + best[pos + len];
        }
    }
    return best[0];
}

static void no_way_is_better(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) {
        struct vocab v = start();
        double lowest = -100;
        add(&v, "a", -90), add(&v, "b", -95), add(&v, "c", -100); /* d is unknown */
        for (int i = 0; i < 30; i++) {
            char text[8] = "";
            for (uint32_t k = 1 + random_below(&seed, 4); k--;)
                strcat(text, (const char *[]){"a", "b", "c"}[random_below(&seed, 3)]);
            float score = -(float)random_below(&seed, 1000) / 8;
            bool old = false;
            for (size_t k = 3; k < v.n; k++)
                old = old || !strcmp(v.text[k], text);
            if (old)
                continue;
            add(&v, text, score);
            lowest = (double)score < lowest ? (double)score : lowest;
        }
        struct tft_tokenizer *t = open_with(&v, false, false, NULL);
        for (int i = 0; i < 10; i++) {
            char text[40] = "";
            int32_t ids[MAX_IDS];
            for (uint32_t k = 1 + random_below(&seed, 30); k--;)
                strcat(text, (const char *[]){"a", "b", "c", "d"}[random_below(&seed, 4)]);
            size_t n = encode(t, text, strlen(text), 0, ids), at = 0;
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                if (ids[k] == 2) { /* one token for a run of them */
                    size_t len = 1;
                    while (text[at + len] == 'd')
                        len++;
                    sum += (double)len * (lowest - 10);
                    at += len;
                } else {
                    sum += (double)v.score[ids[k]];
                    at += strlen(v.text[ids[k]]);
                }
            assert_int_equal(at, strlen(text));
            assert_true(sum == best_of(&v, text, lowest - 10));
        }
        tft_tokenizer_close(t);
    }
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = start();
    add(&v, LOW, -2), add(&v, "a", -3);
    vocab_values(&v, &values);
    bool opened = false, encoded = false;
    for (int k = 1; !encoded && k < 100; k++) {
        struct memory m = {.fail_at = (unsigned)k};
        struct tft_allocator a = memory_allocator(&m);
        struct tft_tokenizer *t;
        size_t n;
        if (tft_tokenizer_open(&t, values_source(&values), &a, NULL) == TFT_OK) {
            enum tft_status status = tft_tokenizer_encode(t, "a a", 3, 0, NULL, 0, &n);
            assert_true(status == TFT_OK || status == TFT_ERR_NOMEM);
            opened = true;
            encoded = status == TFT_OK;
            tft_tokenizer_close(t);
        }
        assert_int_equal(m.in_use, 0);
    }
    assert_true(opened && encoded);
}

static void a_megabyte_of_one_character(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct vocab v = start();
    add(&v, LOW, -2), add(&v, "a", -3), add(&v, "aa", -4), add(&v, "aaaaaaaa", -5);
    struct tft_tokenizer *t = open_with(&v, true, true, NULL);
    char *text = malloc(N);
    size_t n;
    memset(text, 'a', N);
    assert_int_equal(tft_tokenizer_encode(t, text, N, 0, NULL, 0, &n), TFT_OK);
    assert_int_equal(n, 1 + N / 8);
    memset(text, ' ', N);
    assert_int_equal(tft_tokenizer_encode(t, text, N, 0, NULL, 0, &n), TFT_OK);
    assert_int_equal(n, 0);
    free(text);
    tft_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_key_is_replaced),
        cmocka_unit_test(damaged_tables),
        cmocka_unit_test(the_best_sum_wins),
        cmocka_unit_test(text_is_normalised),
        cmocka_unit_test(unknown_characters_become_bytes),
        cmocka_unit_test(no_way_is_better),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(a_megabyte_of_one_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
