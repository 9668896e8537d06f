/* The search for a text's own outliers, on a model that is made by hand: its first NEWLINE after
   BOS, and no other token, has a number in the residual stream that is far larger than all others,
   as in models that people use (Sun et al. 2024). */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "file/file.h"
#include "models/open.h"
#include "tools/quantize/search/pivots.h"
#include "toy.h"

enum { BOS = 1, NEWLINE = 2, LOUD = 3, FIRST_WORD = 4, LOUD_TOO = 33, VOCAB = 40, WINDOWS = 6,
       WINDOW = 48, WIDTH = 32 };

/* Channels of the residual stream. The embedding of a token has 1 at ONE and 4, that of LOUD and of
   LOUD_TOO .. VOCAB - 1 60, at a channel that says which token it is. */
enum { ONE, IS_BOS, IS_NEWLINE, WORDS, OUTLIER = 30, SHARE = 31 };

static const struct toy toy = {.arch = "llama",
                               .n_vocab = VOCAB,
                               .n_ctx = 64,
                               .n_embd = WIDTH,
                               .n_layer = 2,
                               .n_head = 1,
                               .n_head_kv = 1,
                               .head_dim = 16,
                               .n_ff = WIDTH,
                               .n_rot = 2,
                               .type = TFT_F32};

/* Sets number [row, column] of a matrix in the file's bytes to x. */
static void set(const struct tft_source *s, unsigned char *file, const char *name, size_t row,
                size_t column, float x)
{
    const struct tft_tensor *t = tft_source_tensor(s, name);
    assert_non_null(t);
    memcpy(file + (t->data - s->data) + (row * t->ne[0] + column) * sizeof x, &x, sizeof x);
}

static void clear(const struct tft_source *s, unsigned char *file, const char *name, float x)
{
    const struct tft_tensor *t = tft_source_tensor(s, name);
    assert_non_null(t);
    for (size_t row = 0; row < t->ne[1]; row++)
        for (size_t column = 0; column < t->ne[0]; column++)
            set(s, file, name, row, column, x);
}

/*
 * A newline attends to BOS and to all newlines so far alike, and to nothing else: with n of them,
 * its own included, BOS has the share 1 / (1 + n) of its attention, which goes to SHARE. With one
 * of them SHARE is 5.5 / 2, which the gate of the feed-forward network lets through, and with two
 * 5.5 / 3, which it does not. It lets OUTLIER, 100 or more, of IS_NEWLINE through.
 */
static void make(const struct tft_source *s, unsigned char *file)
{
    static const char *const zero[] = {
        "token_embd.weight",     "blk.0.attn_q.weight",   "blk.0.attn_k.weight",
        "blk.0.attn_v.weight",   "blk.0.attn_output.weight", "blk.0.ffn_gate.weight",
        "blk.0.ffn_up.weight",   "blk.0.ffn_down.weight", "blk.1.attn_output.weight",
        "blk.1.ffn_down.weight"};
    static const char *const one[] = {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"};
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        clear(s, file, zero[i], 0);
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        clear(s, file, one[i], 1);
    for (size_t token = 0; token < toy.n_vocab; token++) {
        set(s, file, "token_embd.weight", token, ONE, 1);
        set(s, file, "token_embd.weight", token,
            token == BOS || token == NEWLINE ? token : WORDS + token % (OUTLIER - WORDS),
            token == LOUD || token >= LOUD_TOO ? 60 : 4);
    }
    /* the first two numbers of a head are rotated */
    set(s, file, "blk.0.attn_q.weight", 2, IS_NEWLINE, 1.2f);
    set(s, file, "blk.0.attn_k.weight", 2, IS_NEWLINE, 1.2f);
    set(s, file, "blk.0.attn_k.weight", 2, IS_BOS, 1.2f);
    set(s, file, "blk.0.attn_v.weight", 0, IS_BOS, 1);
    set(s, file, "blk.0.attn_output.weight", SHARE, 0, 1);
    set(s, file, "blk.0.ffn_gate.weight", 0, SHARE, 20);
    set(s, file, "blk.0.ffn_gate.weight", 0, ONE, -44);
    set(s, file, "blk.0.ffn_up.weight", 0, IS_NEWLINE, 1);
    set(s, file, "blk.0.ffn_down.weight", OUTLIER, 0, 2);
}

static struct tft_model *made(void)
{
    const char *path = in_folder("pivots.gguf");
    struct tft_source s;
    struct tft_error err;
    struct tft_model *m;
    assert_true(toy_write(&toy, path));
    assert_int_equal(tft_source_open(&s, path, NULL, NULL, &err), TFT_OK);
    unsigned char *file = malloc(s.size);
    assert_non_null(file);
    memcpy(file, s.data, s.size);
    make(&s, file);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, s.size, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    free(file);
    tft_source_close(&s);
    struct tft_model_opts mo = {.size = sizeof mo};
    if (tft_model_open_unexpanded(&m, path, &mo, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* Words, and newlines in all windows but the last one. */
static void write_text(int32_t *text)
{
    uint64_t seed = 5;
    toy_tokens(seed, LOUD_TOO - FIRST_WORD, text, WINDOWS * WINDOW);
    for (size_t i = 0; i < WINDOWS * WINDOW; i++)
        text[i] += FIRST_WORD;
    for (size_t w = 0; w + 1 < WINDOWS; w++)
        for (size_t at = 1 + w; at < WINDOW; at += 11 + w)
            text[w * WINDOW + at] = NEWLINE;
}

static struct pivots found(struct tft_model *m, const int32_t *text, uint32_t most, int threads)
{
    static const int32_t bos = BOS;
    struct pivots_opts o = {.text = text,
                            .n_windows = WINDOWS,
                            .window = WINDOW,
                            .start = &bos,
                            .n_start = 1,
                            .most = most,
                            .n_threads = threads};
    struct pivots r;
    struct tft_error err;
    bool stopped = true;
    if (pivots_search(m, &o, &r, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_false(stopped);
    return r;
}

/* Whether the tokens stand somewhere in the text, in one window. */
static bool stands(const int32_t *text, const int32_t *token, size_t n)
{
    for (size_t i = 0; i + n <= WINDOWS * WINDOW; i++)
        if (i % WINDOW + n <= WINDOW && !memcmp(text + i, token, n * sizeof *token))
            return true;
    return false;
}

static void the_first_newline_goes_into_the_prefix(void **state)
{
    (void)state;
    int32_t text[WINDOWS * WINDOW];
    struct tft_model *m = made();
    write_text(text);
    struct pivots r = found(m, text, 4, 1);
    assert_int_equal(r.start.n, 1);
    assert_int_equal(r.start.left, WINDOWS - 1); /* one in each window that has a newline */
    assert_true(r.start.peak > 100);
    assert_true(r.median > 3 && r.median < 5); /* of words, with 4 as largest number */
    assert_in_range(r.n, 1, PIVOT_PREFIXES);
    for (uint32_t i = 0; i < r.n; i++) {
        const struct pivots_prefix *p = &r.prefix[i];
        assert_int_equal(p->token[0], BOS);
        assert_int_equal(p->token[p->n - 1], NEWLINE);
        assert_true(stands(text, p->token + 1, p->n - 1));
        assert_int_equal(p->left, 0);
        assert_true(p->peak < 8 * r.median);
        assert_true(p->loss < r.start.loss / 100);
        assert_true(i == 0 || p->loss >= r.prefix[i - 1].loss);
    }
    tft_model_close(m);
}

/* No prefix takes LOUD, which has a large number wherever it stands. */
static void what_no_prefix_takes_is_no_prefix(void **state)
{
    (void)state;
    int32_t text[WINDOWS * WINDOW];
    uint32_t loud = 0;
    struct tft_model *m = made();
    write_text(text);
    for (size_t i = 5; i < WINDOWS * WINDOW; i += 41)
        if (text[i] != NEWLINE) {
            text[i] = LOUD;
            loud++;
        }
    struct pivots r = found(m, text, 4, 1);
    assert_int_equal(r.start.left, WINDOWS - 1 + loud);
    assert_in_range(r.n, 1, PIVOT_PREFIXES);
    for (uint32_t i = 0; i < r.n; i++) {
        bool has_newline = false;
        for (uint32_t t = 1; t < r.prefix[i].n; t++)
            has_newline |= r.prefix[i].token[t] == NEWLINE;
        assert_true(has_newline);
        assert_int_equal(r.prefix[i].left, loud);
    }
    tft_model_close(m);
}

/* Of eight candidates of one token, one helps. They run two at a time, and each is judged by
   itself. */
static void candidates_are_judged_one_by_one(void **state)
{
    (void)state;
    int32_t text[WINDOWS * WINDOW];
    struct tft_model *m = made();
    write_text(text);
    for (int32_t i = WINDOW, loud = LOUD_TOO; i < WINDOWS * WINDOW; i++)
        text[i] = i % 20 == 0 && loud < VOCAB ? loud++ : text[i] == NEWLINE ? FIRST_WORD : text[i];
    struct pivots r = found(m, text, 2, 1);
    assert_int_equal(r.n, PIVOT_PREFIXES);
    assert_int_equal(r.prefix[0].n, 2);
    assert_int_equal(r.prefix[0].token[1], NEWLINE);
    tft_model_close(m);
}

static void the_same_with_any_threads(void **state)
{
    (void)state;
    int32_t text[WINDOWS * WINDOW];
    struct tft_model *m = made();
    write_text(text);
    struct pivots one = found(m, text, 4, 1), three = found(m, text, 4, 3);
    assert_memory_equal(&one, &three, sizeof one);
    tft_model_close(m);
}

static void where_there_is_no_outlier_nothing_is_found(void **state)
{
    (void)state;
    int32_t text[WINDOWS * WINDOW];
    struct tft_model *m = made();
    write_text(text);
    for (size_t i = 0; i < WINDOWS * WINDOW; i++)
        text[i] = text[i] == NEWLINE ? FIRST_WORD : text[i];
    struct pivots r = found(m, text, 4, 1);
    assert_int_equal(r.n, 0);
    assert_int_equal(r.start.left, 0);
    tft_model_close(m);
}

static void a_prefix_that_is_full_stays(void **state)
{
    (void)state;
    int32_t text[WINDOWS * WINDOW];
    struct tft_model *m = made();
    write_text(text);
    struct pivots r = found(m, text, 1, 1);
    assert_int_equal(r.n, 0);
    assert_int_equal(r.start.left, WINDOWS - 1);
    tft_model_close(m);
}

static bool stop(void *user, double done)
{
    (void)done;
    return ++*(int *)user < 3;
}

static void progress_can_stop_it(void **state)
{
    (void)state;
    int32_t text[WINDOWS * WINDOW];
    struct tft_model *m = made();
    write_text(text);
    static const int32_t bos = BOS;
    int calls = 0;
    struct pivots_opts o = {.text = text,
                            .n_windows = WINDOWS,
                            .window = WINDOW,
                            .start = &bos,
                            .n_start = 1,
                            .most = 4,
                            .progress = stop,
                            .user = &calls};
    struct pivots r;
    struct tft_error err;
    bool stopped = false;
    assert_int_equal(pivots_search(m, &o, &r, &stopped, &err), TFT_OK);
    assert_true(stopped);
    assert_int_equal(calls, 3);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_newline_goes_into_the_prefix),
        cmocka_unit_test(what_no_prefix_takes_is_no_prefix),
        cmocka_unit_test(candidates_are_judged_one_by_one),
        cmocka_unit_test(the_same_with_any_threads),
        cmocka_unit_test(where_there_is_no_outlier_nothing_is_found),
        cmocka_unit_test(a_prefix_that_is_full_stays),
        cmocka_unit_test(progress_can_stop_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
