#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "vocabs.h"

/* ---- GPT-2's characters for bytes, built as in its encoder.py */

static char written[256][4];

static int write_bytes(void **state)
{
    (void)state;
    unsigned next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool as_is = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
        unsigned c = as_is ? b : next++;
        if (c < 0x80)
            snprintf(written[b], sizeof written[b], "%c", (char)c);
        else
            snprintf(written[b], sizeof written[b], "%c%c", (char)(0xc0 | c >> 6),
                     (char)(0x80 | (c & 0x3f)));
    }
    return 0;
}

static const char *as_written(const char *text)
{
    static char out[4][600];
    static unsigned next;
    char *p = out[next++ % 4];
    *p = 0;
    for (; *text; text++)
        strcat(p, written[(unsigned char)*text]);
    return p;
}

static struct vocab start(const char *pre)
{
    struct vocab v = {.model = "gpt2", .pre = pre};
    for (int b = 0; b < 256; b++)
        vocab_add(&v, written[b], 0, TFT_TOKEN_NORMAL);
    return v;
}

/* Adds a merge of two texts, and the merged token unless it exists. */
static void add_merge(struct vocab *v, const char *left, const char *right)
{
    char both[64];
    snprintf(both, sizeof both, "%s%s", as_written(left), as_written(right));
    size_t i = 0;
    while (i < v->n && strcmp(v->text[i], both))
        i++;
    if (i == v->n)
        vocab_add(v, both, 0, TFT_TOKEN_NORMAL);
    snprintf(v->merge[v->n_merge++], sizeof v->merge[0], "%s %s", as_written(left),
             as_written(right));
}

static void every_byte_has_its_character(void **state)
{
    (void)state;
    char all[512] = "", out[512];
    for (int b = 0; b < 256; b++) {
        assert_int_equal(tft_bpe_decode((struct tft_str){written[b], strlen(written[b])}, out), 1);
        assert_int_equal((unsigned char)*out, b);
        if (b)
            strcat(all, written[b]);
    }
    assert_int_equal(tft_bpe_decode((struct tft_str){all, strlen(all)}, out), 255);
    static const char *const raw[] = {"a b",           "\xc2\xad", "\xc5\x84",
                                      "a\xe4\xbd\xa0", "\xff",     "\x7f"};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        assert_int_equal(tft_bpe_decode((struct tft_str){raw[i], strlen(raw[i])}, out),
                         strlen(raw[i]));
        assert_memory_equal(out, raw[i], strlen(raw[i]));
    }
}

static void first_merge_first_then_leftmost(void **state)
{
    (void)state;
    struct vocab v = start("gpt-2");
    add_merge(&v, "b", "c"), add_merge(&v, "a", "b"), add_merge(&v, "a", "a"),
        add_merge(&v, " ", "a");
    add_merge(&v, "aa", "aa"), add_merge(&v, "\n", "\n");
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "abc", 0, "a|bc");
    encodes(t, "ab abb a", 0, "ab| |ab|b| a");
    encodes(t, "aaaaaaa", 0, "aaaa|aa|a");
    encodes(t, " aaa", 0, " |aa|a");
    encodes(t, "a\n\n\na", 0, "a|\n\n|\n|a");
    encodes(t, "", 0, "");
    tft_tokenizer_close(t);
}

static void pieces_do_not_merge(void **state)
{
    (void)state;
    struct vocab v = start("gpt-2");
    add_merge(&v, "a", "1"), add_merge(&v, "1", "2"), add_merge(&v, "a", " "),
        add_merge(&v, " ", " ");
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "a12  a ", 0, "a|12| | |a| ");
    tft_tokenizer_close(t);
    v.pre = "starcoder";
    t = open_vocab(&v);
    encodes(t, "a12  1", 0, "a|1|2|  |1");
    tft_tokenizer_close(t);
}

/* A word that is a token, although merging its symbols does not make it. */
static void llama3_takes_whole_pieces(void **state)
{
    (void)state;
    struct vocab v = start("llama-bpe");
    add_merge(&v, "a", "b"), add_merge(&v, "b", "c");
    vocab_add(&v, as_written(" abc"), 0, TFT_TOKEN_NORMAL);
    vocab_add(&v, "cab", 0, TFT_TOKEN_CONTROL);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, " abc abcd cab", 0, " abc| |ab|c|d| |c|ab");
    encodes(t, "cab", 0, "c|ab");
    tft_tokenizer_close(t);
    v.pre = "smaug-bpe";
    t = open_vocab(&v);
    encodes(t, " abc", 0, " |ab|c");
    tft_tokenizer_close(t);
}

/* Vocabularies trained on UTF-8 lack the bytes that never occur in it. */
static void a_byte_without_a_token_is_dropped(void **state)
{
    (void)state;
    struct vocab v = start("gpt-2");
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    v.type[0xff] = v.type['x'] = TFT_TOKEN_UNUSED;
    add_merge(&v, "a", "b");
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "a\xff" "b\xff" "ab", 0, "a|b|ab");
    encodes(t, "axb", 0, "ab");
    encodes(t, "xxaxxbx", 0, "ab");
    encodes(t, "xx", 0, "");
    encodes(t, "axcx bxb", 0, "a|c| |b|b");
    tft_tokenizer_close(t);
}

/* A name that has the bytes themselves, and not the characters for them, is made of no text. */
static void two_tokens_of_the_same_bytes(void **state)
{
    (void)state;
    static const char raw[] = "\xe4\xb8\xad"; /* U+4E2D, and also three bytes */
    struct vocab v = {.model = "gpt2", .pre = "gpt-2"};
    int32_t ids[8], wrong = vocab_add(&v, raw, 0, TFT_TOKEN_NORMAL);
    int32_t newline = vocab_add(&v, "\n", 0, TFT_TOKEN_NORMAL);
    for (int b = 0; b < 256; b++)
        vocab_add(&v, written[b], 0, TFT_TOKEN_NORMAL);
    add_merge(&v, "\xe4", "\xb8");
    add_merge(&v, "\xe4\xb8", "\xad");
    struct tft_tokenizer *t = open_vocab(&v);
    size_t n;
    assert_int_equal(tft_tokenizer_encode(t, raw, 3, 0, ids, 8, &n), TFT_OK);
    assert_int_equal(n, 1);
    assert_int_not_equal(ids[0], wrong);
    assert_int_equal(tft_tokenizer_encode(t, "\n", 1, 0, ids, 8, &n), TFT_OK);
    assert_int_equal(n, 1);
    assert_int_not_equal(ids[0], newline);
    tft_tokenizer_close(t);
}

static void unusual_merges(void **state)
{
    (void)state;
    struct vocab v = start("gpt-2");
    /* "a b" occurs twice: the first counts */
    add_merge(&v, "a", "b"), add_merge(&v, "c", "d"), add_merge(&v, "a", "b");
    vocab_add(&v, "ef", 0, TFT_TOKEN_CONTROL);
    vocab_copy(v.merge[v.n_merge++], "e f");
    vocab_add(&v, "<g>", 0, TFT_TOKEN_USER);
    vocab_copy(v.merge[v.n_merge++], "<g> d");
    vocab_add(&v, "<g>d", 0, TFT_TOKEN_NORMAL);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "abcd", 0, "ab|cd");
    encodes(t, "ef", 0, "e|f"); /* the merged token is a control token */
    encodes(t, "ef", TFT_PARSE_SPECIAL, "ef");
    encodes(t, "<g>d", 0, "<g>|d"); /* a user token does not merge */
    tft_tokenizer_close(t);
}

static void refuses(const char *merge, const char *message)
{
    static struct values values;
    struct tft_tokenizer *t;
    struct tft_error err;
    struct vocab v = start("gpt-2");
    add_merge(&v, "a", "b");
    vocab_copy(v.merge[v.n_merge++], merge);
    vocab_values(&v, &values);
    assert_int_equal(tft_tokenizer_open(&t, values_source(&values), NULL, &err), TFT_ERR_FORMAT);
    assert_null(t);
    assert_non_null(strstr(err.msg, message));
    assert_non_null(strstr(err.msg, "merge 1 of tokenizer.ggml.merges"));
    assert_memory_equal(values.data + err.offset + 8, merge, strlen(merge));
}

static void invalid_merges(void **state)
{
    (void)state;
    refuses("ab", "not two tokens and a space between them");
    refuses("", "not two tokens and a space between them");
    refuses(" ", "not two tokens and a space between them");
    refuses(" ab", "not two tokens and a space between them");
    refuses("ab ", "not two tokens and a space between them");
    refuses("xy a", "the left part is not a token");
    refuses("a xy", "the right part is not a token");
    refuses("a b c", "the right part is not a token");
    refuses("a c", "the two parts together are not a token");
    refuses("\xe4\xbd\xa0 a", "the left part is not a token");
}

/* ---- a literal restatement: strings, and a look at all pairs each time */

struct list {
    char text[300][64];
    size_t n;
};

static size_t rank(const struct vocab *v, const char *left, const char *right)
{
    char both[128];
    snprintf(both, sizeof both, "%s %s", left, right);
    size_t i = 0;
    while (i < v->n_merge && strcmp(v->merge[i], both))
        i++;
    return i;
}

static bool merge_best(const struct vocab *v, struct list *l)
{
    size_t best = v->n_merge, at = 0;
    for (size_t i = 0; i + 1 < l->n; i++) {
        size_t r = rank(v, l->text[i], l->text[i + 1]);
        if (r < best) {
            best = r;
            at = i;
        }
    }
    if (best == v->n_merge)
        return false;
    char both[128];
    snprintf(both, sizeof both, "%s%s", l->text[at], l->text[at + 1]);
    strcpy(l->text[at], both);
    memmove(l->text[at + 1], l->text[at + 2], (l->n - at - 2) * sizeof l->text[0]);
    l->n--;
    return true;
}

static int32_t token(const struct vocab *v, const char *text)
{
    for (size_t i = 0; i < v->n; i++)
        if (!strcmp(v->text[i], text))
            return (int32_t)i;
    return -1;
}

static size_t encode_literally(const struct vocab *v, const char *text, size_t n, int32_t *ids)
{
    static struct list l;
    struct tft_pretokenizer rules;
    size_t n_ids = 0;
    tft_pretokenize_find((struct tft_str){v->pre, strlen(v->pre)}, &rules);
    struct tft_pieces pieces;
    const char *p;
    tft_pieces_start(&pieces, &rules, text, n);
    for (size_t len; (len = tft_pieces_next(&pieces, &p));) {
        for (l.n = 0; l.n < len; l.n++)
            strcpy(l.text[l.n], written[(unsigned char)p[l.n]]);
        while (merge_best(v, &l))
            ;
        for (size_t i = 0; i < l.n; i++)
            ids[n_ids++] = token(v, l.text[i]);
    }
    return n_ids;
}

static const char *part(uint64_t *seed)
{
    static const char *const parts[] = {"a",    "b",  " ", "a",    "b",  "c",  "\xc3",
                                        "\xa9", "ab", "1", "\xff", "'s", "\n", " a"};
    return parts[random_below(seed, 14)];
}

/* Merges of parts that exist already. */
static struct vocab random_vocab(uint64_t *seed, const char *pre)
{
    struct vocab v = start(pre);
    char known[64][64] = {"a", "b", "c", " ", "\xc3", "\xa9", "1", "\n"};
    size_t n = 8;
    for (int i = 0; i < 40; i++) {
        const char *left = known[random_below(seed, (uint32_t)n)],
                   *right = known[random_below(seed, (uint32_t)n)];
        if (strlen(left) + strlen(right) > 9)
            continue;
        add_merge(&v, left, right);
        char both[128];
        snprintf(both, sizeof both, "%s%s", left, right);
        vocab_copy(known[n++], both);
    }
    return v;
}

static void same_as_a_literal_restatement(void **state)
{
    (void)state;
    static const char *const pre[] = {"gpt-2", "smaug-bpe", "qwen2", "smollm"};
    uint64_t seed = 1;
    for (int round = 0; round < 200; round++) {
        static struct vocab v;
        v = random_vocab(&seed, pre[round % 4]);
        struct tft_tokenizer *t = open_vocab(&v);
        for (int i = 0; i < 10; i++) {
            char text[256] = "", back[1024];
            int32_t have[MAX_IDS], want[MAX_IDS];
            for (uint32_t k = random_below(&seed, 60); k--;)
                strcat(text, part(&seed));
            size_t n = encode(t, text, strlen(text), 0, have);
            assert_int_equal(n, encode_literally(&v, text, strlen(text), want));
            assert_memory_equal(have, want, n * sizeof *have);
            assert_int_equal(decode(t, have, n, back), strlen(text));
            assert_memory_equal(back, text, strlen(text));
        }
        tft_tokenizer_close(t);
    }
}

static void characters_are_composed(void **state)
{
    (void)state;
    static struct values values;
    for (int nfc = 0; nfc < 2; nfc++) {
        struct vocab v = start("qwen2");
        add_merge(&v, "\xc3", "\xa9");
        vocab_add(&v, "<|e\xcc\x81|>", 0, TFT_TOKEN_CONTROL);
        vocab_values(&v, &values);
        values_bool(&values, "tokenizer.tuffet.nfc", nfc);
        struct tft_tokenizer *t = open_values(&values);
        encodes(t, "e\xcc\x81", 0, nfc ? "\xc3\xa9" : "e|\xcc|\x81");
        encodes(t, "\xc3\xa9" "a", 0, "\xc3\xa9|a");
        encodes(t, "<|e\xcc\x81|>e\xcc\x81", TFT_PARSE_SPECIAL, /* names are found as they are */
                nfc ? "<|e\xcc\x81|>|\xc3\xa9" : "<|e\xcc\x81|>|e|\xcc|\x81");
        tft_tokenizer_close(t);
    }
}

/* ---- Gemma 4 */

static void merges_of_characters(void **state)
{
    (void)state;
    static struct values values;
    static const char *const tokens[] = {
        "<unk>", "<bos>", "\xe2\x96\x81", "a", "b", "\xc3\xa9", "\n", "\xe2\x96\x81" "a", "ab",
        "\xc3\xa9" "a", "\n\n", "\xe2\x96\x81\xe2\x96\x81", "<turn|>", "a\xe2\x96\x81"};
    static const char *const merges[] = {"\xe2\x96\x81 a", "a b", "\xc3\xa9 a",
                                         "\xe2\x96\x81 \xe2\x96\x81", "a \xe2\x96\x81"};
    for (size_t n = 13; n <= 14; n++) { /* with a token that crosses words, and without */
        struct vocab v = {.model = "gemma4"};
        for (size_t i = 0; i < n; i++)
            vocab_add(&v, tokens[i], 0,
                      i == 0   ? TFT_TOKEN_UNKNOWN
                      : i == 1 ? TFT_TOKEN_CONTROL
                               : TFT_TOKEN_NORMAL);
        vocab_add_bytes(&v);
        for (size_t i = 0; i + 9 < n; i++)
            vocab_copy(v.merge[v.n_merge++], merges[i]);
        vocab_values(&v, &values);
        values_u32(&values, "tokenizer.ggml.bos_token_id", 1);
        values_bool(&values, "tokenizer.ggml.add_bos_token", false);
        struct tft_tokenizer *t = open_values(&values);
        encodes(t, "ab ab", TFT_ADD_BOS, "<bos>|ab| a|b");
        assert_true(tft_tokenizer_ends(t, 12) && !tft_tokenizer_ends(t, 11)); /* <turn|> */
        encodes(t, "\xc3\xa9" "ab  a", 0, "\xc3\xa9|ab| | a");
        encodes(t, "\xc3\xa9" "a  ", 0, "\xc3\xa9" "a|  ");
        encodes(t, "a\xe2\x96\x81" "ab", 0, "a| a|b"); /* U+2581 is a space */
        encodes(t, "a\n\nb\n \n\n\n", 0, "a|\n\n|b|\n| |\n|\n|\n");
        encodes(t, "z\xe4\xbd\xff", 0, "z|\xe4|\xbd|\xff");
        encodes(t, "a ", 0, n == 14 ? "a " : "a| ");
        char back[64];
        int32_t ids[MAX_IDS];
        assert_int_equal(decode(t, ids, encode(t, " a \xc3\xa9", 5, 0, ids), back), 5);
        assert_memory_equal(back, " a \xc3\xa9", 5);
        tft_tokenizer_close(t);
    }
}

/* ---- large */

static void a_megabyte_of_one_word(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    static struct values values;
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct vocab v = start("gpt-2");
    add_merge(&v, "a", "a"), add_merge(&v, "aa", "aa"), add_merge(&v, "aaaa", "aaaa");
    struct tft_tokenizer *t;
    vocab_values(&v, &values);
    assert_int_equal(tft_tokenizer_open(&t, values_source(&values), &a, NULL), TFT_OK);
    size_t own = m.in_use, n;
    char *text = malloc(N);
    memset(text, 'a', N);
    assert_int_equal(tft_tokenizer_encode(t, text, N, 0, NULL, 0, &n), TFT_OK);
    assert_int_equal(n, N / 8);
    assert_int_equal(m.in_use, own);
    assert_in_range(m.peak, own, own + 32 * (size_t)N);
    free(text);
    tft_tokenizer_close(t);
    assert_int_equal(m.in_use, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_has_its_character),
        cmocka_unit_test(first_merge_first_then_leftmost),
        cmocka_unit_test(pieces_do_not_merge),
        cmocka_unit_test(llama3_takes_whole_pieces),
        cmocka_unit_test(a_byte_without_a_token_is_dropped),
        cmocka_unit_test(two_tokens_of_the_same_bytes),
        cmocka_unit_test(unusual_merges),
        cmocka_unit_test(invalid_merges),
        cmocka_unit_test(same_as_a_literal_restatement),
        cmocka_unit_test(characters_are_composed),
        cmocka_unit_test(merges_of_characters),
        cmocka_unit_test(a_megabyte_of_one_word),
    };
    return cmocka_run_group_tests(tests, write_bytes, NULL);
}
