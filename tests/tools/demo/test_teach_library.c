/* The library runs the trained model: its logits of a checkpoint, compared with decoding in
   lockstep and with the loss. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "checkpoint.h"
#include "decode.h"
#include "folder.h"
#include "spm.h"
#include "test.h"
#include "tool.h"
#include "tuffet.h"

enum { T = 40, N = 3, VOCAB = 300 };
static const struct shape shape = {
    .dim = 32, .ffn = 48, .layers = 3, .heads = 4, .kv_heads = 2, .vocab = VOCAB, .context = T};

struct problem {
    struct params w;
    uint16_t token[N][T];
    float logits[N][T][VOCAB]; /* the logits of the library */
};

static void write_vocabulary(const char *path)
{
    static char text[VOCAB][8] = {"<unk>", "\n<s>\n", "\n</s>\n"};
    char *at[VOCAB];
    int len[VOCAB];
    float score[VOCAB] = {0};
    for (int i = 0; i < VOCAB; i++) {
        if (i >= ID_BYTE)
            snprintf(text[i], sizeof text[i], i < ID_PIECE ? "<0x%02X>" : "p%d", i - ID_BYTE);
        at[i] = text[i];
        len[i] = (int)strlen(text[i]);
    }
    spm_write(&(struct spm){.n = VOCAB, .max_len = 7, .text = at, .len = len, .score = score},
              path);
}

static void run_library(struct problem *p, const float *flat)
{
    struct tft_model *m;
    struct tft_session *s;
    struct tft_error err;
    const char *model = in_folder("model.bin"), *vocabulary = in_folder("vocab.bin");
    struct tft_model_opts opts = {.size = sizeof opts, .tokenizer = vocabulary};
    struct tft_session_opts session = {.size = sizeof session, .n_logits = T, .kv = "f32"};
    checkpoint_write(&shape, flat, model);
    write_vocabulary(vocabulary);
    if (tft_model_open(&m, model, &opts, &err) || tft_session_open(&s, m, &session, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < N; i++) {
        int32_t ids[T];
        for (int j = 0; j < T; j++)
            ids[j] = p->token[i][j];
        assert_int_equal(tft_sync(s, ids, T), TFT_OK);
        for (size_t j = 0; j < T; j++)
            memcpy(p->logits[i][j], tft_logits(s, T - 1 - j), sizeof p->logits[i][j]);
    }
    tft_session_close(s);
    tft_model_close(m);
}

static struct problem *make_problem(void)
{
    uint64_t random = 3;
    struct problem *p = take(1, sizeof *p);
    float *flat = take(params_count(&shape), sizeof *flat);
    for (size_t i = 0; i < params_count(&shape); i++)
        flat[i] = 0.3f * random_normal(&random);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < T; j++)
            p->token[i][j] = (uint16_t)random_below(&random, VOCAB);
    p->w = params_at(&shape, flat);
    run_library(p, flat);
    return p;
}

static void check(double got, double want)
{
    if (fabs(got - want) > 1e-4 * (1 + fabs(want)))
        fail_msg("%.7g, not %.7g", got, want);
}

/* Sequence i starts i steps late, in the place of an earlier sequence. */
static void test_lockstep(void **state)
{
    (void)state;
    struct problem *p = make_problem();
    struct decoder *d = decoder_open(&shape, &p->w, N);
    for (int step = 0; step < T - 1 + N; step++) {
        uint16_t token[N];
        int pos[N];
        for (int i = 0; i < N; i++) {
            pos[i] = step < i ? step : (step - i) % T;
            token[i] = step < i ? 7 : p->token[i][pos[i]];
        }
        const float *logits = decoder_step(d, token, pos);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < VOCAB && step >= i; j++)
                check((double)logits[i * VOCAB + j], (double)p->logits[i][pos[i]][j]);
    }
}

static void test_narrow_head(void **state)
{
    (void)state;
    struct problem *p = make_problem();
    const int few[] = {49, 3, 20};
    struct decoder *d = decoder_open(&shape, &p->w, 1);
    decoder_narrow_head(d, few, 3);
    const float *got = decoder_step(d, p->token[0], &(int){0});
    for (int k = 0; k < 3; k++)
        check((double)got[k], (double)p->logits[0][0][few[k]]);
}

/* The loss as llama.h defines it. */
static double loss_of(const float *z, const struct target *t)
{
    double q[VOCAB], sum = 0, p_rest = 1, q_rest = 1, loss = 0;
    for (int i = 0; i < VOCAB; i++)
        sum += q[i] = exp((double)z[i]);
    for (int k = 0; k < TARGETS && t->p[k]; k++) {
        double p = t->p[k] / 65535.0;
        p_rest -= p;
        q_rest -= q[t->id[k]] / sum;
        loss -= p * log(q[t->id[k]] / sum);
    }
    return loss - p_rest * log(q_rest);
}

/* One target at a time; the others are empty. */
static void test_loss(void **state)
{
    (void)state;
    static const struct target one = {.id = {9}, .p = {65535}},
                               some = {.id = {299, 0, 31}, .p = {30000, 20000, 10000}};
    struct problem *p = make_problem();
    struct tape *tape = tape_open(&shape);
    struct target target[T] = {0};
    llama_forward(tape, &p->w, p->token[0], T);
    for (int i = 0; i < T; i++) {
        target[i] = i % 2 ? one : some;
        check(llama_loss(tape, &p->w, NULL, 0, p->token[0], target, T),
              loss_of(p->logits[0][i], &target[i]));
        target[i] = (struct target){0};
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lockstep),
                                       cmocka_unit_test(test_narrow_head),
                                       cmocka_unit_test(test_loss)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
