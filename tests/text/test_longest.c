/* RWKV's vocabulary: names with escapes, and the longest token at each place of a text. */
#include "test.h"

#include <stdio.h>

#include "memory.h"
#include "vocabs.h"

static struct vocab start(void)
{
    struct vocab v = {.model = "rwkv"};
    vocab_add(&v, "<s>", 0, TFT_TOKEN_CONTROL);
    return v;
}

static void add(struct vocab *v, const char *name) { vocab_add(v, name, 0, TFT_TOKEN_NORMAL); }

/* Bytes have names as repr() of Python's bytes writes them: four characters, but for printable
   ASCII. */
static void add_bytes(struct vocab *v)
{
    char name[8];
    for (int byte = 0; byte < 256; byte++) {
        const char *escape = byte == '\t'   ? "\\t"
                             : byte == '\n' ? "\\n"
                             : byte == '\r' ? "\\r"
                             : byte == '\\' ? "\\\\"
                                            : NULL;
        bool plain = byte >= ' ' && byte < 0x7f;
        snprintf(name, sizeof name, plain ? "%c" : "\\x%02x", byte);
        add(v, escape ? escape : name);
    }
}

static void names_are_literals(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        size_t n;
    } cases[] = {{"\\t", "\t", 1},     {"a\\n\\r", "a\n\r", 3},       {"\\\\x41", "\\x41", 4},
                 {"\\x00b", "\0b", 2}, {"\\xE5\\xa4", "\xe5\xa4", 2}, {"\\'\\\"q", "'\"q", 3},
                 {"\\q", "q", 1},      {" a b", " a b", 4},           {"\\x411", "A1", 2},
                 {"", "", 0}};
    enum { N = sizeof cases / sizeof *cases };
    struct vocab v = start();
    int32_t id[N];
    size_t n;
    add_bytes(&v);
    for (int i = 0; i < N; i++)
        id[i] = vocab_add(&v, cases[i].name, 0, TFT_TOKEN_NORMAL);
    struct tft_tokenizer *t = open_vocab(&v);
    for (int i = 0; i < N; i++) {
        const char *text = tft_tokenizer_text(t, id[i], false, &n);
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(text, cases[i].text, n);
    }
    tft_tokenizer_close(t);
}

static void refused(const char *name, const char *why)
{
    static struct values values;
    struct vocab v = start();
    struct tft_tokenizer *t;
    struct tft_error err;
    add_bytes(&v);
    add(&v, name);
    vocab_values(&v, &values);
    assert_int_equal(tft_tokenizer_open(&t, values_source(&values), NULL, &err), TFT_ERR_FORMAT);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
    assert_null(t);
}

static void damaged_names_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\\",    "a\\",   "\\x",      "\\x4",  "ab\\x4",
                                      "\\xg1", "\\x1g", "\\x \x31", "\\\\\\"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i], "without two digits after it");
}

/* Names of control tokens are not literals. */
static void control_tokens(void **state)
{
    (void)state;
    struct vocab v = start();
    add_bytes(&v);
    vocab_add(&v, "<\\x>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "[PAD1]", 0, TFT_TOKEN_UNUSED);
    struct tft_tokenizer *t = open_vocab(&v);
    encodes(t, "a<\\x>[PAD1]", 0, "a|<|\\|x|>|[|P|A|D|1|]");
    encodes(t, "a<\\x>b", TFT_PARSE_SPECIAL, "a|<\\x>|b");
    tft_tokenizer_close(t);
}

/* Where a byte has no token, there must be an unknown token. */
static void bytes_without_a_token(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = start();
    struct tft_tokenizer *t;
    struct tft_error err;
    add(&v, "a");
    add(&v, "aba");
    vocab_values(&v, &values);
    assert_int_equal(tft_tokenizer_open(&t, values_source(&values), NULL, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "neither an unknown token nor \"\\x00\""));
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    t = open_vocab(&v);
    encodes(t, "abab", 0, "aba|<unk>"); /* the longest first, though "a" would leave fewer */
    encodes(t, "ab", 0, "a|<unk>");
    encodes(t, "\xff\xff", 0, "<unk>|<unk>");
    encodes(t, "", 0, "");
    tft_tokenizer_close(t);
}

/* ---- against a search through all tokens */

/* The token with the longest name that text[n] begins with; of several the first. */
static int32_t searched(const struct tft_tokenizer *t, const char *text, size_t n, size_t *length)
{
    int32_t best = -1;
    *length = 0;
    for (uint32_t i = 1; i < tft_tokenizer_size(t); i++) { /* 0 is <s> */
        size_t len;
        const char *p = tft_tokenizer_text(t, (int32_t)i, false, &len);
        if (len > *length && len <= n && memcmp(p, text, len) == 0) {
            best = (int32_t)i;
            *length = len;
        }
    }
    return best;
}

static void the_longest_token_is_taken(void **state)
{
    (void)state;
    static const char *const parts[] = {"a", "b", "\\n", " ", "\\xe5", "\\xa4"};
    static const char bytes[] = {'a', 'b', '\n', ' ', '\xe5', '\xa4', '\\', 'x', '\0'};
    uint64_t seed = 7;
    for (int round = 0; round < 100; round++) {
        struct vocab v = start();
        add_bytes(&v);
        for (int i = 0; i < 60; i++) { /* some are there twice */
            char name[64] = "";
            for (uint32_t k = 2 + random_below(&seed, 6); k--;)
                strcat(name, parts[random_below(&seed, 6)]);
            add(&v, name);
        }
        struct tft_tokenizer *t = open_vocab(&v);
        for (int i = 0; i < 10; i++) {
            char text[50], back[50];
            int32_t ids[MAX_IDS];
            size_t n = random_below(&seed, sizeof text), at = 0, len;
            for (size_t k = 0; k < n; k++)
                text[k] = bytes[random_below(&seed, sizeof bytes)];
            size_t n_ids = encode(t, text, n, 0, ids);
            for (size_t k = 0; k < n_ids; k++, at += len)
                assert_int_equal(ids[k], searched(t, text + at, n - at, &len));
            assert_int_equal(at, n);
            assert_int_equal(decode(t, ids, n_ids, back), n);
            assert_memory_equal(back, text, n);
        }
        tft_tokenizer_close(t);
    }
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = start();
    add_bytes(&v);
    add(&v, "ab");
    vocab_values(&v, &values);
    bool opened = false;
    for (int k = 1; !opened && k < 100; k++) {
        struct memory m = {.fail_at = (unsigned)k};
        struct tft_allocator a = memory_allocator(&m);
        struct tft_tokenizer *t;
        enum tft_status status = tft_tokenizer_open(&t, values_source(&values), &a, NULL);
        assert_true(status == TFT_OK || status == TFT_ERR_NOMEM);
        opened = status == TFT_OK;
        if (opened)
            tft_tokenizer_close(t);
        assert_int_equal(m.in_use, 0);
        assert_true(k > 1 || !opened);
    }
    assert_true(opened);
}

/* A text costs its length times that of the longest token, at most. */
static void a_megabyte_of_one_character(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct vocab v = start();
    add_bytes(&v);
    add(&v, "aaaaaaa");
    add(&v, "aaaaaaaaaaaaaaab");
    struct tft_tokenizer *t = open_vocab(&v);
    char *text = malloc(N);
    size_t n;
    assert_non_null(text);
    memset(text, 'a', N);
    assert_int_equal(tft_tokenizer_encode(t, text, N, 0, NULL, 0, &n), TFT_OK);
    assert_int_equal(n, N / 7 + N % 7);
    free(text);
    tft_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_literals),
        cmocka_unit_test(damaged_names_are_refused),
        cmocka_unit_test(control_tokens),
        cmocka_unit_test(bytes_without_a_token),
        cmocka_unit_test(the_longest_token_is_taken),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(a_megabyte_of_one_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
