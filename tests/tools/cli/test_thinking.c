/* The budget of thoughts: tools/cli/thinking.c. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "folder.h"
#include "tools/cli/thinking.h"
#include "toy.h"

static struct tft_model *m;

/* Every byte of the toy's vocabulary is a token. <think> and </think> are tokens, too. */
static int open_toy(void **state)
{
    const struct toy t = {.arch = "llama",
                          .vocab = "gpt2",
                          .n_vocab = TOY_VOCAB,
                          .n_ctx = 16,
                          .n_embd = 8,
                          .n_layer = 1,
                          .n_head = 1,
                          .n_head_kv = 1,
                          .head_dim = 8,
                          .n_ff = 8,
                          .n_rot = 8,
                          .tied = true};
    return make_folder(state) || !toy_write(&t, in_folder("m.gguf")) ||
           tft_model_open(&m, in_folder("m.gguf"), NULL, NULL) != TFT_OK;
}

static int close_toy(void **state)
{
    tft_model_close(m);
    return remove_folder(state);
}

static size_t tokens(const char *text, bool special, int32_t ids[64])
{
    size_t n;
    assert_int_equal(tft_tokenize(m, text, strlen(text),
                                  TFT_CONTINUE | (special ? TFT_PARSE_SPECIAL : 0), ids, 64, &n),
                     TFT_OK);
    return n;
}

/* Follows the tokens of the text, and returns before how many of its tokens the tag was to be
   forced for the first time; -1: never. */
static int forced_before(struct thinking *t, const char *text, bool special)
{
    int32_t ids[64], tag[THINKING_TAG];
    size_t n = tokens(text, special, ids);
    int at = -1;
    for (size_t i = 0; i <= n; i++) {
        if (at < 0 && thinking_forced(t, tag))
            at = (int)i;
        if (i < n)
            thinking_take(t, ids[i]);
    }
    return at;
}

static int forced_in(const char *text, bool special, int32_t budget, bool in_thought)
{
    struct thinking t;
    thinking_begin(&t, m, budget, in_thought);
    return forced_before(&t, text, special);
}

static void after_the_budget(void **state)
{
    (void)state;
    for (int32_t n = 0; n < 9; n++)
        assert_int_equal(forced_in("xyzxyzxyz", false, n, true), n);
    assert_int_equal(forced_in("xyzxyzxyz", false, 10, true), -1);
    assert_int_equal(forced_in("xyzxyzxyz", false, -1, true), -1);
    assert_int_equal(forced_in("xyzxyzxyz", false, 0, false), -1);
}

/* The tag is one token, or is spelled. */
static void thoughts_begin_with_their_tag(void **state)
{
    (void)state;
    int32_t ids[64];
    int spelled = (int)tokens("<think>", false, ids);
    assert_int_equal(tokens("<think>", true, ids), 1);
    assert_true(spelled > 1);
    assert_int_equal(forced_in("<think>xyz", true, 2, false), 3);
    assert_int_equal(forced_in("<think>xyz", false, 2, false), spelled + 2);
    assert_int_equal(forced_in("x<think>xyz", true, 0, false), -1);
    assert_int_equal(forced_in("<thin>xyz", false, 0, false), -1);
}

static void the_tag_comes_once(void **state)
{
    (void)state;
    struct thinking t;
    int32_t tag[THINKING_TAG], ids[64];
    thinking_begin(&t, m, 2, true);
    assert_int_equal(forced_before(&t, "xy", false), 2);
    size_t n = thinking_forced(&t, tag);
    assert_int_equal(tokens("</think>", true, ids), n);
    assert_memory_equal(tag, ids, n * sizeof *tag);
    for (size_t i = 0; i < n; i++)
        thinking_take(&t, tag[i]);
    assert_int_equal(forced_before(&t, "xyz<think>xyz", true), -1);
    assert_int_equal(forced_in("x</think>xyz", true, 2, true), -1); /* the model wrote it */
    assert_int_equal(forced_in("x</think>xyz", false, 2, true), -1);
}

static void not_within_a_character_or_the_tag(void **state)
{
    (void)state;
    assert_int_equal(forced_in("\xf0\x9f\x98\x80z", false, 1, true), 4);
    assert_int_equal(forced_in("\xc3\xa4z", false, 1, true), 2);
    struct thinking t;
    int32_t ids[64];
    assert_int_equal(forced_in("x</thix", false, 3, true), tokens("x</thix", false, ids));
    thinking_begin(&t, m, 0, true); /* but at last it comes */
    assert_int_equal(forced_before(&t, "x<", false), 0);
    assert_int_equal(forced_before(&t, "<<<<<<<<<<<<<<<<<<<<", false), THINKING_TAG - 2);
}

static void texts_that_end_in_thoughts(void **state)
{
    (void)state;
    assert_true(thinking_ends("a<think>", 8) && thinking_ends("<think> \n\n", 10));
    assert_false(thinking_ends("<think>a", 8) || thinking_ends("think>", 6) ||
                 thinking_ends("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_the_budget),
        cmocka_unit_test(thoughts_begin_with_their_tag),
        cmocka_unit_test(the_tag_comes_once),
        cmocka_unit_test(not_within_a_character_or_the_tag),
        cmocka_unit_test(texts_that_end_in_thoughts),
    };
    return cmocka_run_group_tests(tests, open_toy, close_toy);
}
