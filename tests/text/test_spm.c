#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "base/utf8.h"
#include "vocabs.h"

#define LOW "\xe2\x96\x81" /* U+2581 */

static struct vocab start(bool bytes)
{
    struct vocab v = {.model = "llama"};
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "<s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    if (bytes)
        vocab_add_bytes(&v);
    return v;
}

static void add(struct vocab *v, const char *text, float score)
{
    vocab_add(v, text, score, TFT_TOKEN_NORMAL);
}

static void best_score_first_then_leftmost(void **state)
{
    (void)state;
    struct vocab v = start(true);
    add(&v, LOW, -9), add(&v, "a", -9), add(&v, "b", -9), add(&v, "c", -9);
    add(&v, "ab", -2), add(&v, "bc", -1), add(&v, "aa", -3), add(&v, LOW "a", -8),
        add(&v, LOW "ab", -7);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "abc", 0, " a|bc");
    encodes(t, "ab", 0, " ab");
    encodes(t, "ab ab", TFT_CONTINUE, "ab| ab"); /* no space in front */
    encodes(t, "aaaa", 0, " |aa|aa");
    encodes(t, "aaa", 0, " |aa|a");
    encodes(t, "ab ab\nab", 0, " ab| ab|\n|ab");
    encodes(t, "", 0, "");
    encodes(t, " ", 0, " | ");
    tft_tokenizer_close(t);
}

static void scores_of_zero_and_either_sign(void **state)
{
    (void)state;
    struct vocab v = start(true);
    add(&v, LOW, 0), add(&v, "a", 0), add(&v, "b", 0);
    add(&v, "ab", -0.0f), add(&v, "ba", 0.0f), add(&v, "bb", 1e-30f), add(&v, "aa", -1e-30f),
        add(&v, "bab", 3);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "aba", 0, " |ab|a"); /* -0 equals 0: the leftmost merges first */
    encodes(t, "abb", 0, " |a|bb");
    encodes(t, "aab", 0, " |a|ab");
    encodes(t, "bbab", 0, " |bb|ab");
    tft_tokenizer_close(t);
}

static void no_piece_means_bytes(void **state)
{
    (void)state;
    struct vocab v = start(true);
    add(&v, LOW, -1), add(&v, "a", -2);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "a\xc3\xa9" "a\xff", 0, " |a|\xc3|\xa9|a|\xff");
    encodes(t, "\xed\xa0\x80", 0, " |\xed|\xa0|\x80"); /* a lone surrogate */
    int32_t ids[MAX_IDS];
    assert_int_equal(encode(t, "\0a\0", 3, 0, ids), 4);
    assert_int_equal(ids[1], 3 + 0);
    tft_tokenizer_close(t);
}

static void no_bytes_means_unknown(void **state)
{
    (void)state;
    struct vocab v = start(false);
    add(&v, LOW, -1), add(&v, "a", -2), vocab_add(&v, "<0x62>", 0, TFT_TOKEN_BYTE);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "axyza\xc3\xa9 \xe4\xbd\xa0xb", 0, " |a|<unk>|a|<unk>| |<unk>|b");
    tft_tokenizer_close(t);
}

/* A space without a piece becomes the byte of a space, and is decoded to a space. */
static void a_space_without_a_piece(void **state)
{
    (void)state;
    struct vocab v = start(true);
    add(&v, "a", -2), add(&v, LOW "a", -1);
    struct tft_tokenizer *t = open_vocab(&v);
    int32_t ids[MAX_IDS];
    encodes(t, "a  a", 0, " a| | a");
    assert_int_equal(encode(t, "b", 1, 0, ids), 2);
    assert_int_equal(ids[0], 3 + ' ');
    tft_tokenizer_close(t);
}

static void u2581_is_a_space(void **state)
{
    (void)state;
    struct vocab v = start(true);
    add(&v, LOW, -3), add(&v, "a", -2), add(&v, LOW "a", -1);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "a" LOW "a", 0, " a| a");
    encodes(t, LOW, 0, " | ");
    encodes(t, "\xe2\x96", 0, " |\xe2|\x96");
    tft_tokenizer_close(t);
}

static void prefix_space_is_the_vocabularys_choice(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = start(true);
    add(&v, LOW, -3), add(&v, "a", -2), add(&v, LOW "a", -1);
    vocab_values(&v, &values);
    values_bool(&values, "tokenizer.ggml.add_space_prefix", false);
    struct tft_tokenizer *t = open_values(&values);
    encodes(t, "a a", 0, "a| a");
    tft_tokenizer_close(t);
}

/* The text of a user never becomes a control token. */
static void names_of_special_tokens_are_text(void **state)
{
    (void)state;
    struct vocab v = start(true);
    add(&v, LOW, -9), add(&v, "<", -8), add(&v, "/", -8), add(&v, "s", -8), add(&v, ">", -8),
        add(&v, "</", -2);
    add(&v, "s>", -1);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "</s>", 0, " |</|s>");
    encodes(t, "</s>", TFT_PARSE_SPECIAL, "</s>");
    encodes(t, "<0x41>", 0, " |<|0|x|4|1|>");
    tft_tokenizer_close(t);
}

/* The text is then not cut before spaces. */
static void pieces_may_have_spaces_inside(void **state)
{
    (void)state;
    struct vocab v = start(true);
    add(&v, LOW, -9), add(&v, "a", -8), add(&v, "b", -8), add(&v, LOW "b", -2),
        add(&v, "a" LOW "b", -1);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "a b b", 0, " |a b| b");
    tft_tokenizer_close(t);
}

/* ---- a literal restatement: strings, and a look at all pairs each time */

struct list {
    char text[300][128];
    size_t n;
};

static int32_t piece(const struct vocab *v, const char *text)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->type[i] == TFT_TOKEN_NORMAL && !strcmp(v->text[i], text))
            return (int32_t)i;
    return -1;
}

/* space: a space goes first. */
static void split(const char *text, size_t n, bool space, struct list *l)
{
    snprintf(l->text[0], sizeof l->text[0], LOW);
    l->n = space;
    for (size_t at = 0, len; at < n; at += len, l->n++) {
        uint32_t c;
        len = tft_utf8_next(text + at, n - at, &c);
        len = c < TFT_UTF8_BAD ? len : 1;
        snprintf(l->text[l->n], sizeof l->text[0], "%.*s", (int)len,
                 text[at] == ' ' ? LOW : text + at);
        if (text[at] == ' ')
            strcpy(l->text[l->n], LOW);
    }
}

static bool merge_best(const struct vocab *v, struct list *l)
{
    size_t best = l->n;
    int32_t made = -1;
    for (size_t i = 0; i + 1 < l->n; i++) {
        char both[256];
        snprintf(both, sizeof both, "%s%s", l->text[i], l->text[i + 1]);
        int32_t id = piece(v, both);
        if (id >= 0 && (made < 0 || v->score[id] > v->score[made])) {
            best = i;
            made = id;
        }
    }
    if (made < 0)
        return false;
    strcpy(l->text[best], v->text[made]);
    memmove(l->text[best + 1], l->text[best + 2], (l->n - best - 2) * sizeof l->text[0]);
    l->n--;
    return true;
}

static size_t encode_literally(const struct vocab *v, const char *text, size_t n, bool space,
                               int32_t *ids)
{
    static struct list l;
    size_t n_ids = 0;
    split(text, n, space, &l);
    while (merge_best(v, &l))
        ;
    for (size_t i = 0; i < l.n; i++) {
        int32_t id = piece(v, l.text[i]);
        const char *bytes = strcmp(l.text[i], LOW) ? l.text[i] : " ";
        if (id >= 0)
            ids[n_ids++] = id;
        for (const char *p = bytes; id < 0 && *p; p++)
            ids[n_ids++] = 3 + (unsigned char)*p;
    }
    return n_ids;
}

static struct vocab random_vocab(uint64_t *seed, bool inner_spaces)
{
    static const char *const character[] = {"a", "b", "c", "\xc3\xa9", "\xe4\xbd\xa0"};
    struct vocab v = start(true);
    for (uint32_t i = 20 + random_below(seed, 60); i--;) {
        char text[64] = "";
        if (!random_below(seed, 3))
            strcat(text, LOW);
        for (uint32_t k = random_below(seed, 5); k--;)
            strcat(text,
                   inner_spaces && !random_below(seed, 4) ? LOW : character[random_below(seed, 5)]);
        add(&v, text, -(float)random_below(seed, 8));
    }
    return v;
}

static void same_as_a_literal_restatement(void **state)
{
    (void)state;
    static const char *const part[] = {"a",  "b", "c",    "\xc3\xa9", "\xe4\xbd\xa0", " ",
                                       "  ", "x", "\xff", "\xc3",     "ab",           " a"};
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) {
        static struct vocab v;
        v = random_vocab(&seed, round % 3 == 0);
        struct tft_tokenizer *t = open_vocab(&v);
        for (int i = 0; i < 20; i++) {
            char text[256] = "", back[1024];
            int32_t have[MAX_IDS], want[MAX_IDS];
            for (uint32_t k = random_below(&seed, 40); k--;)
                strcat(text, part[random_below(&seed, 12)]);
            size_t n = encode(t, text, strlen(text), 0, have);
            if (!*text) {
                assert_int_equal(n, 0);
                continue;
            }
            assert_int_equal(n, encode_literally(&v, text, strlen(text), true, want));
            assert_memory_equal(have, want, n * sizeof *have);
            assert_int_equal(decode(t, have, n, back), strlen(text) + 1);
            assert_memory_equal(back + 1, text, strlen(text));
        }
        tft_tokenizer_close(t);
    }
}

/* ---- tokens that are found after the space before the text is put */

/* A vocabulary of letters in which user tokens are such tokens: those from `spaced` on are found
   with a space before them. */
static struct tft_tokenizer *open_late(const struct vocab *v, int32_t spaced)
{
    static struct values values;
    int32_t ids[2][16];
    size_t n[2] = {0, 0};
    for (size_t i = 0; i < v->n; i++) {
        bool late = (int32_t)i >= spaced;
        if (v->type[i] == TFT_TOKEN_USER)
            ids[late][n[late]++] = (int32_t)i;
    }
    vocab_values(v, &values);
    values_i32s(&values, "tokenizer.tuffet.normalized", ids[0], n[0]);
    values_i32s(&values, "tokenizer.tuffet.normalized_with_space", ids[1], n[1]);
    return open_values(&values);
}

static struct vocab letters(void)
{
    static const char *const each[] = {LOW, "a", "b", "[", "X", "]", "<"};
    struct vocab v = start(true);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        add(&v, each[i], -9);
    add(&v, LOW "a", -1);
    return v;
}

/* SentencePiece puts the space, looks for its symbols, and puts no space after them. */
static void symbols_of_sentencepiece(void **state)
{
    (void)state;
    struct vocab v = letters();
    vocab_add(&v, "<b", 0, TFT_TOKEN_USER);
    vocab_add(&v, "  ", 0, TFT_TOKEN_USER);
    struct tft_tokenizer *t = open_late(&v, (int32_t)v.n);
    encodes(t, "<ba", 0, " |<b|a");
    encodes(t, "a<b a<b", 0, " a|<b| a|<b");
    encodes(t, " a", 0, "  |a"); /* the first of the two spaces is the one that was put */
    encodes(t, LOW "a", 0, "  |a");
    encodes(t, " a", TFT_CONTINUE, " a");
    encodes(t, "<b<b", TFT_CONTINUE, "<b|<b");
    encodes(t, "<s><ba", TFT_PARSE_SPECIAL, "<s>| |<b|a");
    tft_tokenizer_close(t);
}

/* Hugging Face's tokenizers normalize the names of such tokens too: "[X]" becomes " [X]". */
static void normalized_tokens(void **state)
{
    (void)state;
    struct vocab v = letters();
    int32_t first = vocab_add(&v, "[X]", 0, TFT_TOKEN_USER);
    vocab_add(&v, " b", 0, TFT_TOKEN_USER);
    struct tft_tokenizer *t = open_late(&v, first);
    encodes(t, "[X]a", 0, "[X]|a");
    encodes(t, "a [X] a", 0, " a|[X]| a");
    encodes(t, "a[X]", 0, " a|[|X|]");
    encodes(t, "[X][X]", 0, "[X]|[|X|]");
    encodes(t, "[X]", TFT_CONTINUE, "[|X|]");
    encodes(t, " b b", 0, " b| |b"); /* two spaces and b, then one */
    encodes(t, "a" LOW "[X]", 0, " a|[X]");
    encodes(t, "<s>[X]", TFT_PARSE_SPECIAL, "<s>|[X]");
    tft_tokenizer_close(t);
}

/* The longest user token at text[0..n); 0: none. */
static size_t longest_name(const struct vocab *v, int32_t spaced, const char *text, int32_t *id)
{
    size_t best = 0;
    for (size_t i = 0; i < v->n; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", (int32_t)i >= spaced ? " " : "", v->text[i]);
        size_t n = strlen(name);
        if (v->type[i] == TFT_TOKEN_USER && n > best && !strncmp(text, name, n)) {
            best = n;
            *id = (int32_t)i;
        }
    }
    return best;
}

/* The rule of Hugging Face's tokenizers and of SentencePiece, literally. */
static size_t encode_names_literally(const struct vocab *v, int32_t spaced, const char *text,
                                     int32_t *ids)
{
    char all[300];
    size_t n_ids = 0, begin = 0, n = (size_t)snprintf(all, sizeof all, " %s", text);
    for (size_t at = 0, skip; at <= n; at += skip ? skip : 1) {
        int32_t id;
        skip = longest_name(v, spaced, all + at, &id);
        if (at > begin && (skip || at == n))
            n_ids += encode_literally(v, all + begin, at - begin, false, ids + n_ids);
        if (skip)
            ids[n_ids++] = id;
        begin = skip ? at + skip : begin;
    }
    return n_ids;
}

static void names_are_found_by_the_literal_rule(void **state)
{
    (void)state;
    static const char *const name[] = {"<x>", "ab", " a", "b<", "[X]", "c", "aa", "  b"},
                             *const part[] = {"a",   "b",    "c",   " ",  "  ",   "<", "x>",
                                              "[X]", " [X]", "<x>", "ab", "\xff", " c"};
    uint64_t seed = 7;
    size_t found = 0;
    for (int round = 0; round < 200; round++) {
        static struct vocab v;
        v = random_vocab(&seed, round % 3 == 0);
        int32_t spaced = (int32_t)v.n + 4;
        for (size_t i = 0; i < sizeof name / sizeof *name; i++)
            vocab_add(&v, name[i], 0, TFT_TOKEN_USER);
        struct tft_tokenizer *t = open_late(&v, spaced);
        for (int i = 0; i < 20; i++) {
            char text[256] = "a";
            int32_t have[MAX_IDS], want[MAX_IDS];
            for (uint32_t k = random_below(&seed, 30); k--;)
                strcat(text, part[random_below(&seed, sizeof part / sizeof *part)]);
            const char *from = text + random_below(&seed, 2); /* with the "a", or without */
            size_t n = encode(t, from, strlen(from), 0, have);
            if (!*from)
                continue;
            assert_int_equal(n, encode_names_literally(&v, spaced, from, want));
            assert_memory_equal(have, want, n * sizeof *have);
            for (size_t k = 0; k < n; k++)
                found += have[k] >= spaced - 4;
        }
        tft_tokenizer_close(t);
    }
    assert_true(found > 1000);
}

/* ---- white space that is dropped */

static void white_space_at_the_ends(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = letters();
    vocab_values(&v, &values);
    values_bool(&values, "tokenizer.tuffet.strip_left", true);
    struct tft_tokenizer *t = open_values(&values);
    encodes(t, " \t\xe3\x80\x80 a b ", 0, " a| |b| ");
    encodes(t, " a", TFT_CONTINUE, " a"); /* the text goes on: its start is elsewhere */
    encodes(t, " \n", 0, "");
    encodes(t, "<s> a</s> a", TFT_PARSE_SPECIAL, "<s>| a|</s>| a");
    tft_tokenizer_close(t);
    values_bool(&values, "tokenizer.tuffet.strip_right", true);
    t = open_values(&values);
    encodes(t, "  a b \r\n", 0, " a| |b");
    encodes(t, "a <s> \n b\xc2\xa0", TFT_PARSE_SPECIAL, " a|<s>| |b");
    encodes(t, " <s> ", TFT_PARSE_SPECIAL, "<s>");
    tft_tokenizer_close(t);
    values_bool(&values, "tokenizer.tuffet.strip_left", false);
    t = open_values(&values);
    encodes(t, "  a ", 0, " | | a");
    tft_tokenizer_close(t);
}

/* ---- large */

static void a_megabyte_without_a_space(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    static struct values values;
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct vocab v = start(true);
    add(&v, LOW, -9);
    static const char a32[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for (int len = 1; len <= 32; len *= 2)
        add(&v, a32 + 32 - len, (float)len);
    struct tft_tokenizer *t;
    vocab_values(&v, &values);
    assert_int_equal(tft_tokenizer_open(&t, values_source(&values), &a, NULL), TFT_OK);
    size_t own = m.in_use, n;
    char *long_text = malloc(N);
    memset(long_text, 'a', N);
    assert_int_equal(tft_tokenizer_encode(t, long_text, N, 0, NULL, 0, &n), TFT_OK);
    assert_int_equal(n, 1 + N / 32);
    assert_int_equal(m.in_use, own);
    assert_in_range(m.peak, own, own + 32 * (size_t)N);
    free(long_text);
    tft_tokenizer_close(t);
    assert_int_equal(m.in_use, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_score_first_then_leftmost),
        cmocka_unit_test(scores_of_zero_and_either_sign),
        cmocka_unit_test(no_piece_means_bytes),
        cmocka_unit_test(no_bytes_means_unknown),
        cmocka_unit_test(a_space_without_a_piece),
        cmocka_unit_test(u2581_is_a_space),
        cmocka_unit_test(prefix_space_is_the_vocabularys_choice),
        cmocka_unit_test(names_of_special_tokens_are_text),
        cmocka_unit_test(pieces_may_have_spaces_inside),
        cmocka_unit_test(same_as_a_literal_restatement),
        cmocka_unit_test(symbols_of_sentencepiece),
        cmocka_unit_test(normalized_tokens),
        cmocka_unit_test(names_are_found_by_the_literal_rule),
        cmocka_unit_test(white_space_at_the_ends),
        cmocka_unit_test(a_megabyte_without_a_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
