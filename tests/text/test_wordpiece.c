#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "paths.h"
#include "port/port.h"
#include "vocabs.h"

#define LOW "\xe2\x96\x81" /* U+2581 */

enum { PAD, UNK, CLS, SEP };

static struct vocab start(void)
{
    struct vocab v = {.model = "bert"};
    vocab_add(&v, "[PAD]", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "[UNK]", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "[CLS]", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "[SEP]", 0, TFT_TOKEN_CONTROL);
    return v;
}

/* Adds normal tokens, with blanks between them. */
static void add(struct vocab *v, const char *texts)
{
    for (size_t n; *texts; texts += n + (texts[n] == ' ')) {
        char text[64];
        n = strcspn(texts, " ");
        snprintf(text, sizeof text, "%.*s", (int)n, texts);
        vocab_add(v, text, 0, TFT_TOKEN_NORMAL);
    }
}

static struct values *with_ids(const struct vocab *v)
{
    static struct values values;
    vocab_values(v, &values);
    values_u32(&values, "tokenizer.ggml.cls_token_id", CLS);
    values_u32(&values, "tokenizer.ggml.seperator_token_id", SEP);
    values_u32(&values, "tokenizer.ggml.unknown_token_id", UNK);
    return &values;
}

static struct tft_tokenizer *open_bert(const struct vocab *v) { return open_values(with_ids(v)); }

static void the_longest_piece_comes_first(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "a " LOW "ab " LOW "abc b bc bcd d");
    struct tft_tokenizer *t = open_bert(&v);
    encodes(t, "ab", 0, " ab");
    encodes(t, "abcd", 0, " abc|d"); /* not " a", then bcd */
    encodes(t, "abdbc", 0, " ab|d|bc");
    encodes(t, "abc abcbcd", 0, " abc| abc|bcd");
    tft_tokenizer_close(t);
}

static void a_word_without_pieces_is_unknown(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "a a b " LOW ".");
    struct tft_tokenizer *t = open_bert(&v);
    encodes(t, "ab abz a", 0, " a|b|[UNK]| a"); /* the whole word */
    encodes(t, "b", 0, "[UNK]");                /* b does not begin a word */
    encodes(t, "z z", 0, "[UNK]|[UNK]");        /* one for each word */
    char text[102];
    memset(text, 'a', sizeof text);
    int32_t ids[MAX_IDS];
    assert_int_equal(encode(t, text, 100, 0, ids), 100);
    assert_int_equal(encode(t, text, 101, 0, ids), 1);
    assert_int_equal(ids[0], UNK);
    tft_tokenizer_close(t);
}

static void words_are_cut_at_spaces_and_punctuation(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "a " LOW "b " LOW ". " LOW "' " LOW "$ " LOW "\xe2\x82\xac " LOW "\xe2\x80\x94 "
                "\xe2\x82\xac b " LOW "\xe4\xbd\xa0 " LOW "\xe3\x81\x82");
    struct tft_tokenizer *t = open_bert(&v);
    encodes(t,
            " a\tb\r\n\xc2\xa0\xe3\x80\x80"
            "a  ",
            0, " a| b| a");
    encodes(t, "a.b'..", 0, " a| .| b| '| .| .");
    encodes(t, "a$b", 0, " a| $| b"); /* a symbol of ASCII */
    encodes(t,
            "a\xe2\x82\xac"
            "b",
            0, " a|\xe2\x82\xac|b"); /* another symbol does not cut */
    encodes(t,
            "a\xe2\x80\x94"
            "b",
            0, " a| \xe2\x80\x94| b");
    encodes(t,
            "a\xe4\xbd\xa0\xe4\xbd\xa0"
            "b",
            0, " a| \xe4\xbd\xa0| \xe4\xbd\xa0| b");
    encodes(t, "\xe3\x81\x82\xe3\x81\x82", 0, "[UNK]"); /* kana are letters of a word */
    encodes(t, "", 0, "");
    encodes(t, " \t", 0, "");
    tft_tokenizer_close(t);
}

static void text_is_cleaned(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "ab " LOW "a " LOW "b b");
    struct tft_tokenizer *t = open_bert(&v);
    int32_t ids[MAX_IDS];
    assert_int_equal(encode(t, "a\0b", 3, 0, ids), 1);
    encodes(t,
            "a\x01"
            "b",
            0, " ab");
    encodes(t,
            "a\x0b"
            "b",
            0, " ab"); /* dropped, and no space */
    encodes(t,
            "a\xc2\x85"
            "b",
            0, " ab");
    encodes(t,
            "a\xc2\xad\xe2\x80\x8d"
            "b",
            0, " ab"); /* soft hyphen, zero-width joiner */
    encodes(t,
            "a\xef\xbf\xbd\xff\xe2\x82"
            "b",
            0, " ab");
    encodes(t,
            "a\xe2\x80\xa8"
            "b",
            0, " a| b"); /* U+2028 */
    tft_tokenizer_close(t);
}

/* "Ab", "e with acute", "capital sigma", "I with dot above". */
#define CASES "Ab \xc3\xa9 \xce\xa3 \xc4\xb0"

static void case_and_accents(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "ab " LOW "Ab " LOW "e " LOW "\xc3\xa9 " LOW "\xcf\x83 " LOW "\xce\xa3 " LOW
                "i " LOW "I " LOW "i\xcc\x87 " LOW "\xc4\xb0");
    struct tft_tokenizer *t = open_bert(&v);
    encodes(t, CASES, 0, " ab| e| \xcf\x83| i");
    tft_tokenizer_close(t);
    struct values *values = with_ids(&v);
    values_bool(values, "tokenizer.ggml.normalizer.strip_accents", false);
    t = open_values(values);
    encodes(t, CASES, 0, " ab| \xc3\xa9| \xcf\x83| i\xcc\x87");
    tft_tokenizer_close(t);
    values = with_ids(&v);
    values_bool(values, "tokenizer.ggml.normalizer.lowercase", false);
    t = open_values(values); /* without lower case, accents stay */
    encodes(t, CASES, 0, " Ab| \xc3\xa9| \xce\xa3| \xc4\xb0");
    tft_tokenizer_close(t);
    values = with_ids(&v);
    values_bool(values, "tokenizer.ggml.normalizer.lowercase", false);
    values_bool(values, "tokenizer.ggml.normalizer.strip_accents", true);
    t = open_values(values);
    encodes(t, CASES, 0, " Ab| e| \xce\xa3| I");
    tft_tokenizer_close(t);
}

/* U+302E (class 224) and U+1D165 (216) are marks that stay, and NFD sorts them; a mark of class 0
   between them, U+093A, goes and yet keeps them apart. */
static void marks_are_sorted(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "a\xf0\x9d\x85\xa5\xe3\x80\xae " LOW "a\xe3\x80\xae\xf0\x9d\x85\xa5 " LOW
                "\xe1\x84\x80\xe1\x85\xa1");
    struct tft_tokenizer *t = open_bert(&v);
    encodes(t, "a\xe3\x80\xae\xf0\x9d\x85\xa5", 0, " a\xf0\x9d\x85\xa5\xe3\x80\xae");
    encodes(t, "a\xe3\x80\xae\xe0\xa4\xba\xf0\x9d\x85\xa5", 0, " a\xe3\x80\xae\xf0\x9d\x85\xa5");
    encodes(t, "\xea\xb0\x80", 0, " \xe1\x84\x80\xe1\x85\xa1"); /* Hangul becomes its letters */
    tft_tokenizer_close(t);
}

static void ends_and_pairs(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "a " LOW "b");
    struct tft_tokenizer *t = open_bert(&v);
    encodes(t, "a", TFT_ADD_BOS | TFT_ADD_EOS, "[CLS]| a|[SEP]");
    encodes(t, "a", TFT_ADD_EOS, " a|[SEP]");
    encodes(t, "[SEP]a", TFT_PARSE_SPECIAL, "[SEP]| a");
    encodes(t, "[SEP]", 0, "[UNK]|[UNK]|[UNK]");
    assert_true(tft_tokenizer_adds_eos(t));
    assert_int_equal(tft_tokenizer_bos(t), CLS);
    assert_int_equal(tft_tokenizer_eos(t), SEP);

    const struct tft_str a = {"a", 1}, b = {"b b", 3};
    int32_t ids[6];
    unsigned char types[6];
    size_t n;
    const int32_t want[] = {CLS, 4, SEP, 5, 5, SEP};
    const unsigned char want_types[] = {0, 0, 0, 1, 1, 1};
    assert_int_equal(tft_tokenizer_encode_pair(t, a, b, TFT_ADD_BOS, ids, types, 6, &n), TFT_OK);
    assert_int_equal(n, 6);
    assert_memory_equal(ids, want, sizeof want);
    assert_memory_equal(types, want_types, sizeof want_types);
    assert_int_equal(tft_tokenizer_encode_pair(t, a, b, TFT_CONTINUE, ids, types, 6, &n),
                     TFT_ERR_ARG);
    tft_tokenizer_close(t);

    struct values *values = with_ids(&v);
    values_u32(values, "tokenizer.ggml.token_type_count", 1);
    t = open_values(values);
    assert_int_equal(tft_tokenizer_encode_pair(t, a, b, TFT_ADD_BOS, ids, types, 6, &n), TFT_OK);
    assert_int_equal(types[5], 0);
    tft_tokenizer_close(t);
}

static void tokens_become_text(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "a " LOW "b b " LOW ". " LOW "! " LOW LOW);
    struct tft_tokenizer *t = open_bert(&v);
    const int32_t ids[] = {CLS, 4, 6, 7, 5, 8, 9, SEP, -1};
    struct tft_text text = {0};
    char all[64], out[TFT_TEXT_MAX];
    size_t used = 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        size_t n = tft_tokenizer_push(t, &text, ids[i], out);
        assert_true(used + n <= sizeof all);
        memcpy(all + used, out, n);
        used += n;
    }
    const char want[] = "ab. b! " LOW;
    assert_int_equal(used, strlen(want));
    assert_memory_equal(all, want, used);
    tft_tokenizer_close(t);
}

static void refuses(struct values *v, const char *what)
{
    struct tft_tokenizer *t;
    struct tft_error err = {0};
    assert_int_equal(tft_tokenizer_open(&t, values_source(v), NULL, &err), TFT_ERR_FORMAT);
    assert_null(t);
    if (!strstr(err.msg, what))
        fail_msg("%s", err.msg);
}

static void damaged_values(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = start();
    add(&v, LOW "a");
    vocab_values(&v, &values); /* no keys, and no token 101 */
    refuses(&values, "cls_token_id is missing");
    values_u32(&values, "tokenizer.ggml.cls_token_id", CLS);
    refuses(&values, "seperator_token_id is missing");
    values_u32(&values, "tokenizer.ggml.seperator_token_id", SEP);
    refuses(&values, "unknown_token_id is missing");
    values_u32(&values, "tokenizer.ggml.unknown_token_id", 5);
    refuses(&values, "there are only 5 tokens");
    struct values *given = with_ids(&v);
    values_str(given, "tokenizer.ggml.normalizer.lowercase", "yes");
    refuses(given, "is not a bool");
    given = with_ids(&v);
    values_str(given, "tokenizer.ggml.token_type_count", "2");
    refuses(given, "is not a number");
}

/* A vocabulary may cut characters into bytes, which no converter does. */
static void pieces_of_single_bytes(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "\xf0 \x9f \x98 \x80 \xf0");
    struct tft_tokenizer *t = open_bert(&v);
    char text[400];
    for (size_t i = 0; i < sizeof text; i += 4)
        memcpy(text + i, "\xf0\x9f\x98\x80", 4);
    int32_t ids[MAX_IDS];
    assert_int_equal(encode(t, text, sizeof text, 0, ids), 400);
    tft_tokenizer_close(t);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    struct vocab v = start();
    add(&v, LOW "a " LOW "b");
    bool opened = false;
    for (int k = 1; !opened && k < 100; k++) {
        struct memory m = {.fail_at = (unsigned)k};
        struct tft_allocator a = memory_allocator(&m);
        struct tft_tokenizer *t;
        opened = tft_tokenizer_open(&t, values_source(with_ids(&v)), &a, NULL) == TFT_OK;
        if (opened)
            tft_tokenizer_close(t);
        assert_int_equal(m.in_use, 0);
    }
    assert_true(opened);
}

/* ---- texts and ids of others */

static const char *next_text(const char *p, const char *end, size_t *n)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    const size_t m = sizeof separator - 1;
    const char *at = p;
    while ((size_t)(end - at) >= m && memcmp(at, separator, m) != 0)
        at++;
    assert_true((size_t)(end - at) >= m);
    *n = (size_t)(at - p);
    return at + m;
}

static const char *next_ids(const char *p, const char *end, int32_t *ids, size_t *n)
{
    for (*n = 0; p < end && *p != '\n';) {
        char *after;
        long id = strtol(p, &after, 10);
        if (after > p)
            ids[(*n)++] = (int32_t)id;
        p = after > p ? after : p + 1;
        assert_true(*n < MAX_IDS);
    }
    return p + 1;
}

static bool map_shared(struct tft_map *map, const char *name, const char *suffix)
{
    char file[128];
    snprintf(file, sizeof file, "tokenizers/wordpiece/%s%s", name, suffix);
    const char *path = shared_path(file);
    return path && tft_port_map(map, path) == 0;
}

/* The texts of NAME.inp give the ids of NAME.out. */
static void compare(const char *name, int least)
{
    struct tft_source s;
    struct tft_tokenizer *t;
    struct tft_error err;
    struct tft_map inp, out;
    const char *vocab = shared_path("tokenizers/wordpiece/ggml-vocab-bert-bge.gguf");
    if (!vocab || !map_shared(&inp, name, ".inp") || !map_shared(&out, name, ".out"))
        skip_because("shared/tokenizers/wordpiece is not there");
    assert_int_equal(tft_source_open(&s, vocab, NULL, NULL, &err), TFT_OK);
    assert_int_equal(tft_tokenizer_open(&t, &s, NULL, &err), TFT_OK);
    tft_source_close(&s);
    const char *text = (const char *)inp.data, *end = text + inp.size,
               *line = (const char *)out.data, *last = line + out.size;
    int texts = 0;
    for (; text < end && line < last; texts++) {
        int32_t want[MAX_IDS], have[MAX_IDS];
        size_t len, n;
        const char *after = next_text(text, end, &len);
        line = next_ids(line, last, want, &n);
        assert_int_equal(encode(t, text, len, 0, have), n);
        assert_memory_equal(have, want, n * sizeof *want);
        text = after;
    }
    assert_true(texts >= least && text >= end && line >= last);
    tft_tokenizer_close(t);
    tft_port_unmap(&inp);
    tft_port_unmap(&out);
}

static void texts_of_llama_cpp(void **state)
{
    (void)state;
    compare("ggml-vocab-bert-bge.gguf", 40);
}

static void further_texts(void **state)
{
    (void)state;
    compare("bert-extra", 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_piece_comes_first),
        cmocka_unit_test(a_word_without_pieces_is_unknown),
        cmocka_unit_test(words_are_cut_at_spaces_and_punctuation),
        cmocka_unit_test(text_is_cleaned),
        cmocka_unit_test(case_and_accents),
        cmocka_unit_test(marks_are_sorted),
        cmocka_unit_test(ends_and_pairs),
        cmocka_unit_test(tokens_become_text),
        cmocka_unit_test(damaged_values),
        cmocka_unit_test(pieces_of_single_bytes),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(texts_of_llama_cpp),
        cmocka_unit_test(further_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
