/*
 * Trains the student.
 *
 * teach-train OUT STEPS VALIDATION CORPUS...
 *     OUT: a llama2.c checkpoint, written every few minutes and at the end. OUT.state beside it
 *     lets the same command continue after it was stopped. VALIDATION, CORPUS: files of
 *     teach-sample.
 */
#include "checkpoint.h"
#include "corpus.h"
#include "optim.h"
#include "tool.h"

#include <stdlib.h>

/* With the vocabulary of make.sh: 1.95 million parameters, 4 MB in f16. */
static const struct shape shape = {
    .dim = 128, .ffn = 384, .layers = 8, .heads = 4, .kv_heads = 2, .vocab = 2944, .context = 512};

enum {
    WORKERS = 2, /* threads; each computes a fixed part of the batch with a gradient of its own, so
                    that a run can be repeated exactly */
    BATCH = 16,  /* windows of `context` tokens per step */
    WARMUP = 100,
    VALID_WINDOWS = 64,
    SAVE_SECONDS = 240,
    REPORT_SECONDS = 30,
};
static const double top_rate = 0.012, clip_norm = 1;
static const uint64_t seed = 1;

struct worker {
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
    struct worker worker[WORKERS];
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

/* Matrices that write to the residual stream start at 0, so that a layer has no effect at first. */
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
    fprintf(stderr, "continues at step %ld\n", t->optim.step);
}

/* ---- training */

/* The loss on the validation stories, in windows that are always the same. */
static double validate(struct training *t)
{
    struct params w = params_at(&shape, t->flat);
    int context = shape.context;
    double loss = 0, entropy = 0;
#pragma omp parallel for num_threads(WORKERS) schedule(static) reduction(+ : loss, entropy)
    for (int worker = 0; worker < WORKERS; worker++) {
        struct worker *self = &t->worker[worker];
        for (int i = worker; i < VALID_WINDOWS; i += WORKERS) {
            uint64_t random = (uint64_t)i;
            corpus_window(&t->valid, &random, self->token, self->target, context);
            llama_forward(self->tape, &w, self->token, context);
            loss += llama_loss(self->tape, &w, NULL, 0, self->token, self->target, context);
            entropy += targets_entropy(self->target, context);
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
    float *sum = t->worker[0].grad;
#pragma omp parallel for num_threads(WORKERS) schedule(static)
    for (int worker = 0; worker < WORKERS; worker++) {
        struct worker *self = &t->worker[worker];
        struct params g = params_at(&shape, self->grad);
        memset(self->grad, 0, n * sizeof *self->grad);
        self->loss = 0;
        for (int i = worker; i < BATCH; i += WORKERS) {
            uint64_t random = (seed << 48) + (uint64_t)t->optim.step * BATCH + (uint64_t)i;
            random_bits(&random);
            corpus_window(&t->corpus, &random, self->token, self->target, context);
            llama_forward(self->tape, &w, self->token, context);
            self->loss += llama_loss(self->tape, &w, &g, 1 / (float)(BATCH * context), self->token,
                                  self->target, context);
        }
    }
    for (int worker = 0; worker < WORKERS; worker++)
        loss += t->worker[worker].loss;
    for (int worker = 1; worker < WORKERS; worker++)
        for (size_t i = 0; i < n; i++)
            sum[i] += t->worker[worker].grad[i];
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

/* The learning rate rises, stays, and falls linearly to 0 in the last third of the steps. Before it
   falls, a run can be continued to another number of steps as if it had been started with that. */
static float rate_at(long step, long steps)
{
    double rise = (double)(step + 1) / WARMUP, fall = 3 * (double)(steps - step) / (double)steps;
    return (float)(top_rate * fmin(1, fmin(rise, fall)));
}

static void train(struct training *t)
{
    double start = seconds(), reported = start, saved = start, loss = 0, norm = 0;
    long from = t->optim.step, counted = 0;
    while (t->optim.step < t->steps) {
        loss += run_batch(t);
        norm += (double)clip(t->worker[0].grad, t->optim.n);
        counted++;
        optim_step(&t->optim, t->flat, t->worker[0].grad, rate_at(t->optim.step, t->steps));
        double now = seconds();
        bool last = t->optim.step == t->steps;
        if (now - reported > REPORT_SECONDS || last) {
            double per_step = (now - start) / (double)(t->optim.step - from);
            fprintf(stderr,
                    "step %ld of %ld, loss %.4f, gradient %.3f, rate %.5f, %.0f tokens/s, %.0f min "
                    "left\n",
                    t->optim.step, t->steps, loss / (double)counted, norm / (double)counted,
                    (double)rate_at(t->optim.step, t->steps),
                    (double)(BATCH * shape.context) / per_step,
                    per_step * (double)(t->steps - t->optim.step) / 60);
            reported = now;
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

static void open_workers(struct training *t)
{
    for (int i = 0; i < WORKERS; i++) {
        struct worker *self = &t->worker[i];
        self->tape = tape_open(&shape);
        self->grad = take(t->optim.n, sizeof *self->grad);
        self->token = take((size_t)shape.context, sizeof *self->token);
        self->target = take((size_t)shape.context, sizeof *self->target);
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
    open_workers(t);
    t->flat = take(t->optim.n, sizeof *t->flat);
    initialize(t->flat);
    resume(t);
    fprintf(stderr, "%zu parameters, %zu stories of %zu tokens, %zu to validate\n", t->optim.n,
            t->corpus.n, t->corpus.tokens, t->valid.n);
    train(t);
    return 0;
}
