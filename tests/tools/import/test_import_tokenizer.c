#define _XOPEN_SOURCE 700
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "text/tokenizer.h"
#include "tools/import/tokenizer.h"

#define LOW "\xe2\x96\x81" /* U+2581 */

enum { ROWS = 300 };
static char folder[64], out[96];
static struct tft_error err;

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tuffet-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(out, sizeof out, "%s/out.gguf", folder);
    return 0;
}

static void write_file(const char *name, const void *data, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *name, const char *text) { write_file(name, text, strlen(text)); }

static int remove_files(void **state)
{
    static const char *const names[] = {
        "tokenizer.json",        "tokenizer.model",         "out.gguf",
        "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
        "chat_template.json",    "added_tokens.json",       "rwkv_vocab_v20230424.txt"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    return 0;
}

static int remove_folder(void **state)
{
    remove_files(state);
    return rmdir(folder);
}

static enum tft_status import(const char *config, const char *generation)
{
    struct import im = {.folder = {.path = folder}, .n_vocab = ROWS, .err = &err};
    im.folder.config = json_loads(config, JSON_DECODE_INT_AS_REAL, NULL);
    im.folder.generation = json_loads(generation, JSON_DECODE_INT_AS_REAL, NULL);
    assert_int_equal(tft_gguf_create(&im.gguf, out, &err), TFT_OK);
    tft_gguf_put_str(im.gguf, "general.architecture", (struct tft_str){"llama", 5});
    import_tokenizer(&im);
    struct tft_error end;
    assert_int_equal(tft_gguf_close(im.gguf, im.status == TFT_OK, &end), TFT_OK);
    json_decref(im.folder.config);
    json_decref(im.folder.generation);
    return im.status;
}

static struct tft_tokenizer *imported(struct tft_source *s)
{
    struct tft_tokenizer *t = NULL;
    if (import("{}", "{}") || tft_source_open(s, out, NULL, NULL, &err) ||
        tft_tokenizer_open(&t, s, NULL, &err))
        fail_msg("%s", err.msg);
    return t;
}

static void encodes(const struct tft_tokenizer *t, const char *text, const char *want)
{
    char have[1024] = "";
    int32_t ids[256];
    size_t n, len;
    assert_int_equal(
        tft_tokenizer_encode(t, text, strlen(text), TFT_ADD_BOS | TFT_PARSE_SPECIAL, ids, 256, &n),
        TFT_OK);
    for (size_t i = 0; i < n; i++) {
        const char *p = tft_tokenizer_text(t, ids[i], true, &len);
        snprintf(have + strlen(have), sizeof have - strlen(have), "%s%.*s", i ? "|" : "", (int)len,
                 p);
    }
    assert_string_equal(have, want);
}

static void is_str(const struct tft_source *s, const char *key, const char *want)
{
    struct tft_str have = {"", 0};
    const struct tft_value *v = tft_source_value(s, key);
    assert_true(!want || (v && tft_value_str(v, &have)));
    assert_true(want ? tft_str_is(have, want) : !v);
}

static void is_number(const struct tft_source *s, const char *key, int64_t want)
{
    int64_t have = -1;
    const struct tft_value *v = tft_source_value(s, key);
    assert_true(!v || tft_value_int(v, 0, &have));
    assert_int_equal(have, want);
}

/* ---- tokenizer.json */

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define BPE_VOCAB                                                                                  \
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"\xc4\xa0"                                \
    "ab\":4,\"\xc3\x83\":5,"                                                                       \
    "\"\xc2\xa9\":6,\"\xc3\x83\xc2\xa9\":7}"
#define BPE(pre, normalizer, merges)                                                               \
    "{\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre                                        \
    ",\"model\":{\"type\":\"BPE\"," BPE_VOCAB ",\"merges\":[" merges                               \
    "]},\"added_tokens\":[{\"id\":9,\"content\":\"<s>\","                                          \
    "\"special\":true},{\"id\":10,\"content\":\"<x>\",\"special\":false,\"lstrip\":true,"          \
    "\"rstrip\":true}]}"
#define MERGES "\"a b\",[\"\xc4\xa0\",\"ab\"],\"\xc3\x83 \xc2\xa9\""

static void byte_level(void **state)
{
    (void)state;
    struct tft_source s;
    write_text("tokenizer.json", BPE(BYTE_LEVEL, "{\"type\":\"NFC\"}", MERGES));
    write_text("tokenizer_config.json",
               "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"<s>\",\"pad_token\":null,"
               "\"add_bos_token\":true,\"model_max_length\":1000000000000000019884624838656,"
               "\"chat_template\":[{\"name\":\"x\",\"template\":\"X\"},"
               "{\"name\":\"default\",\"template\":\"D\"}]}");
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "ab ab <x> be", "<s>|ab| ab|<x>|b"); /* e has no token */
    encodes(t,
            "\xc3\xa9"
            "b",
            "<s>|\xc3\xa9|b");
    assert_int_equal(tft_tokenizer_size(t), ROWS);
    is_str(&s, "tokenizer.ggml.model", "gpt2");
    is_str(&s, "tokenizer.ggml.pre", "gpt-2");
    is_str(&s, "tokenizer.chat_template", "D");
    is_number(&s, "tokenizer.ggml.bos_token_id", 9);
    is_number(&s, "tokenizer.ggml.eos_token_id", 9);
    is_number(&s, "tokenizer.ggml.padding_token_id", -1);
    is_number(&s, "tokenizer.tuffet.nfc", 1);
    tft_tokenizer_close(t);
    tft_source_close(&s);
}

static void ends_and_templates(void **state)
{
    (void)state;
    struct tft_source s;
    write_text("tokenizer.json", BPE(BYTE_LEVEL, "null", MERGES));
    write_text("special_tokens_map.json", "{\"eos_token\":\"ab\",\"pad_token\":\"<x>\"}");
    write_text("chat_template.jinja", "J");
    assert_int_equal(
        import("{\"bos_token_id\":9,\"eos_token_id\":5}", "{\"eos_token_id\":[2,6,2,7,1]}"),
        TFT_OK);
    assert_int_equal(tft_source_open(&s, out, NULL, NULL, &err), TFT_OK);
    is_number(&s, "tokenizer.ggml.bos_token_id", 9);
    is_number(&s, "tokenizer.ggml.eos_token_id", 2);
    is_number(&s, "tokenizer.ggml.eot_token_id", 6);
    is_number(&s, "tokenizer.ggml.eom_token_id", 7);
    assert_int_equal(tft_source_value(&s, "tokenizer.tuffet.ends")->n, 4); /* 1, 2, 6, 7 */
    is_number(&s, "tokenizer.ggml.padding_token_id", 10);
    is_number(&s, "tokenizer.ggml.add_bos_token", 0);
    is_str(&s, "tokenizer.chat_template", "J");
    tft_source_close(&s);
}

static void suppressed(void **state)
{
    (void)state;
    static const struct {
        const char *generation, *says;
        size_t n;
    } rows[] = {
        {"{\"suppress_tokens\":[9,2,0]}", NULL, 3},
        {"{\"suppress_tokens\":null}", NULL, 0},
        {"{\"suppress_tokens\":[]}", NULL, 0},
        {"{\"suppress_tokens\":7}", "suppress_tokens is not a list", 0},
        {"{\"suppress_tokens\":[1,-1]}", "element 1 of suppress_tokens is not a token", 0},
        {"{\"suppress_tokens\":[300]}", "element 0 of suppress_tokens is not a token", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_source s;
        int64_t id = -1;
        write_text("tokenizer.json", BPE(BYTE_LEVEL, "null", MERGES));
        enum tft_status status = import("{}", rows[i].generation);
        assert_int_equal(status, rows[i].says ? TFT_ERR_FORMAT : TFT_OK);
        if (rows[i].says) {
            assert_non_null(strstr(err.msg, rows[i].says));
            continue;
        }
        assert_int_equal(tft_source_open(&s, out, NULL, NULL, &err), TFT_OK);
        const struct tft_value *v = tft_source_value(&s, "tokenizer.ggml.suppress_tokens");
        assert_int_equal(v ? v->n : 0, rows[i].n);
        assert_true(!v || (tft_value_int(v, 1, &id) && id == 2));
        tft_source_close(&s);
    }
}

#define CHAR_VOCAB                                                                                 \
    "\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"<s>\":1,\"<0x41>\":"  \
    "2,"                                                                                           \
    "\"a\":3,\"b\":4,\"" LOW "\":5,\"ab\":6,\"" LOW "ab\":7,\"" LOW "a\":8}"
#define CHARACTERS(normalizer, merges)                                                             \
    "{\"normalizer\":" normalizer                                                                  \
    ",\"pre_tokenizer\":null,\"model\":{\"type\":\"BPE\"," CHAR_VOCAB ",\"merges\":[" merges       \
    "]},\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}," /* no row: */          \
    "{\"id\":300,\"content\":\"<image>\",\"special\":true}],"                                      \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"   \
    "\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]}}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" LOW "\"}"
#define PREPEND                                                                                    \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" LOW             \
    "\"}," REPLACE "]}"
#define SPM_MERGES "\"a b\",\"" LOW "a b\",\"" LOW " ab\",\"" LOW " a\""

static void characters(void **state)
{
    (void)state;
    struct tft_source s;
    write_text("tokenizer.json", CHARACTERS(PREPEND, SPM_MERGES));
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "ab aA", "<s>| ab| a|A");
    is_str(&s, "tokenizer.ggml.model", "llama");
    is_number(&s, "tokenizer.ggml.add_space_prefix", 1);
    is_number(&s, "tokenizer.ggml.unknown_token_id", 0);
    tft_tokenizer_close(t);
    tft_source_close(&s);
    /* The merge of U+2581 and "ab" is not there: scores would make it. */
    write_text("tokenizer.json", CHARACTERS(REPLACE, "\"a b\",\"" LOW "a b\",\"" LOW " a\""));
    t = imported(&s);
    encodes(t, "ab ab", "<s>|ab| |ab");
    is_str(&s, "tokenizer.ggml.model", "gemma4");
    tft_tokenizer_close(t);
    tft_source_close(&s);
    write_text("tokenizer.json", CHARACTERS(PREPEND, "\"a b\""));
    assert_int_equal(import("{}", "{}"), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "tokenizer.json: model.merges are not those of"));
}

#define WITH_ADDED(normalizer, added)                                                              \
    "{\"normalizer\":" normalizer ",\"model\":{\"type\":\"BPE\"," CHAR_VOCAB                       \
    ",\"merges\":[" SPM_MERGES "]},\"added_tokens\":[" added "]}"
#define STRIP "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}"
#define STRIPPED                                                                                   \
    "{\"type\":\"Sequence\",\"normalizers\":[" STRIP ",{\"type\":\"Prepend\",\"prepend\":\"" LOW   \
    "\"}," REPLACE "]}"

/* With a space before the text, the name of a normalized token is normalized to have one too. */
static void normalized_tokens(void **state)
{
    (void)state;
    struct tft_source s;
    write_text("tokenizer.json",
               WITH_ADDED(PREPEND, "{\"id\":9,\"content\":\"[X]\",\"normalized\":true},"
                                   "{\"id\":10,\"content\":\"[Y]\",\"normalized\":false}"));
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "[X]ab", "[X]|ab");
    encodes(t, "a [X] ab", " a|[X]| ab");
    encodes(t, "a[X]", " a|<unk>"); /* of three characters */
    encodes(t, "a[Y][X]", " a|[Y]|[X]");
    tft_tokenizer_close(t);
    tft_source_close(&s);
}

static void strip(void **state)
{
    (void)state;
    struct tft_source s;
    write_text("tokenizer.json", WITH_ADDED(STRIPPED, "{\"id\":9,\"content\":\"[Y]\"}"));
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "  ab a \n", " ab| a");
    encodes(t, "ab [Y] a", " ab|[Y]| a");
    is_number(&s, "tokenizer.ggml.remove_extra_whitespaces", 0);
    tft_tokenizer_close(t);
    tft_source_close(&s);
    write_text("tokenizer.json", BPE(BYTE_LEVEL,
                                     "{\"type\":\"Strip\",\"strip_left\":false,"
                                     "\"strip_right\":true}",
                                     MERGES));
    tft_tokenizer_close(imported(&s));
    is_number(&s, "tokenizer.tuffet.strip_right", 1);
    assert_null(tft_source_value(&s, "tokenizer.tuffet.strip_left"));
    tft_source_close(&s);
}

#define METASPACE(more, merges)                                                                    \
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" LOW "\"" more                  \
    "},\"model\":{\"type\":\"BPE\"," CHAR_VOCAB ",\"merges\":[" merges                             \
    "]},\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}]}"

/* Metaspace puts no second space before a text, and says where the first one goes. */
static void metaspace(void **state)
{
    (void)state;
    static const char *const schemes[][2] = {
        {METASPACE(",\"prepend_scheme\":\"first\"", SPM_MERGES), "<s>|a"},
        {METASPACE(",\"prepend_scheme\":\"always\"", SPM_MERGES), "<s>| a"},
        {METASPACE(",\"add_prefix_space\":true", SPM_MERGES), "<s>| a"}};
    for (size_t i = 0; i < 3; i++) {
        struct tft_source s;
        write_text("tokenizer.json", schemes[i][0]);
        struct tft_tokenizer *t = imported(&s);
        encodes(t, "ab a", " ab| a");
        encodes(t, " a", " a");
        encodes(t, "<s> a", "<s>| a");
        encodes(t, "<s>a", schemes[i][1]);
        tft_tokenizer_close(t);
        tft_source_close(&s);
    }
    write_text("tokenizer.json", METASPACE(",\"prepend_scheme\":\"never\"", SPM_MERGES));
    struct tft_source s;
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "ab<s>a", "ab|<s>|a");
    tft_tokenizer_close(t);
    tft_source_close(&s);
}

static void unigram(void **state)
{
    (void)state;
    struct tft_source s;
    write_text("tokenizer.json",
               "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\","
               "\"precompiled_charsmap\":\"BAAAAAAAAABhAA==\"}]},\"pre_tokenizer\":{\"type\":"
               "\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{\"type\":"
               "\"Metaspace\",\"replacement\":\"" LOW "\",\"add_prefix_space\":true}]},\"model\":"
               "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],[\"" LOW "\",-2.5],"
               "[\"a\",-3],[\"" LOW "a\",-4]]},\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\","
               "\"special\":true}]}");
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "  a  ab", " a| a|<unk>");
    is_str(&s, "tokenizer.ggml.model", "t5");
    assert_int_equal(tft_source_value(&s, "tokenizer.ggml.precompiled_charsmap")->n, 10);
    tft_tokenizer_close(t);
    tft_source_close(&s);
}

/* ---- WordPiece, ends and pairs */

#define WORDPIECE(normalizer, model, more)                                                         \
    "{\"normalizer\":{\"type\":\"BertNormalizer\"," normalizer                                     \
    "},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\","       \
    "\"unk_token\":\"[UNK]\"," model ",\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,"    \
    "\"##b\":4,\"##\":5,\"[x]\":6,\"\xc3\xa9\":7,\"A\":8,\"#\":9}},\"added_tokens\":[{\"id\":0,"   \
    "\"content\":\"[UNK]\",\"special\":true},{\"id\":1,\"content\":\"[CLS]\",\"special\":true},{"  \
    "\"id\":2,\"content\":\"[SEP]\",\"special\":true}]" more "}"
#define SPECIAL(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define THE_TEXT(name) "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEMPLATE(first, last, between)                                                             \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" SPECIAL(first) ","         \
    THE_TEXT("A") "," SPECIAL(last) "],\"pair\":[" SPECIAL(first) "," THE_TEXT("A") "," between    \
    "," THE_TEXT("B") "," SPECIAL(last) "]}"

static void pair_is(const struct tft_tokenizer *t, const int32_t *want, size_t n_want)
{
    const struct tft_str a = {"a", 1};
    int32_t ids[8];
    size_t n;
    assert_int_equal(tft_tokenizer_encode_pair(t, a, a, TFT_ADD_BOS, ids, NULL, 8, &n), TFT_OK);
    assert_int_equal(n, n_want);
    assert_memory_equal(ids, want, n * sizeof *want);
}

static void wordpiece(void **state)
{
    (void)state;
    struct tft_source s;
    write_text("tokenizer.json",
               WORDPIECE("\"lowercase\":true,\"strip_accents\":null", "\"x\":0",
                         TEMPLATE("[CLS]", "[SEP]", SPECIAL("[SEP]"))));
    write_text("tokenizer_config.json",
               "{\"cls_token\":\"[CLS]\",\"sep_token\":\"[SEP]\",\"unk_token\":\"[UNK]\"}");
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "Abb x a", "[CLS]| a|b|b|[UNK]| a");
    encodes(t, "#", "[CLS]| #");
    encodes(t, "\xc3\xa9", "[CLS]|[UNK]"); /* e */
    pair_is(t, (const int32_t[]){1, 3, 2, 3, 2}, 5);
    is_str(&s, "tokenizer.ggml.model", "bert");
    is_str(&s, "tokenizer.ggml.pre", NULL);
    is_number(&s, "tokenizer.ggml.cls_token_id", 1);
    is_number(&s, "tokenizer.ggml.seperator_token_id", 2);
    is_number(&s, "tokenizer.ggml.unknown_token_id", 0);
    is_number(&s, "tokenizer.ggml.normalizer.lowercase", 1);
    is_number(&s, "tokenizer.ggml.normalizer.strip_accents", -1);
    assert_null(tft_source_value(&s, "tokenizer.ggml.merges"));
    assert_null(tft_source_value(&s, "tokenizer.ggml.scores"));
    tft_tokenizer_close(t);
    tft_source_close(&s);

    write_text("tokenizer.json",
               WORDPIECE("\"lowercase\":false,\"strip_accents\":false",
                         "\"max_input_chars_per_word\":100,\"continuing_subword_prefix\":\"##\"",
                         ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],"
                         "\"cls\":[\"[CLS]\",1]}"));
    t = imported(&s);
    encodes(t, "Ab \xc3\xa9", "[CLS]| A|b| \xc3\xa9");
    is_number(&s, "tokenizer.ggml.normalizer.strip_accents", 0);
    tft_tokenizer_close(t);
    tft_source_close(&s);
}

/* A BPE with ends around a text: RoBERTa's has two tokens between the texts of a pair. */
static void ends_around_texts(void **state)
{
    (void)state;
    struct tft_source s;
    static const struct {
        const char *post;
        int32_t want[6];
        size_t n;
    } cases[] = {
        {TEMPLATE("<s>", "\xc4\xa0", SPECIAL("\xc4\xa0")), {9, 0, 3, 0, 3}, 5},
        {TEMPLATE("<s>", "\xc4\xa0", SPECIAL("\xc4\xa0") "," SPECIAL("\xc4\xa0")),
         {9, 0, 3, 3, 0, 3}, 6},
        {",\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{"
         "\"type\":\"RobertaProcessing\",\"sep\":[\"\xc4\xa0\",3],\"cls\":[\"<s>\",9]}]}",
         {9, 0, 3, 3, 0, 3}, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char text[2048];
        const char *base = BPE(BYTE_LEVEL, "null", MERGES);
        snprintf(text, sizeof text, "%.*s%s}", (int)strlen(base) - 1, base, cases[i].post);
        write_text("tokenizer.json", text);
        write_text("tokenizer_config.json",
                   "{\"eos_token\":\"ab\",\"sep_token\":\"\xc4\xa0\",\"cls_token\":\"<s>\"}");
        struct tft_tokenizer *t = imported(&s);
        pair_is(t, cases[i].want, cases[i].n);
        assert_int_equal(tft_tokenizer_eos(t), 3); /* the post-processor's */
        assert_true(tft_tokenizer_ends(t, 2) && tft_tokenizer_ends(t, 3));
        is_number(&s, "tokenizer.ggml.eot_token_id", 2);
        is_number(&s, "tokenizer.ggml.add_eos_token", 1);
        is_number(&s, "tokenizer.ggml.add_sep_token", cases[i].n == 6);
        is_number(&s, "tokenizer.ggml.cls_token_id", 9);
        tft_tokenizer_close(t);
        tft_source_close(&s);
    }
}

/* ---- pre-tokenizers, as the files of models have them */

#define SPLIT(regex)                                                                               \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\","         \
    "\"invert\":false}"
#define SEQUENCE(parts)                                                                            \
    "{\"type\":\"Sequence\",\"pretokenizers\":[" parts ",{\"type\":\"ByteLevel\","                 \
    "\"add_prefix_space\":false,\"use_regex\":false}]}"
#define I "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define W "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static void pre_tokenizers(void **state)
{
    (void)state;
    static const char *const known[][2] = {
        {"smollm", BPE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                       "\"individual_digits\":true}," BYTE_LEVEL "]}",
                       "null", MERGES)},
        {"smaug-bpe", BPE(SEQUENCE(SPLIT(I "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}"
                                           "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" W)),
                          "null", MERGES)},
        {"qwen35",
         BPE(SEQUENCE(SPLIT(I "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}"
                              "| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*" W)),
             "null", MERGES)},
        {"gpt-4o",
         BPE(SEQUENCE(SPLIT(
                 "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"
                 "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+" I "?|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
                 "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{"
                 "M}]*" I "?|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" W)),
             "null", MERGES)},
        /* newlines as such */
        {
            "deepseek-v3",
            BPE(SEQUENCE(SPLIT("\\\\p{N}{1,3}") "," SPLIT(
                    "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]"
                    "+") "," SPLIT("[!\\\"#$%&'()*+,\\\\-./"
                                   ":;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|"
                                   "[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| "
                                   "?[\\\\p{P}\\\\p{S}]+[\\r\\n]*"
                                   "|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+")),
                "null", MERGES)},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct tft_source s;
        write_text("tokenizer.json", known[i][1]);
        tft_tokenizer_close(imported(&s));
        is_str(&s, "tokenizer.ggml.pre", known[i][0]);
        tft_source_close(&s);
    }
}

/* ---- tokenizer.model */

static size_t put_piece(unsigned char *p, const char *text, float score, unsigned char type)
{
    size_t n = strlen(text);
    uint32_t bits;
    memcpy(&bits, &score, 4);
    unsigned char head[] = {0x0a, (unsigned char)(n + 9), 0x0a, (unsigned char)n};
    memcpy(p, head, 4);
    memcpy(p + 4, text, n);
    p[4 + n] = 0x15;
    tft_store_u32(p + 5 + n, bits);
    p[9 + n] = 0x18;
    p[10 + n] = type;
    return n + 11;
}

static size_t make_model(unsigned char *p, unsigned char model_type)
{
    size_t n = put_piece(p, "<unk>", 0, 2);
    n += put_piece(p + n, "<s>", 0, 3);
    n += put_piece(p + n, "</s>", 0, 3);
    n += put_piece(p + n, LOW, -3, 1);
    n += put_piece(p + n, "a", -4, 1);
    n += put_piece(p + n, "b", -5, 1);
    n += put_piece(p + n, "ab", -1, 1);
    n += put_piece(p + n, LOW "a", -2, 1);
    const unsigned char rest[] = {0x12, 2, 0x18, model_type, 0x1a, 4, 0x18, 1, 0x20, 0};
    memcpy(p + n, rest, sizeof rest);
    return n + sizeof rest;
}

static void sentencepiece(void **state)
{
    (void)state;
    unsigned char model[256];
    struct tft_source s;
    write_file("tokenizer.model", model, make_model(model, 2));
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "ab a", "<s>| |ab| a"); /* the best score first */
    is_str(&s, "tokenizer.ggml.model", "llama");
    is_number(&s, "tokenizer.ggml.eos_token_id", 2);
    tft_tokenizer_close(t);
    tft_source_close(&s);
    write_file("tokenizer.model", model, make_model(model, 1));
    t = imported(&s);
    encodes(t, "ab a", " |ab| a"); /* -4, and " a" and "b" are -7 */
    is_str(&s, "tokenizer.ggml.model", "t5");
    tft_tokenizer_close(t);
    tft_source_close(&s);
    size_t n = make_model(model, 2); /* with precompiled_charsmap, "x" */
    memcpy(model + n, (const unsigned char[]){0x1a, 3, 0x12, 1, 'x'}, 5);
    write_file("tokenizer.model", model, n + 5);
    assert_int_equal(import("{}", "{}"), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "tokenizer.model: precompiled_charsmap, which normalises text, "
                                    "is not supported with BPE, but with Unigram"));
}

/* Symbols of users are found before pieces are, and after the space before the text is put. */
static void user_symbols(void **state)
{
    (void)state;
    unsigned char model[256];
    struct tft_source s;
    size_t n = make_model(model, 2), at = n - 10;
    n = at + put_piece(model + at, LOW LOW, 0, 4);
    memcpy(model + n, (const unsigned char[]){0x12, 2, 0x18, 2, 0x1a, 4, 0x18, 0, 0x20, 0}, 10);
    write_file("tokenizer.model", model, n + 10);
    struct tft_tokenizer *t = imported(&s);
    encodes(t, "ab  ab a", "<s>|ab|  |ab| a");
    tft_tokenizer_close(t);
    tft_source_close(&s);
    model[n + 7] = 1; /* add_dummy_prefix */
    write_file("tokenizer.model", model, n + 10);
    t = imported(&s);
    encodes(t, "ab  ab a", "<s>| |ab|  |ab| a");
    encodes(t, " ab", "<s>|  |ab");
    tft_tokenizer_close(t);
    tft_source_close(&s);
    /* As an added token, it is found in the text itself. */
    write_text("added_tokens.json", "{\"" LOW LOW "\":8}");
    t = imported(&s);
    encodes(t, "  a ab", "<s>|  | a| |ab");
    assert_null(tft_source_value(&s, "tokenizer.tuffet.normalized"));
    tft_tokenizer_close(t);
    tft_source_close(&s);
    assert_int_equal(remove_files(NULL), 0);
    model[n + 3] = 1; /* Unigram */
    write_file("tokenizer.model", model, n + 10);
    assert_int_equal(import("{}", "{}"), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "is a user-defined symbol"));
    n = make_model(model, 2);
    model[n - 1] = 1; /* remove_extra_whitespaces */
    write_file("tokenizer.model", model, n);
    assert_int_equal(import("{}", "{}"), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "remove_extra_whitespaces, or merging spaces, is not"));
    memcpy(model + n, (const unsigned char[]){0x12, 3, 0xc0, 1, 1}, 5);
    write_file("tokenizer.model", model, n + 5);
    assert_int_equal(import("{}", "{}"), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "treat_whitespace_as_suffix is not supported"));
    write_text("tokenizer.model", "IQ== 0\nIg== 1\n");
    assert_int_equal(import("{}", "{}"), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "tokenizer.model: this is a vocabulary of tiktoken"));
}

/* Tokens that other files than the vocabulary's have alone. */
static void added_elsewhere(void **state)
{
    (void)state;
    unsigned char model[256];
    struct tft_source s;
    struct tft_tokenizer *t;
    for (int listed = 0; listed < 2; listed++) {
        write_file("tokenizer.model", model, make_model(model, 2));
        write_text("added_tokens.json", "{\"<end>\":10,\"<tool>\":11,\"<unk>\":0}");
        write_text("tokenizer_config.json",
                   listed ? "{\"added_tokens_decoder\":{\"10\":{\"content\":\"<end>\",\"special\":"
                            "true,\"rstrip\":true},\"11\":{\"content\":\"<tool>\"},\"0\":{"
                            "\"content\":\"<unk>\",\"special\":true},\"400\":{\"content\":"
                            "\"<image>\"}},\"eos_token\":\"<end>\"}"
                          : "{\"eos_token\":\"<end>\"}");
        t = imported(&s);
        encodes(t, "a<end>", "<s>| a|<end>");
        encodes(t, "<tool>ab", "<s>|<tool>| |ab");
        is_number(&s, "tokenizer.ggml.eos_token_id", 10);
        size_t len;
        tft_tokenizer_text(t, 10, false, &len);
        assert_int_equal(len, 0); /* a special token has no text */
        tft_tokenizer_text(t, 11, false, &len);
        assert_int_equal(len, 6);
        tft_tokenizer_close(t);
        tft_source_close(&s);
    }
    write_text("tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}");
    assert_int_equal(import("{}", "{}"), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "\"x\" in added_tokens_decoder is not an id"));
    write_text("tokenizer_config.json", "{}");
    write_text("added_tokens.json", "{\"y\":\"x\"}");
    assert_int_equal(import("{}", "{}"), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "\"y\" has no id"));
    remove_files(NULL);
    write_text("tokenizer.json", BPE(BYTE_LEVEL, "null", MERGES));
    write_text("tokenizer_config.json",
               "{\"added_tokens_decoder\":{\"12\":{\"content\":\"<end>\",\"special\":true}}}");
    t = imported(&s);
    encodes(t, "ab<end>b", "ab|<end>|b");
    tft_tokenizer_close(t);
    tft_source_close(&s);
}

static void damaged_models(void **state)
{
    (void)state;
    unsigned char model[256], copy[256];
    size_t n = make_model(model, 2);
    uint32_t seed = 1;
    for (size_t cut = 0; cut < n; cut++) {
        write_file("tokenizer.model", model, cut);
        import("{}", "{}");
    }
    for (int i = 0; i < 500; i++) {
        memcpy(copy, model, n);
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % n] = (unsigned char)(seed >> 24);
        }
        write_file("tokenizer.model", copy, n);
        import("{}", "{}");
    }
    write_file("tokenizer.model", "\x0a\xff\xff\xff\xff\x0f", 6);
    assert_int_equal(import("{}", "{}"), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "tokenizer.model: byte "));
    write_file("tokenizer.model", model, make_model(model, 3));
    assert_int_equal(import("{}", "{}"), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "model_type 3"));
}

/* ---- refusals */

static void refusals(void **state)
{
    (void)state;
    static char long_token[1200];
    snprintf(long_token, sizeof long_token,
             "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"%01025d\",0]]}}", 0);
    static const char *const bad[][2] = {
        {"[]", "is not a JSON object"},
        {BPE(BYTE_LEVEL, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", MERGES),
         "precompiled_charsmap, which normalises text, is not supported with BPE"},
        {"{\"model\":", "line 1, column"},
        {"{}", "model.type \"\" is not supported"},
        {"{\"model\":{\"type\":\"WordLevel\"}}", "\"WordLevel\" is not supported"},
        {"{\"model\":{\"type\":\"WordPiece\"}}", "is supported with BertNormalizer alone"},
        {WORDPIECE("\"clean_text\":false", "\"x\":0", ""), "without \"clean_text\""},
        {WORDPIECE("\"handle_chinese_chars\":false", "\"x\":0", ""),
         "without \"handle_chinese_chars\""},
        {WORDPIECE("\"x\":0", "\"max_input_chars_per_word\":99", ""),
         "a max_input_chars_per_word of 99"},
        {WORDPIECE("\"x\":0", "\"continuing_subword_prefix\":\"@@\"", ""),
         "a continuing_subword_prefix of \"@@\""},
        {WORDPIECE("\"x\":0", "\"x\":0",
                   ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",1]}"),
         "tokens that are not in the vocabulary"},
        {BPE(BYTE_LEVEL, "{\"type\":\"BertNormalizer\"}", MERGES),
         "BertNormalizer is supported with WordPiece alone"},
        {"{\"model\":{\"type\":\"BPE\"}}", "model.vocab is not an object"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "model.merges is not an array"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":300},\"merges\":[]}}",
         "token 300, \"a\", has no row in the embedding of 300"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "id of \"a\""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
         "\"a\" and \"b\" have the same id 0"},
        {BPE(BYTE_LEVEL, "null", "\"ab\""), "merge 0 is not two tokens"},
        {BPE(BYTE_LEVEL, "null", "[\"a\"]"), "merge 0 is not two tokens"},
        {BPE(BYTE_LEVEL, "null", "[\"a\",1]"), "merge 0 is not two tokens"},
        {BPE(BYTE_LEVEL, "{\"type\":\"Lowercase\"}", MERGES),
         "normalizer \"Lowercase\" is not supported"},
        {BPE("null", "null", MERGES), "pre_tokenizer is missing"},
        {BPE("{\"type\":\"BertPreTokenizer\"}", "null", MERGES), "\"BertPreTokenizer\" is not"},
        {BPE(SPLIT("x+"), "null", MERGES), "is not known: 1 parts, the last is \"x+\""},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[1,2]]}}", "element 0 of model.vocab"},
        {long_token, "token 0 has 1025 bytes; at most 1024 are supported"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"?\"},\"model\":"
         "{\"type\":\"Unigram\",\"vocab\":[]}}",
         "precompiled_charsmap is damaged"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]},\"added_tokens\":[{\"id\":1}]}",
         "added_tokens has no content"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]},\"added_tokens\":[{\"id\":1,"
         "\"content\":\"x\",\"single_word\":true}]}",
         "single_word"},
        {WITH_ADDED(STRIPPED, "{\"id\":9,\"content\":\"[X]\",\"normalized\":true}"),
         "the added token \"[X]\" is normalized"},
        {WITH_ADDED(PREPEND, "{\"id\":9,\"content\":\"[X]\",\"normalized\":true,\"lstrip\":true}"),
         "the added token \"[X]\" is normalized"},
        {WITH_ADDED(PREPEND, "{\"id\":6,\"content\":\"ab\",\"normalized\":true}"),
         "the added token \"ab\" is normalized"},
        {CHARACTERS("{\"type\":\"Sequence\",\"normalizers\":[" REPLACE "," STRIP "]}", SPM_MERGES),
         "the normalizer Strip is not supported after Prepend or Replace"},
        {CHARACTERS("{\"type\":\"Sequence\",\"normalizers\":[" REPLACE ",{\"type\":\"Replace\","
                    "\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}]}",
                    SPM_MERGES),
         "remove_extra_whitespaces, or merging spaces, is not supported with BPE"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" LOW "\"},\"model\":{"
         "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a" LOW "\":1},\"merges\":[]}}",
         "Metaspace splits words, but token 1 has a space inside"},
    };
    assert_int_equal(import("{}", "{}"), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "no tokenizer.json and no tokenizer.model"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("tokenizer.json", bad[i][0]);
        if (!import("{}", "{}") || !strstr(err.msg, bad[i][1]) || strchr(err.msg, '\n'))
            fail_msg("%zu: %s", i, err.msg);
        assert_non_null(strstr(err.msg, "tokenizer.json: "));
    }
}

/* A file that is there and cannot be read is not one that is absent. */
static void unreadable(void **state)
{
    (void)state;
    static const char *const names[] = {"chat_template.jinja", "tokenizer.model"};
    for (int i = 0; i < 2; i++) {
        char path[128];
        write_text("tokenizer.json", BPE(BYTE_LEVEL, "null", MERGES));
        assert_int_equal(import("{}", "{}"), TFT_OK);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(import("{}", "{}"), TFT_ERR_IO);
        assert_non_null(strstr(err.msg, names[i]));
        assert_non_null(strstr(err.msg, ": cannot be read: "));
        assert_int_equal(rmdir(path), 0);
    }
}

/* ---- RWKV's list */

static const char rwkv[] = "rwkv_vocab_v20230424.txt";

/* All bytes as literals of bytes, with ids from 1 on, then `more`. */
static void write_rwkv(const char *more)
{
    char text[8192];
    size_t n = 0;
    for (int b = 0; b < 256; b++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%d b'\\x%02x' 1\n", b + 1, b);
    snprintf(text + n, sizeof text - n, "%s", more);
    write_text(rwkv, text);
}

static void lists_of_rwkv(void **state)
{
    (void)state;
    static const char more[] = "257 '\\n\\n' 2\n"
                               "258 ' the' 4\r\n"
                               "259 \"it's\" 4\n"
                               "260 '\xc3\xa9' 2\n"
                               "261 b'\\xe5\\xa4' 2\n"
                               "262 '\\x85' 2\n"
                               "263 '\\u2028' 3\n"
                               "264 '\\U0001f600a' 5\n"
                               "265 '\\\\\\'' 2\n"
                               "266 '   ' 3";
    struct tft_source s;
    write_rwkv(more);
    struct tft_tokenizer *t = imported(&s);
    is_str(&s, "tokenizer.ggml.model", "rwkv");
    is_number(&s, "tokenizer.ggml.bos_token_id", 0);
    is_number(&s, "tokenizer.ggml.eos_token_id", 0);
    is_number(&s, "tokenizer.ggml.eot_token_id", 257);
    assert_true(tft_tokenizer_ends(t, 0) && tft_tokenizer_ends(t, 257));
    assert_false(tft_tokenizer_ends(t, 258));
    encodes(t, "it's the\n\n\n", "it's| the|\n\n|\n");
    encodes(t, "\xc3\xa9\xe5\xa4\xc2\x85", "\xc3\xa9|\xe5\xa4|\xc2\x85");
    encodes(t, "\xe2\x80\xa8\xf0\x9f\x98\x80" "a\\'    ",
            "\xe2\x80\xa8|\xf0\x9f\x98\x80" "a|\\'|   | ");
    encodes(t, "a<s>b", "a|<s>|b");
    tft_tokenizer_close(t);
    tft_source_close(&s);
}

static void damaged_lists_of_rwkv(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "257", "257 ", "257 'a'", "257 'a' ", "257 'a' 2", "257 'a' x", "x 'a' 1", " 'a' 1",
        "257 a 1", "257 'a 1", "257 'a\" 1", "257 '' 0", "257 ' 1", "257 '\\' 1", "257 '\\x4' 1",
        "257 '\\q' 1", "257 b'\\u0041' 1", "257 '\\U00110000' 4", "257 'a' 99999999999",
        "99999999999 'a' 1", "-1 'a' 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_rwkv(bad[i]);
        if (import("{}", "{}") != TFT_ERR_FORMAT || !strstr(err.msg, "is not an id, a literal"))
            fail_msg("\"%s\": \"%s\"", bad[i], err.msg);
    }
    write_rwkv("0 'a' 1");
    assert_int_equal(import("{}", "{}"), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "have the same id 0"));
    write_rwkv("5000 'a' 1");
    assert_int_equal(import("{}", "{}"), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "has no row in the embedding of 300"));
    write_text(rwkv, "1 'a' 1\n"); /* not all bytes: the file is written, and does not open */
    assert_int_equal(import("{}", "{}"), TFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(byte_level, remove_files),
        cmocka_unit_test_teardown(ends_and_templates, remove_files),
        cmocka_unit_test_teardown(suppressed, remove_files),
        cmocka_unit_test_teardown(characters, remove_files),
        cmocka_unit_test_teardown(normalized_tokens, remove_files),
        cmocka_unit_test_teardown(strip, remove_files),
        cmocka_unit_test_teardown(metaspace, remove_files),
        cmocka_unit_test_teardown(unigram, remove_files),
        cmocka_unit_test_teardown(wordpiece, remove_files),
        cmocka_unit_test_teardown(ends_around_texts, remove_files),
        cmocka_unit_test_teardown(pre_tokenizers, remove_files),
        cmocka_unit_test_teardown(sentencepiece, remove_files),
        cmocka_unit_test_teardown(user_symbols, remove_files),
        cmocka_unit_test_teardown(added_elsewhere, remove_files),
        cmocka_unit_test_teardown(damaged_models, remove_files),
        cmocka_unit_test_teardown(refusals, remove_files),
        cmocka_unit_test_teardown(unreadable, remove_files),
        cmocka_unit_test_teardown(lists_of_rwkv, remove_files),
        cmocka_unit_test_teardown(damaged_lists_of_rwkv, remove_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
