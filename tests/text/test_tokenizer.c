#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "port/port.h"
#include "base/utf8.h"
#include "model/model.h"
#include "text/vocab.h"
#include "vocabs.h"

#define LOW "\xe2\x96\x81" /* U+2581 */

enum { UNK, BOS, EOS, IM_END, TOOL, TOOLS, TOOL_CALL, PAD, A, B, SPACE_A, SPACE, FIRST_BYTE };

static struct vocab spm_vocab(void)
{
    struct vocab v = {.model = "llama"};
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "<s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<|im_end|>", 0, TFT_TOKEN_NORMAL); /* as in many files */
    vocab_add(&v, "<tool>", 0, TFT_TOKEN_USER);
    vocab_add(&v, "<tool>s", 0, TFT_TOKEN_USER);
    vocab_add(&v, "<tool>call", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<pad>", 0, TFT_TOKEN_UNUSED);
    vocab_add(&v, "a", -1, TFT_TOKEN_NORMAL);
    vocab_add(&v, "b", -1, TFT_TOKEN_NORMAL);
    vocab_add(&v, LOW "a", -1, TFT_TOKEN_NORMAL);
    vocab_add(&v, LOW, -1, TFT_TOKEN_NORMAL);
    vocab_add_bytes(&v);
    return v;
}

static void spm_values(struct values *out)
{
    struct vocab v = spm_vocab();
    vocab_values(&v, out);
    values_u32(out, "tokenizer.ggml.bos_token_id", BOS);
    values_u32(out, "tokenizer.ggml.eos_token_id", EOS);
    values_u32(out, "tokenizer.ggml.unknown_token_id", UNK);
}

static struct tft_tokenizer *open_spm(void)
{
    static struct values values;
    spm_values(&values);
    return open_values(&values);
}

/* ---- special tokens */

static void the_longest_special_token_wins(void **state)
{
    (void)state;
    struct tft_tokenizer *t = open_spm();
    encodes(t, "<tool>a", 0, "<tool>| a");
    encodes(t, "a<tool>sa<tool", 0, " a|<tool>s| a|<|t|o|o|l");
    encodes(t, "<tool>call", 0, "<tool>| |c|a|l|l");
    encodes(t, "<tool>call", TFT_PARSE_SPECIAL, "<tool>call");
    encodes(t, "<tool>cal", TFT_PARSE_SPECIAL, "<tool>| |c|a|l");
    encodes(t, "<<s>><tool><tool>s", TFT_PARSE_SPECIAL, " |<|<s>| |>|<tool>|<tool>s");
    encodes(t, "<unk>a<|im_end|>", TFT_PARSE_SPECIAL, "<unk>| a|<|im_end|>");
    encodes(t, "<pad>", TFT_PARSE_SPECIAL, " |<|p|a|d|>");
    tft_tokenizer_close(t);
}

static void bos_goes_first_if_the_model_wants_it(void **state)
{
    (void)state;
    static struct values values;
    int32_t ids[MAX_IDS];
    struct tft_tokenizer *t = open_spm();
    encodes(t, "a", TFT_ADD_BOS, "<s>| a");
    encodes(t, "", TFT_ADD_BOS, "<s>");
    encodes(t, "<s>a", TFT_ADD_BOS | TFT_PARSE_SPECIAL, "<s>| a");
    encodes(t, "<s><s>a", TFT_ADD_BOS | TFT_PARSE_SPECIAL, "<s>|<s>| a");
    encodes(t, "a<s>", TFT_ADD_BOS | TFT_PARSE_SPECIAL, "<s>| a|<s>");
    encodes(t, "<s>", TFT_ADD_BOS, "<s>| |<|s|>");
    encodes(t, "<s>a", TFT_HAS_BOS | TFT_PARSE_SPECIAL, " a");
    encodes(t, "<s>a", TFT_PARSE_SPECIAL, "<s>| a");
    tft_tokenizer_close(t);

    spm_values(&values);
    values_bool(&values, "tokenizer.ggml.add_bos_token", false);
    t = open_values(&values);
    encodes(t, "a", TFT_ADD_BOS, " a");
    encodes(t, "<s>a", TFT_ADD_BOS | TFT_PARSE_SPECIAL, "<s>| a");
    assert_int_equal(tft_tokenizer_bos(t), BOS);
    tft_tokenizer_close(t);

    spm_values(&values);
    values_remove(&values, "tokenizer.ggml.bos_token_id");
    t = open_values(&values);
    assert_int_equal(encode(t, "a", 1, TFT_ADD_BOS, ids), 1);
    assert_int_equal(tft_tokenizer_bos(t), -1);
    tft_tokenizer_close(t);
}

static void generation_ends_by_id_or_by_name(void **state)
{
    (void)state;
    static struct values values;
    struct tft_tokenizer *t = open_spm();
    for (int32_t id = -2; id < (int32_t)tft_tokenizer_size(t) + 2; id++)
        assert_int_equal(tft_tokenizer_ends(t, id), id == EOS || id == IM_END);
    assert_int_equal(tft_tokenizer_eos(t), EOS);
    tft_tokenizer_close(t);

    spm_values(&values);
    values_u32(&values, "tokenizer.ggml.eot_token_id", TOOL);
    values_u32(&values, "tokenizer.ggml.eom_token_id", PAD);
    values_remove(&values, "tokenizer.ggml.eos_token_id");
    t = open_values(&values);
    assert_true(tft_tokenizer_ends(t, TOOL) && tft_tokenizer_ends(t, PAD) &&
                tft_tokenizer_ends(t, EOS));
    assert_int_equal(tft_tokenizer_eos(t), -1);
    tft_tokenizer_close(t);
}

/* A name ends generation unless the file lists other ends, or says that "</s>" is text. */
static void the_file_says_which_names_end(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = spm_vocab();
    const int32_t listed[] = {A, IM_END},
                  html = vocab_add(&v, "</s>", 0, TFT_TOKEN_USER),
                  user = vocab_add(&v, "<eos>", 0, TFT_TOKEN_USER),
                  normal = vocab_add(&v, "<|end|>", 0, TFT_TOKEN_NORMAL),
                  control = vocab_add(&v, "<|eot_id|>", 0, TFT_TOKEN_CONTROL),
                  next_file = vocab_add(&v, "<|file_sep|>", 0, TFT_TOKEN_CONTROL);
    vocab_values(&v, &values);
    struct tft_tokenizer *t = open_values(&values);
    size_t len;
    assert_false(tft_tokenizer_ends(t, html) || tft_tokenizer_ends(t, next_file));
    assert_true(tft_tokenizer_ends(t, normal) && tft_tokenizer_ends(t, control));
    assert_true(tft_tokenizer_ends(t, user));
    tft_tokenizer_text(t, html, false, &len);
    assert_int_equal(len, 4);
    tft_tokenizer_close(t);

    vocab_values(&v, &values);
    values_i32s(&values, "tokenizer.tuffet.ends", listed, 2);
    values_u32(&values, "tokenizer.ggml.fim_sep_token_id", (uint32_t)next_file);
    t = open_values(&values);
    assert_true(tft_tokenizer_ends(t, A) && tft_tokenizer_ends(t, IM_END));
    assert_true(tft_tokenizer_ends(t, control) && tft_tokenizer_ends(t, next_file));
    assert_false(tft_tokenizer_ends(t, html) || tft_tokenizer_ends(t, user) ||
                 tft_tokenizer_ends(t, normal));
    tft_tokenizer_text(t, normal, false, &len);
    assert_int_equal(len, 7);
    tft_tokenizer_close(t);
}

/* Tokens of fill-in-the-middle: by keys, else by names. */
static void parts_of_a_text_with_a_gap(void **state)
{
    (void)state;
    static struct values values;
    struct tft_tokenizer *t = open_spm();
    for (int part = TFT_FIM_PREFIX; part <= TFT_FIM_MIDDLE; part++)
        assert_int_equal(tft_tokenizer_fim(t, part), -1);
    tft_tokenizer_close(t);

    struct vocab v = spm_vocab();
    const int32_t suffix = vocab_add(&v, "<fim_suffix>", 0, TFT_TOKEN_CONTROL),
                  prefix = vocab_add(&v, "<fim_prefix>", 0, TFT_TOKEN_USER);
    vocab_add(&v, "<fim_prefix", 0, TFT_TOKEN_USER);
    vocab_values(&v, &values);
    values_u32(&values, "tokenizer.ggml.fim_mid_token_id", TOOL);
    t = open_values(&values);
    assert_int_equal(tft_tokenizer_fim(t, TFT_FIM_PREFIX), prefix);
    assert_int_equal(tft_tokenizer_fim(t, TFT_FIM_SUFFIX), suffix);
    assert_int_equal(tft_tokenizer_fim(t, TFT_FIM_MIDDLE), TOOL);
    assert_int_equal(tft_tokenizer_fim(t, TFT_FIM_MIDDLE + 1), -1);
    tft_tokenizer_close(t);

    vocab_values(&v, &values);
    values_u32(&values, "tokenizer.ggml.fim_suf_token_id", A);
    t = open_values(&values);
    assert_int_equal(tft_tokenizer_fim(t, TFT_FIM_SUFFIX), A);
    assert_int_equal(tft_tokenizer_fim(t, TFT_FIM_MIDDLE), -1);
    tft_tokenizer_close(t);
}

/* The kinds of tokens then follow from their ids and names. */
static void a_vocabulary_without_types(void **state)
{
    (void)state;
    static struct values values;
    spm_values(&values);
    values_remove(&values, "tokenizer.ggml.token_type");
    struct tft_tokenizer *t = open_values(&values);
    size_t len;
    encodes(t, "<s>a\xff", TFT_PARSE_SPECIAL, "<s>| a|\xff");
    assert_non_null(tft_tokenizer_text(t, BOS, false, &len));
    assert_int_equal(len, 0);
    tft_tokenizer_text(t, UNK, false, &len);
    assert_int_equal(len, 0);
    tft_tokenizer_close(t);
}

/* ---- tokens to text */

static void text_of_a_token(void **state)
{
    (void)state;
    struct tft_tokenizer *t = open_spm();
    size_t len;
    assert_null(tft_tokenizer_text(t, -1, true, &len));
    assert_int_equal(len, 0);
    len = 1;
    assert_null(tft_tokenizer_text(t, (int32_t)tft_tokenizer_size(t), true, &len));
    assert_int_equal(len, 0);
    assert_memory_equal(tft_tokenizer_text(t, SPACE_A, false, &len), " a", 2);
    assert_int_equal(len, 2);
    assert_memory_equal(tft_tokenizer_text(t, FIRST_BYTE + 0xe2, false, &len), "\xe2", 1);
    assert_int_equal(len, 1);
    assert_memory_equal(tft_tokenizer_text(t, TOOL, false, &len), "<tool>", 6);
    assert_int_equal(len, 6);
    for (int32_t id = 0; id < 8; id++) {
        tft_tokenizer_text(t, id, false, &len);
        assert_int_equal(len, id == TOOL ? 6 : id == TOOLS ? 7 : 0);
        tft_tokenizer_text(t, id, true, &len);
        assert_int_equal(len,
                         strlen((const char *[]){"<unk>", "<s>", "</s>", "<|im_end|>", "<tool>",
                                                 "<tool>s", "<tool>call", "<pad>"}[id]));
    }
    tft_tokenizer_close(t);
}

static size_t push_all(const struct tft_tokenizer *t, struct tft_text state, const int32_t *ids,
                       size_t n, char *all)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char out[TFT_TEXT_MAX];
        size_t len = tft_tokenizer_push(t, &state, ids[i], out);
        for (size_t at = 0; at < len;) {
            uint32_t c;
            at += tft_utf8_next(out + at, len - at, &c);
            assert_true(c < TFT_UTF8_BAD);
        }
        assert_in_range(state.held, 0, 3);
        memcpy(all + used, out, len);
        used += len;
    }
    all[used] = 0;
    return used;
}

static void pushes(const struct tft_tokenizer *t, bool started, const int32_t *ids, size_t n,
                   const char *want)
{
    char all[4096];
    assert_int_equal(push_all(t, (struct tft_text){.started = started}, ids, n, all), strlen(want));
    assert_string_equal(all, want);
}

#define BYTE(b) (FIRST_BYTE + (b))
#define PUSHES(t, started, want, ...)                                                              \
    pushes(t, started, (const int32_t[]){__VA_ARGS__},                                             \
           sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t), want)

static void never_half_a_character(void **state)
{
    (void)state;
    struct tft_tokenizer *t = open_spm();
    PUSHES(t, true, "", BYTE(0xf0), BYTE(0x9f), BYTE(0xa6));
    PUSHES(t, true, "\xf0\x9f\xa6\x99", BYTE(0xf0), BYTE(0x9f), BYTE(0xa6), BYTE(0x99));
    PUSHES(t, true, "\xf0\x9f\xa6\x99", BYTE(0xf0), BYTE(0x9f), EOS, BYTE(0xa6), BYTE(0x99), -1,
           -1);
    PUSHES(t, true, "\xef\xbf\xbd", BYTE(0xf0), BYTE(0x9f), BYTE(0xa6), -1);
    PUSHES(t, true, "\xef\xbf\xbd" "a", BYTE(0xf0), BYTE(0x9f), BYTE(0xa6), A);
    PUSHES(t, true,
           "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
           "a",
           BYTE(0xed), BYTE(0xa0), BYTE(0x80), A);
    PUSHES(t, true, "\xef\xbf\xbd\xc3\xa9", BYTE(0xe2), BYTE(0xc3), BYTE(0xa9));
    PUSHES(t, true, "\xef\xbf\xbd", BYTE(0xff));
    PUSHES(t, true, "", -5, 100000, EOS, UNK, PAD);
    tft_tokenizer_close(t);
}

static void the_first_space_goes(void **state)
{
    (void)state;
    static struct values values;
    struct tft_tokenizer *t = open_spm();
    PUSHES(t, false, "a a", SPACE_A, SPACE_A);
    PUSHES(t, true, " a a", SPACE_A, SPACE_A);
    PUSHES(t, false, "a", BOS, SPACE_A);
    PUSHES(t, false, " a", SPACE, SPACE_A);
    PUSHES(t, false, "b a", B, SPACE_A);
    PUSHES(t, false, "<tool> a", TOOL, SPACE_A);
    PUSHES(t, false, "a", BYTE(' '), A);
    tft_tokenizer_close(t);

    struct vocab v = spm_vocab();
    int32_t spaces = vocab_add(&v, "  ", 0, TFT_TOKEN_USER); /* these spaces were in the text */
    t = open_vocab(&v);
    encodes(t, "  a", 0, "  | a");
    PUSHES(t, false, "   a", spaces, SPACE_A);
    tft_tokenizer_close(t);

    spm_values(&values);
    values_bool(&values, "tokenizer.ggml.add_space_prefix", false);
    t = open_values(&values);
    PUSHES(t, false, " a a", SPACE_A, SPACE_A);
    tft_tokenizer_close(t);
}

/* The text that comes out in pieces equals the decoding of all bytes at once. */
static void pieces_add_up(void **state)
{
    (void)state;
    struct tft_tokenizer *t = open_spm();
    uint64_t seed = 1;
    static const unsigned char likely[] = {0x61, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                           0xc3, 0xe0, 0xe2, 0xed, 0xf0, 0xf4, 0xff};
    for (int round = 0; round < 20000; round++) {
        int32_t ids[24];
        char bytes[64], all[4096], want[4096];
        size_t n = 0, used = 0, n_bytes;
        for (uint32_t k = 1 + random_below(&seed, 20); k--;)
            ids[n++] = BYTE(likely[random_below(&seed, sizeof likely)]);
        n_bytes = decode(t, ids, n, bytes);
        for (size_t at = 0, len; at < n_bytes; at += len) {
            uint32_t c;
            len = tft_utf8_next(bytes + at, n_bytes - at, &c);
            memcpy(want + used, c < TFT_UTF8_BAD ? bytes + at : "\xef\xbf\xbd",
                   c < TFT_UTF8_BAD ? len : 3);
            used += c < TFT_UTF8_BAD ? len : 3;
        }
        ids[n++] = -1;
        assert_int_equal(push_all(t, (struct tft_text){.started = true}, ids, n, all), used);
        assert_memory_equal(all, want, used);
    }
    tft_tokenizer_close(t);
}

/* The longest text of a token: every byte becomes three. */
static void text_max_is_enough(void **state)
{
    (void)state;
    static struct values values;
    char token[TFT_TOKEN_MAX];
    memset(token, 0x80, sizeof token);
    struct vocab v = spm_vocab();
    vocab_values(&v, &values);
    values_key(&values, "tokenizer.ggml.tokens", TFT_VALUE_STRING, true, v.n);
    for (size_t i = 0; i < v.n; i++)
        values_put_str(&values, i == TOOL ? token : v.text[i],
                       i == TOOL ? sizeof token : strlen(v.text[i]));
    struct tft_tokenizer *t = open_values(&values);
    struct {
        char out[TFT_TEXT_MAX], after[16];
    } room;
    memset(&room, '.', sizeof room);
    struct tft_text text = {.held = 3, .bytes = {0xf0, 0x9f, 0xa6}};
    assert_int_equal(tft_tokenizer_push(t, &text, TOOL, room.out), 4 + 3 * (TFT_TOKEN_MAX - 1));
    text = (struct tft_text){
        .held =
            200}; /* a state that was not started from zero: nothing is read beyond the struct */
    assert_int_equal(tft_tokenizer_push(t, &text, TOOL, room.out), 3 * TFT_TOKEN_MAX);
    for (size_t i = 0; i < sizeof room.after; i++)
        assert_int_equal(room.after[i], '.');
    tft_tokenizer_close(t);
}

/* ---- ends and pairs */

/* The texts a and b as a pair; `want`: names of tokens and, after each name, its type. */
static void pairs(const struct tft_tokenizer *t, const char *want)
{
    const struct tft_str a = {"a", 1}, b = {"b", 1};
    int32_t ids[8];
    unsigned char types[8];
    char have[128] = "";
    size_t n, count, used = 0;
    assert_int_equal(tft_tokenizer_encode_pair(t, a, b, TFT_ADD_BOS, ids, types, 8, &n), TFT_OK);
    assert_int_equal(tft_tokenizer_encode_pair(t, a, b, TFT_ADD_BOS, NULL, NULL, 0, &count),
                     TFT_OK);
    assert_int_equal(n, count);
    assert_in_range(n, 1, 8);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *p = tft_tokenizer_text(t, ids[i], true, &len);
        used += (size_t)snprintf(have + used, sizeof have - used, "%s%.*s%d", i ? "|" : "",
                                 (int)len, p, types[i]);
    }
    assert_string_equal(have, want);
}

static void eos_goes_last_if_the_model_wants_it(void **state)
{
    (void)state;
    static struct values values;
    spm_values(&values);
    struct tft_tokenizer *t = open_values(&values);
    encodes(t, "a", TFT_ADD_EOS, " a");
    assert_false(tft_tokenizer_adds_eos(t));
    tft_tokenizer_close(t);
    values_bool(&values, "tokenizer.ggml.add_eos_token", true);
    t = open_values(&values);
    encodes(t, "a", TFT_ADD_BOS | TFT_ADD_EOS, "<s>| a|</s>");
    encodes(t, "", TFT_ADD_EOS, "</s>");
    encodes(t, "a", 0, " a");
    assert_true(tft_tokenizer_adds_eos(t));
    tft_tokenizer_close(t);
    values_remove(&values, "tokenizer.ggml.eos_token_id"); /* the separator is the end */
    values_u32(&values, "tokenizer.ggml.seperator_token_id", EOS);
    t = open_values(&values);
    encodes(t, "a", TFT_ADD_EOS, " a|</s>");
    tft_tokenizer_close(t);
}

/* RoBERTa has two separators between the texts, and one type of tokens. */
static void pairs_as_the_model_has_them(void **state)
{
    (void)state;
    static struct values values;
    const struct tft_str a = {"a", 1};
    size_t n;
    spm_values(&values);
    struct tft_tokenizer *t = open_values(&values);
    assert_int_equal(tft_tokenizer_encode_pair(t, a, a, TFT_ADD_BOS, NULL, NULL, 0, &n),
                     TFT_ERR_UNSUPPORTED);
    tft_tokenizer_close(t);
    values_bool(&values, "tokenizer.ggml.add_eos_token", true);
    t = open_values(&values);
    pairs(t, "<s>0| a0|</s>0| 0|b0|</s>0");
    tft_tokenizer_close(t);
    values_u32(&values, "tokenizer.ggml.token_type_count", 2);
    t = open_values(&values);
    pairs(t, "<s>0| a0|</s>0| 1|b1|</s>1");
    tft_tokenizer_close(t);
    values_bool(&values, "tokenizer.ggml.add_sep_token", true);
    t = open_values(&values);
    pairs(t, "<s>0| a0|</s>0|</s>0| 0|b0|</s>0");
    tft_tokenizer_close(t);
}

/* Unigram, of XLM-R, and files of ModernBERT, which have the key although one separator is between
   the texts. */
static void pairs_of_special_files(void **state)
{
    (void)state;
    static struct values values;
    for (int bert = 0; bert < 2; bert++) {
        struct vocab v = spm_vocab();
        v.model = bert ? "llama" : "t5";
        vocab_copy(v.text[EOS], bert ? "[SEP]" : "</s>");
        vocab_values(&v, &values);
        values_u32(&values, "tokenizer.ggml.bos_token_id", BOS);
        values_u32(&values, "tokenizer.ggml.eos_token_id", EOS);
        values_bool(&values, "tokenizer.ggml.add_bos_token", true);
        values_bool(&values, "tokenizer.ggml.add_eos_token", true);
        values_bool(&values, "tokenizer.ggml.add_space_prefix", true);
        if (bert)
            values_bool(&values, "tokenizer.ggml.add_sep_token", true);
        struct tft_tokenizer *t = open_values(&values);
        pairs(t, bert ? "<s>0| a0|[SEP]0| 0|b0|[SEP]0" : "<s>0| a0|</s>0|</s>0| 0|b0|</s>0");
        tft_tokenizer_close(t);
    }
}

/* ---- calls */

static void an_array_that_is_too_short_is_an_error(void **state)
{
    (void)state;
    struct tft_model m = {.tokenizer = open_spm()};
    int32_t ids[4] = {-7, -7, -7, -7};
    size_t n;
    assert_int_equal(tft_tokenize(&m, "a a a", 5, TFT_ADD_BOS, ids, 2, &n), TFT_ERR_FULL);
    assert_int_equal(n, 4);
    assert_int_equal(ids[1], SPACE_A);
    assert_int_equal(ids[2], -7);
    assert_int_equal(tft_tokenize(&m, "a a a", 5, TFT_ADD_BOS, ids, 0, &n), TFT_ERR_FULL);
    assert_int_equal(tft_tokenize(&m, "a a a", 5, TFT_ADD_BOS, NULL, 2, &n), TFT_OK);
    assert_int_equal(n, 4);
    assert_int_equal(tft_tokenize(&m, "a a a", 5, TFT_ADD_BOS, ids, 4, &n), TFT_OK);
    assert_int_equal(n, 4);
    assert_int_equal(tft_tokenize_pair(&m, "a", 1, "a", 1, 0, ids, NULL, 4, &n),
                     TFT_ERR_UNSUPPORTED);
    m.tokenizer->add_eos = true;
    ids[2] = -7;
    assert_int_equal(tft_tokenize_pair(&m, "a", 1, "a", 1, 0, ids, NULL, 2, &n), TFT_ERR_FULL);
    assert_int_equal(n, 5);
    assert_int_equal(ids[1], SPACE_A);
    assert_int_equal(ids[2], -7);
    assert_int_equal(tft_tokenize_pair(&m, "a", 1, "a", 1, TFT_ADD_BOS, NULL, NULL, 0, &n),
                     TFT_ERR_ARG);
    tft_tokenizer_close(m.tokenizer);
}

static void counts_like_snprintf(void **state)
{
    (void)state;
    struct tft_tokenizer *t = open_spm();
    int32_t ids[4] = {-7, -7, -7, -7};
    size_t n;
    assert_int_equal(tft_tokenizer_encode(t, "a a a", 5, TFT_ADD_BOS, ids, 2, &n), TFT_OK);
    assert_int_equal(n, 4);
    assert_int_equal(ids[0], BOS);
    assert_int_equal(ids[1], SPACE_A);
    assert_int_equal(ids[2], -7);
    assert_int_equal(tft_tokenizer_encode(t, NULL, 0, 0, NULL, 0, &n), TFT_OK);
    assert_int_equal(n, 0);
    n = 9;
    assert_int_equal(tft_tokenizer_encode(t, "a", (size_t)INT32_MAX + 1, 0, NULL, 0, &n),
                     TFT_ERR_ARG);
    assert_int_equal(n, 0);
    assert_int_equal(tft_tokenizer_encode(t, "a", 1, 16, NULL, 0, &n), TFT_ERR_ARG);
    tft_tokenizer_close(t);
    tft_tokenizer_close(NULL);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    static struct values values;
    static char text[1 << 16];
    memset(text, 'a', sizeof text);
    spm_values(&values);
    for (unsigned fail_at = 1; fail_at <= 2; fail_at++) {
        struct memory m = {.fail_at = fail_at};
        struct tft_allocator a = memory_allocator(&m);
        struct tft_tokenizer *t;
        struct tft_error err = {0};
        size_t n = 9;
        enum tft_status status = tft_tokenizer_open(&t, values_source(&values), &a, &err);
        assert_int_equal(status, fail_at == 1 ? TFT_ERR_NOMEM : TFT_OK);
        assert_int_equal(err.code, status);
        if (!status) {
            assert_int_equal(tft_tokenizer_encode(t, text, sizeof text, 0, NULL, 0, &n),
                             TFT_ERR_NOMEM);
            assert_int_equal(n, 0);
            assert_int_equal(tft_tokenizer_encode(t, text, sizeof text, 0, NULL, 0, &n), TFT_OK);
            assert_int_equal(n, sizeof text);
        }
        tft_tokenizer_close(t);
        assert_int_equal(m.in_use, 0);
    }
}

static void encode_on_a_thread(void *arg, int tid, int n)
{
    const struct tft_tokenizer *t = arg;
    (void)n;
    char text[600];
    int32_t ids[1200];
    size_t want = 0, have = 0;
    memset(text, tid % 2 ? 'a' : 'x', sizeof text);
    for (int i = 0; i < 200; i++) {
        tft_tokenizer_encode(t, text, sizeof text, TFT_PARSE_SPECIAL, ids, 1200, &have);
        want += have == (tid % 2 ? 600 : 601) && ids[1] == (tid % 2 ? A : BYTE('x')) &&
                ids[599] == ids[1];
    }
    if (want != 200)
        abort();
}

static void many_threads_may_encode(void **state)
{
    (void)state;
    struct tft_tokenizer *t = open_spm();
    tft_port_team(4, encode_on_a_thread, t);
    tft_tokenizer_close(t);
}

/* ---- unusual and hostile files */

static void duplicate_and_empty_tokens(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = spm_vocab();
    int32_t second = vocab_add(&v, "a", -1, TFT_TOKEN_NORMAL);
    vocab_add(&v, "", 0, TFT_TOKEN_NORMAL);
    vocab_add(&v, "", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "", 0, TFT_TOKEN_USER);
    int32_t tool = vocab_add(&v, "<tool>", 0, TFT_TOKEN_USER);
    vocab_add(&v, "<0x61>", 0, TFT_TOKEN_BYTE);
    int32_t ids[MAX_IDS];
    vocab_values(&v, &values);
    struct tft_tokenizer *t = open_values(&values);
    assert_int_equal(encode(t, "a<tool>ba", 9, 0, ids), 5);
    assert_int_equal(ids[0], SPACE_A);
    assert_int_equal(ids[1], TOOL);
    assert_int_equal(ids[4], A);
    PUSHES(t, true, "a<tool>", second, tool);
    encodes(t, "ab", TFT_PARSE_SPECIAL, " a|b");
    tft_tokenizer_close(t);
}

static struct values bad;

static void refused(enum tft_status status, const char *key, const char *message)
{
    struct tft_tokenizer *t;
    struct tft_error err = {0};
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    assert_int_equal(tft_tokenizer_open(&t, values_source(&bad), &a, &err), status);
    assert_null(t);
    assert_int_equal(m.in_use, 0);
    assert_int_equal(err.code, status);
    assert_memory_equal(err.msg, "v.gguf: ", 8);
    if (!strstr(err.msg, message))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, message);
    assert_non_null(strstr(err.msg, key));
    const struct tft_value *v = tft_source_value(&bad.s, key);
    if (v) /* the position is that of the value, or in it */
        assert_in_range(err.offset, v->offset, bad.used);
    spm_values(&bad);
}

static void white_space_around_special_tokens(void **state)
{
    (void)state;
    static struct values values;
    static const char *const names[] = {"Phi3", "my phi-3 mini", "Phi 3.5", "phi", "phi-", "phi-4"};
    struct vocab v = {.model = "llama"};
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "<s>", 0, TFT_TOKEN_CONTROL);
    vocab_add_bytes(&v);
    int32_t user = vocab_add(&v, "<|user|>", 0, TFT_TOKEN_CONTROL);
    int32_t mask = vocab_add(&v, "<mask>", 0, TFT_TOKEN_USER);
    const char *text = "a \t<|user|> \n\xe3\x80\x80" "b<mask> c<s> d";
    for (size_t i = 0; i < 6; i++) {
        vocab_values(&v, &values);
        values_str(&values, "general.name", names[i]);
        struct tft_tokenizer *t = open_values(&values);
        encodes(t, text, TFT_PARSE_SPECIAL,
                i < 3 ? " |a| |\t|<|user|>| |b|<mask>| |c|<s>| | |d"
                      : " |a| |\t|<|user|>| | |\n|\xe3|\x80|\x80|b|<mask>| | |c|<s>| | |d");
        encodes(t, "<|user|> \n", TFT_PARSE_SPECIAL,
                i < 3 ? "<|user|>" : "<|user|>| | |\n");
        tft_tokenizer_close(t);
    }
    vocab_values(&v, &values);
    values_i32s(&values, "tokenizer.tuffet.lstrip", &mask, 1);
    values_i32s(&values, "tokenizer.tuffet.rstrip", &user, 1);
    struct tft_tokenizer *t = open_values(&values);
    encodes(t, "\x80 \xe3\x80\x80 <mask> c<|user|> ", TFT_PARSE_SPECIAL,
            " |\x80|<mask>| | |c|<|user|>");
    encodes(t, " \t<mask>  <mask>", 0, "<mask>|<mask>");
    encodes(t, " \x80<mask>", 0, " | |\x80|<mask>");
    tft_tokenizer_close(t);
}

static void unknown_models(void **state)
{
    (void)state;
    spm_values(&bad);
    values_str(&bad, "tokenizer.ggml.model", "plamo2");
    refused(TFT_ERR_UNSUPPORTED, "tokenizer.ggml.model", "\"plamo2\" is not supported");
    values_remove(&bad, "tokenizer.ggml.model");
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.model", "is missing");
    values_u32(&bad, "tokenizer.ggml.model", 1);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.model", "not a string");
    values_str(&bad, "tokenizer.ggml.model", "gpt2");
    values_str(&bad, "tokenizer.ggml.pre", "gpt-5");
    refused(TFT_ERR_UNSUPPORTED, "tokenizer.ggml.pre",
            "\"gpt-5\" is not supported, but gpt-2 refact llama-bpe smaug-bpe qwen2 qwen35 tekken");
    spm_values(&bad);
    values_i32s(&bad, "tokenizer.tuffet.rstrip", &(int32_t){-1}, 1);
    refused(TFT_ERR_FORMAT, "tokenizer.tuffet.rstrip", "element 0");
    values_i32s(&bad, "tokenizer.ggml.suppress_tokens", (const int32_t[]){3, 268}, 2);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.suppress_tokens", "element 1");
    values_i32s(&bad, "tokenizer.ggml.suppress_tokens", &(int32_t){-1}, 1);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.suppress_tokens", "element 0");
    values_u32(&bad, "tokenizer.tuffet.lstrip", 1);
    refused(TFT_ERR_FORMAT, "tokenizer.tuffet.lstrip", "not an array of i32");
    spm_values(&bad);
    values_i32s(&bad, "tokenizer.tuffet.normalized", &(int32_t){-1}, 1);
    refused(TFT_ERR_FORMAT, "tokenizer.tuffet.normalized", "element 0");
    spm_values(&bad);
    values_i32s(&bad, "tokenizer.tuffet.normalized_with_space", &(int32_t){3}, 1);
    values_str(&bad, "tokenizer.ggml.model", "gpt2");
    refused(TFT_ERR_FORMAT, "tokenizer.tuffet.normalized_with_space", "to be llama");
    spm_values(&bad);
    values_u32(&bad, "tokenizer.tuffet.strip_left", 2);
    refused(TFT_ERR_FORMAT, "tokenizer.tuffet.strip_left", "not a bool");
    values_str(&bad, "tokenizer.ggml.model", "gpt2");
    values_bool(&bad, "tokenizer.ggml.pre", true);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.pre", "not a string");
}

static void arrays_of_the_wrong_type_or_length(void **state)
{
    (void)state;
    static const float scores[1024] = {0};
    static const int32_t types[1024] = {0};
    static const unsigned char zeros[1024] = {0};
    struct vocab v = spm_vocab();
    spm_values(&bad);
    values_remove(&bad, "tokenizer.ggml.tokens");
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.tokens", "is missing");
    values_strs(&bad, "tokenizer.ggml.tokens", NULL, 0);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.tokens", "is empty");
    values_str(&bad, "tokenizer.ggml.tokens", "a");
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.tokens", "of type string, not an array of string");
    values_i32s(&bad, "tokenizer.ggml.tokens", types, 5);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.tokens", "array of i32, not an array of string");
    values_remove(&bad, "tokenizer.ggml.scores");
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.scores", "is missing");
    values_f32s(&bad, "tokenizer.ggml.scores", scores, v.n - 1);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.scores", "267 elements for 268 tokens");
    values_key(&bad, "tokenizer.ggml.scores", TFT_VALUE_U8, true, v.n);
    values_bytes(&bad, zeros, v.n);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.scores", "array of u8, not an array of f32");
    values_i32s(&bad, "tokenizer.ggml.token_type", types, v.n + 1);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.token_type", "269 elements for 268 tokens");
    values_key(&bad, "tokenizer.ggml.token_type", TFT_VALUE_U8, true, v.n);
    values_bytes(&bad, zeros, v.n);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.token_type", "array of u8, not an array of i32");
    values_str(&bad, "tokenizer.ggml.model", "gpt2");
    values_remove(&bad, "tokenizer.ggml.merges");
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.merges", "is missing");
    values_str(&bad, "tokenizer.ggml.model", "gpt2");
    values_f32s(&bad, "tokenizer.ggml.merges", scores, 3);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.merges", "array of f32, not an array of string");
}

static void invalid_ids_and_flags(void **state)
{
    (void)state;
    static const char *const key[] = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                                      "tokenizer.ggml.unknown_token_id",
                                      "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    static const int32_t ids[] = {1, 2};
    spm_values(&bad);
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        values_u32(&bad, key[i], 268);
        refused(TFT_ERR_FORMAT, key[i], "is 268, but there are only 268 tokens");
        values_u32(&bad, key[i], UINT32_MAX);
        refused(TFT_ERR_FORMAT, key[i], "is 4294967295, but there are only");
        values_str(&bad, key[i], "1");
        refused(TFT_ERR_FORMAT, key[i], "not a token id");
        values_i32s(&bad, key[i], ids, 2);
        refused(TFT_ERR_FORMAT, key[i], "not a token id");
        values_key(&bad, key[i], TFT_VALUE_I32, false, 1);
        values_put_u32(&bad, (uint32_t)-1);
        refused(TFT_ERR_FORMAT, key[i], "not a token id");
    }
    values_remove(&bad, "tokenizer.ggml.bos_token_id");
    values_bool(&bad, "tokenizer.ggml.add_bos_token", true);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.add_bos_token",
            "tokenizer.ggml.bos_token_id is missing");
    values_u32(&bad, "tokenizer.ggml.add_bos_token", 2);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.add_bos_token", "not a bool");
    values_str(&bad, "tokenizer.ggml.add_space_prefix", "yes");
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.add_space_prefix", "not a bool");
}

static void invalid_tokens(void **state)
{
    (void)state;
    static const char *const not_bytes[] = {"<0x-1>",  "<0xGG>", "<0x1>", "<0x0A",    "<0x0A<",
                                            "<0x0A>>", "",       "\n",    "<0x0A>\n", "0x0A"};
    spm_values(&bad);
    for (size_t i = 0; i < sizeof not_bytes / sizeof *not_bytes; i++) {
        struct vocab v = spm_vocab();
        vocab_add(&v, not_bytes[i], 0, TFT_TOKEN_BYTE);
        vocab_values(&v, &bad);
        refused(TFT_ERR_FORMAT, "tokenizer.ggml.tokens",
                "token 268 of tokenizer.ggml.tokens has the type byte, but");
    }
    for (size_t i = 0; i < 5; i++) {
        struct vocab v = spm_vocab();
        v.type[9] = (const int32_t[]){0, 7, -1, INT32_MIN, INT32_MAX}[i];
        vocab_values(&v, &bad);
        refused(TFT_ERR_FORMAT, "tokenizer.ggml.token_type", "token 9 is not 1 to 6");
    }
    struct vocab v = spm_vocab();
    v.score[9] = NAN;
    vocab_values(&v, &bad);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.scores", "token 9 is not a number");

    v = spm_vocab();
    v.type[UNK] = TFT_TOKEN_CONTROL;
    vocab_copy(v.text[BYTE(0x41)], "<0x42>");
    vocab_values(&v, &bad);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.tokens", "neither an unknown token nor \"<0x41>\"");

    static char too_long[TFT_TOKEN_MAX + 1];
    spm_values(&bad);
    values_key(&bad, "tokenizer.ggml.tokens", TFT_VALUE_STRING, true, 268);
    for (size_t i = 0; i < 268; i++)
        values_put_str(&bad, too_long, i == 7 ? sizeof too_long : 1);
    refused(TFT_ERR_UNSUPPORTED, "tokenizer.ggml.tokens",
            "token 7 of tokenizer.ggml.tokens has 1025 bytes");
}

/* Thousands of tokens with neighbouring hashes: each search would look at all of them. */
static void tokens_of_colliding_hashes(void **state)
{
    (void)state;
    enum { N = TFT_PROBE_MAX + 200 };
    struct tft_tokenizer head = {.n_entry = tft_vocab_table_size(N)};
    head.entry = calloc(head.n_entry, sizeof *head.entry);
    spm_values(&bad);
    values_remove(&bad, "tokenizer.ggml.token_type");
    values_key(&bad, "tokenizer.ggml.scores", TFT_VALUE_F32, true, N);
    for (int i = 0; i < N; i++)
        values_put_u32(&bad, 0);
    values_key(&bad, "tokenizer.ggml.tokens", TFT_VALUE_STRING, true, N);
    for (unsigned i = 0, n = 0; n < N; i++) {
        char text[16];
        snprintf(text, sizeof text, "%07x", i);
        if ((tft_vocab_hash(&head, text, 7) & (head.n_entry - 1)) > 63)
            continue;
        values_put_str(&bad, text, 7);
        n++;
    }
    free(head.entry);
    refused(TFT_ERR_FORMAT, "tokenizer.ggml.tokens", "look-ups would take too long");
}

static void infinite_scores_are_scores(void **state)
{
    (void)state;
    static struct values values;
    struct vocab v = spm_vocab();
    vocab_add(&v, "ab", -INFINITY, TFT_TOKEN_NORMAL);
    vocab_add(&v, "ba", INFINITY, TFT_TOKEN_NORMAL);
    vocab_values(&v, &values);
    struct tft_tokenizer *t = open_values(&values);
    encodes(t, "<tool>bab", 0, "<tool>| |ba|b");
    encodes(t, "bbbab", 0, " |b|b|ba|b");
    tft_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_special_token_wins),
        cmocka_unit_test(bos_goes_first_if_the_model_wants_it),
        cmocka_unit_test(generation_ends_by_id_or_by_name),
        cmocka_unit_test(the_file_says_which_names_end),
        cmocka_unit_test(parts_of_a_text_with_a_gap),
        cmocka_unit_test(a_vocabulary_without_types),
        cmocka_unit_test(text_of_a_token),
        cmocka_unit_test(never_half_a_character),
        cmocka_unit_test(the_first_space_goes),
        cmocka_unit_test(pieces_add_up),
        cmocka_unit_test(text_max_is_enough),
        cmocka_unit_test(eos_goes_last_if_the_model_wants_it),
        cmocka_unit_test(pairs_as_the_model_has_them),
        cmocka_unit_test(pairs_of_special_files),
        cmocka_unit_test(counts_like_snprintf),
        cmocka_unit_test(an_array_that_is_too_short_is_an_error),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(many_threads_may_encode),
        cmocka_unit_test(duplicate_and_empty_tokens),
        cmocka_unit_test(white_space_around_special_tokens),
        cmocka_unit_test(unknown_models),
        cmocka_unit_test(arrays_of_the_wrong_type_or_length),
        cmocka_unit_test(invalid_ids_and_flags),
        cmocka_unit_test(invalid_tokens),
        cmocka_unit_test(tokens_of_colliding_hashes),
        cmocka_unit_test(infinite_scores_are_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
