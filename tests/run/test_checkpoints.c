/* Checkpoints of models with recurrent states: which a session keeps, and that it goes back to them
   with the same bits. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "states.h"

/* After prompts of 100 and 57 tokens, and then 15 at a time, which is no prompt; held: where the
   cache is after the rewind. Each of two toys of an architecture has every other rewind. */
static void rewinds_to_checkpoints(void **state)
{
    (void)state;
    static const struct {
        uint32_t to, held;
    } rewinds[] = {{1150, 1150}, {1149, 682}, {682, 682}, {681, 157}, {157, 157},
                   {156, 100},   {100, 100},  {99, 0},    {0, 0}};
    for (int i = 0; i < N_STATE; i++) {
        struct tft_model *m = toy_model(i);
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
        for (int r = 0; r < (int)(sizeof rewinds / sizeof *rewinds); r++) {
            if (!in_turn(r, i, 2))
                continue;
            assert_int_equal(tft_rewind(s, 0), TFT_OK);
            prefill(s, 0, 100);
            prefill(s, 100, 157);
            for (uint32_t t = 157; t < N; t += 15)
                prefill(s, t, t + 15 < N ? t + 15 : N);
            uint64_t want = hash(s);
            assert_int_equal(tft_rewind(s, rewinds[r].to), TFT_OK);
            assert_int_equal(tft_pos(s), rewinds[r].to);
            if (!s->kv.ring || s->kv.held) /* windows may have lost tokens before a checkpoint */
                assert_int_equal(s->kv.held, rewinds[r].held);
            if (rewinds[r].to == N)
                continue;
            prefill(s, rewinds[r].to, N);
            assert_int_equal(hash(s), want);
        }
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* A rewind after a rewind, before the tokens between were computed again; and one in a cache that
   cannot go back as far as the checkpoint. */
static void rewinds_twice(void **state)
{
    (void)state;
    static const char *const caches[] = {"f16", "kivi:window=32,group=16"};
    struct tft_model *m = toy_model(0);
    for (int c = 0; c < 2; c++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = caches[c]});
        prefill(s, 0, 300);
        uint64_t want = hash(s);
        prefill(s, 300, 620);
        assert_int_equal(tft_rewind(s, 500), TFT_OK);
        assert_int_equal(s->kv.held, c ? 0 : 300);
        assert_int_equal(tft_rewind(s, 400), TFT_OK);
        assert_int_equal(s->kv.held, c ? 0 : 300);
        assert_int_equal(tft_rewind(s, 299), TFT_OK);
        assert_int_equal(s->kv.held, 0);
        prefill(s, 299, 300);
        assert_int_equal(hash(s), want);
        assert_int_equal(tft_sync(s, tokens, 300), TFT_OK);
        assert_int_equal(hash(s), want);
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* tft_prompt_end makes a checkpoint, at any length. */
static void where_a_prompt_ends(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(0);
    struct tft_session *s = session(m, (struct tft_session_opts){0});
    prefill(s, 0, 5);
    tft_prompt_end(s);
    prefill(s, 5, 12);
    assert_int_equal(tft_rewind(s, 7), TFT_OK);
    assert_int_equal(s->kv.held, 5);
    tft_prompt_end(s); /* a token that is not computed is not at a checkpoint */
    assert_int_equal(s->states.n, 1);
    tft_session_close(s);
    tft_model_close(m);
}

/* Never more than the caller allows; the dropped ones have close neighbours. */
static void bounded(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(0);
    for (uint32_t most = 1; most <= 3; most++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.checkpoints = most});
        static const uint32_t ends[] = {20, 40, 400, 420, 600};
        for (uint32_t i = 0, at = 0; i < 5; at = ends[i++])
            prefill(s, at, ends[i]);
        assert_int_equal(s->states.n, most);
        assert_int_equal(s->states.checkpoint[most - 1].pos, 600);
        if (most == 3) {
            assert_int_equal(s->states.checkpoint[0].pos, 40);
            assert_int_equal(s->states.checkpoint[1].pos, 420);
        }
        uint64_t want = hash(s);
        assert_int_equal(tft_rewind(s, 500), TFT_OK);
        prefill(s, 500, 600);
        assert_int_equal(hash(s), want);
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* A checkpoint is dropped, and makes room for others, if the cache cannot go back to it: its rings
   have lost tokens, or it has quantized some. */
static void those_that_serve_nothing_go(void **state)
{
    (void)state;
    static const struct {
        const char *kv;
        uint32_t n[2], oldest[2]; /* without windows, with windows: in all layers, so f16 */
    } caches[] = {{"f16", {11, 6}, {100, 600}},
                  {"kivi:window=400", {3, 6}, {900, 600}},
                  {"kivi:window=32,group=16", {1, 6}, {1100, 600}}};
    for (int i = 0; i < N_STATE; i++) {
        struct tft_model *m = toy_model(i);
        for (size_t c = 0; c < sizeof caches / sizeof *caches; c++) {
            struct tft_session *s =
                session(m, (struct tft_session_opts){.kv = caches[c].kv,
                                                     .n_batch = 100,
                                                     .checkpoints = 20,
                                                     .n_threads = 1});
            int w = s->kv.ring != NULL;
            for (uint32_t t = 0; t < 1100; t += 100)
                prefill(s, t, t + 100);
            uint64_t want = hash(s);
            uint32_t oldest = s->states.checkpoint[0].pos;
            if (s->states.n != caches[c].n[w] || oldest != caches[c].oldest[w])
                fail_msg("toy %d, %s: %u, the first at %u", i, caches[c].kv, s->states.n, oldest);
            assert_int_equal(tft_rewind(s, oldest), TFT_OK);
            assert_int_equal(s->kv.held, oldest);
            if (oldest < 1100)
                prefill(s, oldest, 1100);
            assert_true(oldest == 1100 || hash(s) == want);
            tft_session_close(s);
        }
        tft_model_close(m);
    }
}

/* tft_rewind_keeps tells beforehand what a rewind leaves in the cache. */
static void keeps_are_known(void **state)
{
    (void)state;
    static const char *const caches[] = {"f16", "kivi:window=32,group=16"};
    static const struct {
        uint32_t to, kept; /* kept: by f16 */
    } rewinds[] = {{0, 0}, {99, 0}, {100, 100}, {156, 100}, {157, 157}, {299, 157}, {300, 300}};
    struct tft_model *m = toy_model(0);
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < (int)(sizeof rewinds / sizeof *rewinds); i++) {
            struct tft_session *s = session(m, (struct tft_session_opts){.kv = caches[c]});
            assert_int_equal(tft_rewind_keeps(s, 9), 0);
            prefill(s, 0, 100);
            prefill(s, 100, 157);
            prefill(s, 157, 300);
            assert_int_equal(tft_rewind_keeps(s, N), 300);
            size_t kept = tft_rewind_keeps(s, rewinds[i].to);
            if (c == 0)
                assert_int_equal(kept, rewinds[i].kept);
            assert_int_equal(tft_rewind(s, rewinds[i].to), TFT_OK);
            assert_int_equal(s->kv.held, kept);
            assert_int_equal(tft_rewind_keeps(s, rewinds[i].to), kept);
            tft_session_close(s);
        }
    tft_model_close(m);
}

/* A session that depends on more than its tokens is none to take a beginning of. */
static void keeps_nothing(void **state)
{
    (void)state;
    static const struct tft_session_opts o[] = {{.kv = "kivi:window=32,group=16,prefill=prompt"},
                                                {.capacity = 120, .slide = true}};
    struct tft_model *m = toy_model(0);
    for (int i = 0; i < 2; i++) {
        struct tft_session *s = session(m, o[i]);
        prefill(s, 0, 100);
        assert_int_equal(tft_rewind_keeps(s, 100), i ? 100 : 0);
        tft_prompt_end(s);
        prefill(s, 100, 140);
        assert_int_equal(tft_rewind_keeps(s, N), 0);
        tft_session_close(s);
    }
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewinds_to_checkpoints),
        cmocka_unit_test(rewinds_twice),
        cmocka_unit_test(where_a_prompt_ends),
        cmocka_unit_test(bounded),
        cmocka_unit_test(those_that_serve_nothing_go),
        cmocka_unit_test(keeps_are_known),
        cmocka_unit_test(keeps_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
