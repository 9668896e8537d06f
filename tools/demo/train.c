/*
 * The student learns.
 *
 * teach-train OUT VALIDATION CORPUS... [NAME=VALUE...]
 *     OUT: a llama2.c checkpoint, written every few minutes and at the end; OUT.state beside it lets the same command go on
 *     where it was stopped. VALIDATION, CORPUS: files of teach-sample. NAME: see `settings`.
 */
#include "checkpoint.h"
#include "corpus.h"
#include "optim.h"
#include "tool.h"

#include <stdlib.h>

enum {
    LANES = 2,            /* threads; each runs its own part of a batch into its own gradient, so a run can be repeated */
    VALID_WINDOWS = 64,
    SAVE_SECONDS = 240,
    TELL_SECONDS = 30,
    STATE_MAGIC = 0x7466742d,
};

struct settings {
    long dim, ffn, layers, heads, kv_heads, vocab, context; /* in the order of struct shape */
    long batch;                                             /* windows of `context` tokens per step */
    long steps, warmup, seed;
    double rate; /* the highest; see rate_at */
    double clip; /* norm of the gradient */
};

static const struct setting {
    const char *name;
    size_t at;
    bool real;
} settings[] = {
#define INTEGER(name) {#name, offsetof(struct settings, name), false}
    INTEGER(dim), INTEGER(ffn), INTEGER(layers), INTEGER(heads), INTEGER(kv_heads), INTEGER(vocab), INTEGER(context),
    INTEGER(batch), INTEGER(steps), INTEGER(warmup), INTEGER(seed),
    {"rate", offsetof(struct settings, rate), true}, {"clip", offsetof(struct settings, clip), true},
#undef INTEGER
};

struct lane {
    struct tape *tape;
    float *grad; /* [params] */
    uint16_t *token;
    struct target *target;
    double loss;
};

struct training {
    struct settings set;
    struct shape shape;
    struct corpus corpus, valid;
    struct optim optim;
    struct lane lane[LANES];
    float *flat; /* [params] */
    const char *path;
    char state_path[1024], tmp_path[1040];
    double entropy; /* of the validation targets, per token */
};

static void set(struct settings *s, const char *arg)
{
    size_t len = strcspn(arg, "=");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (strlen(settings[i].name) != len || strncmp(settings[i].name, arg, len))
            continue;
        void *at = (char *)s + settings[i].at;
        if (settings[i].real)
            *(double *)at = atof(arg + len + 1);
        else
            *(long *)at = atol(arg + len + 1);
        return;
    }
    die("no setting is called %.*s", (int)len, arg);
}

static void fill_normal(float *x, size_t n, float deviation, uint64_t *random)
{
    for (size_t i = 0; i < n; i++)
        x[i] = deviation * random_normal(random);
}

/* Matrices that write to the residual stream start at 0: a layer begins as nothing and grows. */
static void initialize(struct training *t)
{
    const struct shape *s = &t->shape;
    struct params w = params_at(s, t->flat);
    size_t d = (size_t)s->dim, n = (size_t)s->layers, kv = (size_t)kv_dim(s);
    uint64_t random = (uint64_t)t->set.seed;
    float deviation = 0.5f / sqrtf((float)d);
    fill_normal(w.embed, (size_t)s->vocab * d, 0.05f, &random);
    fill_normal(w.wq, n * d * d, deviation, &random);
    fill_normal(w.wk, n * d * kv, deviation, &random);
    fill_normal(w.wv, n * d * kv, deviation, &random);
    fill_normal(w.gate, n * d * (size_t)s->ffn, deviation, &random);
    fill_normal(w.up, n * d * (size_t)s->ffn, deviation, &random);
    for (size_t i = 0; i < n * d; i++)
        w.att_norm[i] = w.ffn_norm[i] = 1;
    for (size_t i = 0; i < d; i++)
        w.out_norm[i] = 1;
}

/* ---- state on disk: magic, step, settings, parameters, m, v */

static void save(struct training *t)
{
    int magic = STATE_MAGIC;
    size_t bytes = t->optim.n * sizeof(float);
    FILE *f = open_file(t->tmp_path, "wb");
    write_all(f, &magic, sizeof magic, t->tmp_path);
    write_all(f, &t->optim.step, sizeof t->optim.step, t->tmp_path);
    write_all(f, &t->set, sizeof t->set, t->tmp_path);
    write_all(f, t->flat, bytes, t->tmp_path);
    write_all(f, t->optim.m, bytes, t->tmp_path);
    write_all(f, t->optim.v, bytes, t->tmp_path);
    if (fclose(f) || rename(t->tmp_path, t->state_path))
        die("%s: cannot be written", t->state_path);
    checkpoint_write(&t->shape, t->flat, t->path);
}

static void resume(struct training *t)
{
    FILE *f = fopen(t->state_path, "rb");
    if (!f)
        return;
    int magic;
    struct settings set;
    size_t bytes = t->optim.n * sizeof(float);
    read_all(f, &magic, sizeof magic, t->state_path);
    read_all(f, &t->optim.step, sizeof t->optim.step, t->state_path);
    read_all(f, &set, sizeof set, t->state_path);
    set.steps = t->set.steps;
    if (magic != STATE_MAGIC || memcmp(&set, &t->set, sizeof set))
        die("%s: belongs to other settings", t->state_path);
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
    struct params w = params_at(&t->shape, t->flat);
    int context = t->shape.context;
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
    struct params w = params_at(&t->shape, t->flat);
    int context = t->shape.context;
    size_t n = t->optim.n;
    double loss = 0;
    float *sum = t->lane[0].grad;
#pragma omp parallel for num_threads(LANES) schedule(static)
    for (int lane = 0; lane < LANES; lane++) {
        struct lane *l = &t->lane[lane];
        struct params g = params_at(&t->shape, l->grad);
        memset(l->grad, 0, n * sizeof *l->grad);
        l->loss = 0;
        for (long i = lane; i < t->set.batch; i += LANES) {
            uint64_t random = ((uint64_t)t->set.seed << 48) + (uint64_t)t->optim.step * (uint64_t)t->set.batch + (uint64_t)i;
            random_bits(&random);
            corpus_window(&t->corpus, &random, l->token, l->target, context);
            llama_forward(l->tape, &w, l->token, context);
            l->loss += llama_loss(l->tape, &w, &g, 1 / (float)(t->set.batch * context), l->token, l->target, context);
        }
    }
    for (int lane = 0; lane < LANES; lane++)
        loss += t->lane[lane].loss;
    for (int lane = 1; lane < LANES; lane++)
        for (size_t i = 0; i < n; i++)
            sum[i] += t->lane[lane].grad[i];
    return loss / (double)(t->set.batch * context);
}

static float clip(float *grad, size_t n, double limit)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)grad[i] * (double)grad[i];
    double norm = sqrt(sum);
    if (norm > limit)
        for (size_t i = 0; i < n; i++)
            grad[i] *= (float)(limit / norm);
    return (float)norm;
}

/* Up, level, and in the last third of the steps straight down to 0: a run that is not falling yet can go on to another number
   of steps as if it had had that from the start. */
static float rate_at(const struct settings *s, long step)
{
    double rise = (double)(step + 1) / (double)s->warmup, fall = 3 * (double)(s->steps - step) / (double)s->steps;
    return (float)(s->rate * fmin(1, fmin(rise, fall)));
}

static void train(struct training *t)
{
    const struct settings *s = &t->set;
    double start = seconds(), told = start, saved = start, loss = 0, norm = 0;
    long from = t->optim.step, counted = 0;
    while (t->optim.step < s->steps) {
        loss += run_batch(t);
        norm += (double)clip(t->lane[0].grad, t->optim.n, s->clip);
        counted++;
        optim_step(&t->optim, t->flat, t->lane[0].grad, rate_at(s, t->optim.step));
        double now = seconds();
        bool last = t->optim.step == s->steps;
        if (now - told > TELL_SECONDS || last) {
            double per_step = (now - start) / (double)(t->optim.step - from);
            fprintf(stderr, "step %ld of %ld, loss %.4f, gradient %.3f, rate %.5f, %.0f tokens/s, %.0f min left\n", t->optim.step,
                    s->steps, loss / (double)counted, norm / (double)counted, (double)rate_at(s, t->optim.step),
                    (double)(s->batch * s->context) / per_step, per_step * (double)(s->steps - t->optim.step) / 60);
            told = now;
            loss = norm = 0;
            counted = 0;
        }
        if (now - saved > SAVE_SECONDS || last) {
            double valid = validate(t);
            fprintf(stderr, "step %ld, validation %.4f nats per token, of which the teacher's own %.4f, divergence %.4f\n",
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
        l->tape = tape_open(&t->shape);
        l->grad = take(t->optim.n, sizeof *l->grad);
        l->token = take((size_t)t->shape.context, sizeof *l->token);
        l->target = take((size_t)t->shape.context, sizeof *l->target);
    }
}

int main(int argc, char **argv)
{
    struct training *t = take(1, sizeof *t);
    t->set = (struct settings){.dim = 128, .ffn = 384, .layers = 8, .heads = 4, .kv_heads = 2, .vocab = 2944, .context = 512,
                               .batch = 16, .steps = 10000, .warmup = 100, .seed = 1, .rate = 0.01, .clip = 1};
    int files = 0;
    for (int i = 1; i < argc; i++) {
        if (strchr(argv[i], '='))
            set(&t->set, argv[i]);
        else if (files++ == 0)
            t->path = argv[i];
        else
            corpus_add(files == 2 ? &t->valid : &t->corpus, argv[i]);
    }
    if (files < 3)
        die("usage: teach-train OUT VALIDATION CORPUS... [NAME=VALUE...]");
    const struct settings *s = &t->set;
    t->shape = (struct shape){(int)s->dim, (int)s->ffn, (int)s->layers, (int)s->heads, (int)s->kv_heads, (int)s->vocab, (int)s->context};
    snprintf(t->state_path, sizeof t->state_path, "%s.state", t->path);
    snprintf(t->tmp_path, sizeof t->tmp_path, "%s.tmp", t->state_path);
    optim_open(&t->optim, &t->shape);
    open_lanes(t);
    t->flat = take(t->optim.n, sizeof *t->flat);
    initialize(t);
    resume(t);
    fprintf(stderr, "%zu parameters, %zu stories of %zu tokens, %zu to validate\n", t->optim.n, t->corpus.n, t->corpus.tokens,
            t->valid.n);
    train(t);
    return 0;
}
