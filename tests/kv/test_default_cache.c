/*
 * The cache of sessions that name none: i8, near floats in every architecture; f16 where all layers
 * have a window.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <string.h>

#include "altup_toys.h"
#include "dense_toys.h"
#include "expert_toys.h"
#include "fed.h"
#include "latent_toys.h"
#include "layer_toys.h"
#include "more_toys.h"

enum { N = 100, LATER = 30 };

/* The mean distance of the logits with the default cache from the logits with f32. */
static double distance_of_default(const struct tft_model *m)
{
    int32_t tokens[N];
    double sum = 0;
    struct tft_model_info info = {.size = sizeof info};
    struct tft_session *f32 = session(m, (struct tft_session_opts){.kv = "f32", .n_threads = 1}),
                       *s = session(m, (struct tft_session_opts){.n_threads = 1});
    tft_model_describe(m, &info);
    assert_string_equal(info.kv, tft_model_only_windows(m) ? "f16" : "i8");
    assert_true(s->kv.policy.i8 == !tft_model_only_windows(m));
    toy_tokens(4, m->n_vocab, tokens, N);
    feed(f32, tokens, N - LATER, N);
    feed(s, tokens, N - LATER, N);
    for (int i = N - LATER; i < N; i++) {
        assert_int_equal(tft_decode(f32, tokens[i]), TFT_OK);
        assert_int_equal(tft_decode(s, tokens[i]), TFT_OK);
        sum += distance(s, f32) / LATER;
    }
    tft_session_close(f32);
    tft_session_close(s);
    return sum;
}

static void near_floats(const struct toy *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tft_model *m = opened(written(&all[i]));
        /* normed and rotated numbers of latent keys share a scale */
        double off = distance_of_default(m), most = all[i].n_head_kv == 1 ? 0.12 : 0.06;
        if (!(off < most))
            fail_msg("%s, toy %zu: off by %g", all[i].arch, i, off);
        tft_model_close(m);
    }
}

static void every_architecture_is_near_floats(void **state)
{
    (void)state;
    near_floats(more_toys, N_MORE);
    near_floats(layer_toys, N_LAYER_TOYS);
    near_floats(expert_toys, N_EXPERTS);
    near_floats(latent_toys, N_LATENT);
    near_floats(dense_toys, N_DENSE);
    near_floats(altup_toys, N_ALTUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture_is_near_floats)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
