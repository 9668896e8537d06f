/* Text that a model writes itself, and windows of it. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <string.h>

#include "fed.h"
#include "tools/quantize/text/own_text.h"

static const char CHATML[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if tools %}{{ raise_exception('no tools') }}{% endif %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
static const char PROSE[] = "once upon a time there was a cat\nhello world, how are you today?\n";

static struct toy talker(const char *kind)
{
    return (struct toy){.arch = "llama",
                        .n_vocab = TOY_VOCAB,
                        .n_ctx = 700,
                        .n_embd = 32,
                        .n_layer = 2,
                        .n_head = 4,
                        .n_head_kv = 2,
                        .head_dim = 8,
                        .n_ff = 64,
                        .n_rot = 8,
                        .type = TFT_F32,
                        .vocab = kind};
}

static struct talks written_by(const struct tft_model *m, const char *jinja, size_t tokens,
                               int threads)
{
    struct tft_chat_template *t = NULL;
    struct tft_error err;
    struct talks talks;
    bool stopped;
    if (jinja)
        assert_int_equal(tft_chat_open(&t, jinja, strlen(jinja), &err), TFT_OK);
    struct own_text_opts o = {.conversation = t,
                              .beginnings = PROSE,
                              .n_beginnings = sizeof PROSE - 1,
                              .tokens = tokens,
                              .n_threads = threads};
    assert_int_equal(own_text_write(&talks, m, &o, &stopped, &err), TFT_OK);
    assert_false(stopped);
    tft_chat_close(t);
    return talks;
}

static size_t begin_of(const struct talks *t, size_t i) { return i ? t->end[i - 1] : 0; }

static int32_t id_of(const struct tft_model *m, const char *name)
{
    int32_t id;
    size_t n;
    assert_int_equal(tft_tokenize(m, name, strlen(name), TFT_PARSE_SPECIAL, &id, 1, &n), TFT_OK);
    assert_int_equal(n, 1);
    return id;
}

/* Texts equal the texts of separate sessions: the tokens of each are the most likely to be drawn
   again. */
static void conversations(void **state)
{
    (void)state;
    struct toy toy = talker("gpt2");
    struct tft_model *m = opened(written(&toy));
    struct talks t = written_by(m, CHATML, 9000, 1), other = written_by(m, CHATML, 9000, 3);
    int32_t start = id_of(m, "<|im_start|>");
    assert_true(talks_tokens(&t, false) >= 9000 && talks_tokens(&t, true) >= 4500);
    assert_true(t.n > 40);
    assert_int_equal(t.n, other.n);
    assert_int_equal(t.n_ids, other.n_ids);
    assert_memory_equal(t.ids, other.ids, t.n_ids * sizeof *t.ids);
    size_t later = 0; /* texts with several turns */
    for (size_t i = 0; i < t.n; i++) {
        size_t starts = 0;
        assert_int_equal(t.ids[begin_of(&t, i)], start);
        for (size_t k = begin_of(&t, i); k < t.end[i]; k++)
            starts += t.ids[k] == start;
        assert_true(starts >= 2 && starts <= 12); /* a message and its answer, at least */
        later += starts > 3;
    }
    assert_true(later > 0);
    talks_free(&t);
    talks_free(&other);
    tft_model_close(m);
}

/* A template that refuses all conversations is an error; one that refuses some is not. */
static void a_template_that_refuses(void **state)
{
    (void)state;
    static const char jinja[] = "{{ raise_exception('not me') }}";
    struct toy toy = talker("gpt2");
    struct tft_model *m = opened(written(&toy));
    struct tft_chat_template *t;
    struct tft_error err;
    struct talks talks;
    bool stopped;
    assert_int_equal(tft_chat_open(&t, jinja, strlen(jinja), &err), TFT_OK);
    struct own_text_opts o = {.conversation = t, .tokens = 100, .n_threads = 1};
    assert_int_equal(own_text_write(&talks, m, &o, &stopped, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "not me"));
    assert_int_equal(talks.n, 0);
    tft_chat_close(t);
    tft_model_close(m);
}

static void texts_without_a_template(void **state)
{
    (void)state;
    for (int bos = 0; bos < 2; bos++) {
        struct toy toy = talker(bos ? "llama" : "gpt2");
        struct tft_model *m = opened(written(&toy));
        struct talks t = written_by(m, NULL, 2000, 2);
        size_t begun = 0; /* texts that begin as the prose does */
        int32_t lead[] = {tft_token_bos(m), 5};
        assert_int_equal(talks_lead(m, lead, 2), bos); /* else it is a token of the template */
        assert_int_equal(talks_lead(m, lead + 1, 1), 0);
        for (size_t i = 0; i < t.n; i++) {
            int32_t words[64];
            size_t n;
            size_t line = strcspn(PROSE, "\n");
            assert_int_equal(tft_tokenize(m, PROSE, line, 0, words, 64, &n), TFT_OK);
            assert_true(t.ids[begin_of(&t, i)] != tft_token_bos(m));
            begun += memcmp(t.ids + begin_of(&t, i), words, 4 * sizeof *words) == 0;
        }
        assert_true(begun > 0 && begun < t.n);
        talks_free(&t);
        tft_model_close(m);
    }
}

static void a_vocabulary_of_one_text(struct talks *t, size_t text, size_t n)
{
    int32_t ids[64];
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(100 * text + i);
    assert_true(talks_add(t, ids, n));
}

/* Windows begin where texts do, and never amid one; each third text is in the kept ones. */
static void windows(void **state)
{
    (void)state;
    struct talks t = {0};
    static const size_t lengths[] = {7, 9, 30, 25, 5, 12, 40, 11};
    enum { N = 8, WINDOW = 20 };
    for (size_t i = 0; i < N; i++)
        a_vocabulary_of_one_text(&t, i, lengths[i]);
    int32_t out[10 * WINDOW];
    struct talks_start plain = {.bos = -1, .held = -1}, bos = {.bos = 9999, .held = -1};
    /* 0 with 1 and the beginning of 3; then 4, in a window that 6 fills; 7 does not fill one */
    assert_int_equal(talks_windows(&t, false, &plain, WINDOW, 10, out), 2);
    static const int32_t want[] = {0, 1, 2, 3, 4, 5, 6, 100, 101, 102, 103, 104, 105, 106, 107, 108,
                                   300, 301, 302, 303, 400, 401, 402, 403, 404, 600, 601};
    assert_memory_equal(out, want, sizeof want);
    assert_int_equal(talks_windows(&t, false, &plain, WINDOW, 1, out), 1);
    assert_int_equal(talks_windows(&t, true, &plain, WINDOW, 10, out), 1);
    assert_int_equal(out[0], 200);
    assert_int_equal(talks_windows(&t, false, &bos, WINDOW, 10, out), 2);
    assert_int_equal(out[0], 9999);
    assert_int_equal(out[1], 0);
    assert_int_equal(out[WINDOW], 9999);
    assert_int_equal(out[WINDOW + 1], 400);
    /* a prefix that a text begins with is not fed twice: the first window lacks it */
    static const int32_t prefix[] = {0, 1};
    struct talks_start behind = {.bos = -1, .held = -1, .prefix = prefix, .n_prefix = 2};
    talks_windows(&t, false, &behind, WINDOW, 10, out);
    assert_int_equal(out[0], 2);
    struct talks_start held = {.bos = -1, .held = 0, .prefix = prefix + 1, .n_prefix = 1};
    talks_windows(&t, false, &held, WINDOW, 10, out);
    assert_int_equal(out[0], 2);
    held.n_prefix = 0;
    talks_windows(&t, false, &held, WINDOW, 10, out);
    assert_int_equal(out[0], 1);
    assert_int_equal(talks_tokens(&t, true), 30 + 12);
    talks_free(&t);
}

/* A text that has no more than these tokens does not go on after them. */
static void what_all_begin_with(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 2, 3, 4}, other[] = {1, 2, 5};
    struct talks t = {0};
    assert_int_equal(talks_same(&t), 0);
    assert_true(talks_add(&t, NULL, 0)); /* of a template that rendered BOS alone */
    assert_int_equal(talks_same(&t), 0);
    talks_free(&t);
    assert_true(talks_add(&t, ids, 4));
    assert_int_equal(talks_same(&t), 3);
    assert_true(talks_add(&t, other, 3));
    assert_int_equal(talks_same(&t), 2);
    assert_true(talks_add(&t, ids, 2));
    assert_int_equal(talks_same(&t), 1);
    assert_true(talks_add(&t, ids + 1, 2));
    assert_int_equal(talks_same(&t), 0);
    talks_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations),
        cmocka_unit_test(a_template_that_refuses),
        cmocka_unit_test(texts_without_a_template),
        cmocka_unit_test(windows),
        cmocka_unit_test(what_all_begin_with),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
