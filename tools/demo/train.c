/*
 * The student learns.
 *
 * teach-train OUT STEPS VALIDATION CORPUS...
 *     OUT: a llama2.c checkpoint, written every few minutes and at the end; OUT.state beside it
 *     lets the same command go on where it was stopped. VALIDATION, CORPUS: files of teach-sample.
 */
#include "checkpoint.h"
#include "corpus.h"
#include "optim.h"
#include "tool.h"

#include <stdlib.h>

/* With the vocabulary of make.sh: 1.95 million parameters, and in f16 what 4 MB hold. */
static const struct shape shape = {
    .dim = 128, .ffn = 384, .layers = 8, .heads = 4, .kv_heads = 2, .vocab = 2944, .context = 512};

enum {
    LANES = 2,  /* threads; each runs its own part of a batch into its own gradient, so a run can be
                   repeated */
    BATCH = 16, /* windows of `context` tokens per step */
    WARMUP = 100,
    VALID_WINDOWS = 64,
    SAVE_SECONDS = 240,
    TELL_SECONDS = 30,
};
static const double top_rate = 0.012, clip_norm = 1;
static const uint64_t seed = 1;

struct lane {
    struct tape *tape;
    float *grad; /* [params] */
    uint16_t *token;
    struct target *target;
    double loss;
};

struct training {
    long steps;
    struct corpus corpus, valid;
    struct optim optim;
    struct lane lane[LANES];
    float *flat; /* [params] */
    const char *path;
    char state_path[1024], tmp_path[1040];
    double entropy; /* of the validation targets, per token */
};

static void fill_normal(float *x, size_t n, float deviation, uint64_t *random)
{
    for (size_t i = 0; i < n; i++)
        x[i] = deviation * random_normal(random);
}

/* Matrices that write to the residual stream start at 0: a layer begins as nothing and grows. */
static void initialize(float *flat)
{
    struct params w = params_at(&shape, flat);
    size_t d = (size_t)shape.dim, n = (size_t)shape.layers, f = (size_t)shape.ffn,
           kv = (size_t)kv_dim(&shape);
    uint64_t random = seed;
    float deviation = 0.5f / sqrtf((float)d);
    fill_normal(w.embed, (size_t)shape.vocab * d, 0.05f, &random);
    fill_normal(w.wq, n * d * d, deviation, &random);
    fill_normal(w.wk, n * d * kv, deviation, &random);
    fill_normal(w.wv, n * d * kv, deviation, &random);
    fill_normal(w.gate, n * d * f, deviation, &random);
    fill_normal(w.up, n * d * f, deviation, &random);
    for (size_t i = 0; i < n * d; i++)
        w.att_norm[i] = w.ffn_norm[i] = 1;
    for (size_t i = 0; i < d; i++)
        w.out_norm[i] = 1;
}

/* ---- state on disk: step, parameters, momentum, second moment */

static void save(struct training *t)
{
    size_t bytes = t->optim.n * sizeof(float);
    FILE *f = open_file(t->tmp_path, "wb");
    write_all(f, &t->optim.step, sizeof t->optim.step, t->tmp_path);
    write_all(f, t->flat, bytes, t->tmp_path);
    write_all(f, t->optim.m, bytes, t->tmp_path);
    write_all(f, t->optim.v, bytes, t->tmp_path);
    if (fclose(f) || rename(t->tmp_path, t->state_path))
        die("%s: cannot be written", t->state_path);
    checkpoint_write(&shape, t->flat, t->path);
}

static void resume(struct training *t)
{
    size_t bytes = t->optim.n * sizeof(float);
    FILE *f = fopen(t->state_path, "rb");
    if (!f)
        return;
    read_all(f, &t->optim.step, sizeof t->optim.step, t->state_path);
    read_all(f, t->flat, bytes, t->state_path);
    read_all(f, t->optim.m, bytes, t->state_path);
    read_all(f, t->optim.v, bytes, t->state_path);
    fclose(f);
    fprintf(stderr, "goes on at step %ld\n", t->optim.step);
}

/* ---- work */

/* Windows of the validation stories, always the same ones. */
static double validate(struct training *t)
{
    struct params w = params_at(&shape, t->flat);
    int context = shape.context;
    double loss = 0, entropy = 0;
#pragma omp parallel for num_threads(LANES) schedule(static) reduction(+ : loss, entropy)
    for (int lane = 0; lane < LANES; lane++) {
        struct lane *l = &t->lane[lane];
        for (int i = lane; i < VALID_WINDOWS; i += LANES) {
            uint64_t random = (uint64_t)i;
            corpus_window(&t->valid, &random, l->token, l->target, context);
            llama_forward(l->tape, &w, l->token, context);
            loss += llama_loss(l->tape, &w, NULL, 0, l->token, l->target, context);
            entropy += targets_entropy(l->target, context);
        }
    }
    t->entropy = entropy / (VALID_WINDOWS * context);
    return loss / (VALID_WINDOWS * context);
}

static double run_batch(struct training *t)
{
    struct params w = params_at(&shape, t->flat);
    int context = shape.context;
    size_t n = t->optim.n;
    double loss = 0;
    float *sum = t->lane[0].grad;
#pragma omp parallel for num_threads(LANES) schedule(static)
    for (int lane = 0; lane < LANES; lane++) {
        struct lane *l = &t->lane[lane];
        struct params g = params_at(&shape, l->grad);
        memset(l->grad, 0, n * sizeof *l->grad);
        l->loss = 0;
        for (int i = lane; i < BATCH; i += LANES) {
            uint64_t random = (seed << 48) + (uint64_t)t->optim.step * BATCH + (uint64_t)i;
            random_bits(&random);
            corpus_window(&t->corpus, &random, l->token, l->target, context);
            llama_forward(l->tape, &w, l->token, context);
            l->loss += llama_loss(l->tape, &w, &g, 1 / (float)(BATCH * context), l->token,
                                  l->target, context);
        }
    }
    for (int lane = 0; lane < LANES; lane++)
        loss += t->lane[lane].loss;
    for (int lane = 1; lane < LANES; lane++)
        for (size_t i = 0; i < n; i++)
            sum[i] += t->lane[lane].grad[i];
    return loss / (double)(BATCH * context);
}

static float clip(float *grad, size_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)grad[i] * (double)grad[i];
    double norm = sqrt(sum);
    if (norm > clip_norm)
        for (size_t i = 0; i < n; i++)
            grad[i] *= (float)(clip_norm / norm);
    return (float)norm;
}

/* Up, level, and in the last third of the steps straight down to 0: a run that is not falling yet
   can go on to another number of steps as if it had had that from the start. */
static float rate_at(long step, long steps)
{
    double rise = (double)(step + 1) / WARMUP, fall = 3 * (double)(steps - step) / (double)steps;
    return (float)(top_rate * fmin(1, fmin(rise, fall)));
}

static void train(struct training *t)
{
    double start = seconds(), told = start, saved = start, loss = 0, norm = 0;
    long from = t->optim.step, counted = 0;
    while (t->optim.step < t->steps) {
        loss += run_batch(t);
        norm += (double)clip(t->lane[0].grad, t->optim.n);
        counted++;
        optim_step(&t->optim, t->flat, t->lane[0].grad, rate_at(t->optim.step, t->steps));
        double now = seconds();
        bool last = t->optim.step == t->steps;
        if (now - told > TELL_SECONDS || last) {
            double per_step = (now - start) / (double)(t->optim.step - from);
            fprintf(stderr,
                    "step %ld of %ld, loss %.4f, gradient %.3f, rate %.5f, %.0f tokens/s, %.0f min "
                    "left\n",
                    t->optim.step, t->steps, loss / (double)counted, norm / (double)counted,
                    (double)rate_at(t->optim.step, t->steps),
                    (double)(BATCH * shape.context) / per_step,
                    per_step * (double)(t->steps - t->optim.step) / 60);
            told = now;
            loss = norm = 0;
            counted = 0;
        }
        if (now - saved > SAVE_SECONDS || last) {
            double valid = validate(t);
            fprintf(stderr,
                    "step %ld, validation %.4f nats per token, of which the teacher's own %.4f, "
                    "divergence %.4f\n",
                    t->optim.step, valid, t->entropy, valid - t->entropy);
            save(t);
            saved = seconds();
        }
    }
}

static void open_lanes(struct training *t)
{
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &t->lane[i];
        l->tape = tape_open(&shape);
        l->grad = take(t->optim.n, sizeof *l->grad);
        l->token = take((size_t)shape.context, sizeof *l->token);
        l->target = take((size_t)shape.context, sizeof *l->target);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5)
        die("usage: teach-train OUT STEPS VALIDATION CORPUS...");
    struct training *t = take(1, sizeof *t);
    t->path = argv[1];
    t->steps = atol(argv[2]);
    corpus_add(&t->valid, argv[3]);
    for (int i = 4; i < argc; i++)
        corpus_add(&t->corpus, argv[i]);
    snprintf(t->state_path, sizeof t->state_path, "%s.state", t->path);
    snprintf(t->tmp_path, sizeof t->tmp_path, "%s.tmp", t->state_path);
    optim_open(&t->optim, &shape);
    open_lanes(t);
    t->flat = take(t->optim.n, sizeof *t->flat);
    initialize(t->flat);
    resume(t);
    fprintf(stderr, "%zu parameters, %zu stories of %zu tokens, %zu to validate\n", t->optim.n,
            t->corpus.n, t->corpus.tokens, t->valid.n);
    train(t);
    return 0;
}
