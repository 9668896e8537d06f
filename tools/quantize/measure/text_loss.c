#include "tools/quantize/measure/text_loss.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/exp_log.h"
#include "run/pass.h"

/* Rows of the head expanded to floats at a time: 4 MiB if D is 2048. */
enum { BLOCK = 512 };

/* Sums over the logits that follow a token, over the blocks so far: the largest logit, and its
   index; the sum of e^(logit - max); the same with each term times (logit - the other model's); and
   the logit of the text's next token. */
struct text_loss_token {
    double max, sum, cross, next;
    uint32_t best;
};

/* Rows first .. first + rows - 1 of the head, for n tokens. */
struct head_block {
    const struct text_loss *loss;
    const struct layers *y;
    const int32_t *next; /* [n] the token that follows each of the n */
    const float *const *other; /* [n] another model's logits; NULL: there is none */
    uint32_t n, first, rows;
};

/* Logits of the block. */
static void multiply(void *arg, int tid, int n_threads)
{
    const struct head_block *b = arg;
    const struct tft_model *m = b->y->m;
    struct tft_pass p = {
        .m = m, .work = b->y->s->work, .tid = tid, .n_threads = n_threads};
    size_t begin, end;
    tft_pass_share(&p, b->rows, &begin, &end);
    float *rows = b->loss->rows + begin * m->n_embd;
    layers_rows(b->y, &m->output.w, b->first + (uint32_t)begin, (uint32_t)(end - begin), rows);
    m->kern.gemm[TFT_NUM_F32](&(struct tft_gemm){
        .y = b->loss->logits + begin,
        .ldy = BLOCK,
        .x = tft_pass_row(&p, TFT_XN, 0),
        .ldx = tft_pass_stride(&p, TFT_XN),
        .w = rows,
        .bias = m->output.bias ? m->output.bias + b->first + begin : NULL,
        .M = b->n,
        .N = end - begin,
        .K = m->n_embd,
    });
    for (uint32_t i = 0; i < b->n && begin < end; i++)
        tft_model_finish_logits(m, b->loss->logits + (size_t)i * BLOCK + begin, end - begin);
}

/* logit: [n] of the tokens from `first` on; other: [V], or NULL */
static void add_logits(struct text_loss_token *t, const float *logit, const float *other,
                       uint32_t first, uint32_t n)
{
    double max = t->max;
    for (uint32_t i = 0; i < n; i++)
        if ((double)logit[i] > max) {
            max = (double)logit[i];
            t->best = first + i;
        }
    if (max > t->max) {
        double fewer = tft_exp(t->max - max);
        t->sum *= fewer;
        t->cross *= fewer;
    }
    t->max = max;
    for (uint32_t i = 0; i < n; i++) {
        double e = tft_exp((double)logit[i] - max);
        t->sum += e;
        if (other)
            t->cross += e * ((double)logit[i] - (double)other[first + i]);
    }
}

static void add_block(void *arg, int tid, int n_threads)
{
    const struct head_block *b = arg;
    for (uint32_t i = (uint32_t)tid; i < b->n; i += (uint32_t)n_threads) {
        const float *logit = b->loss->logits + (size_t)i * BLOCK;
        uint32_t next = (uint32_t)b->next[i] - b->first;
        add_logits(&b->loss->token[i], logit, b->other ? b->other[i] : NULL, b->first, b->rows);
        if (next < b->rows)
            b->loss->token[i].next = (double)logit[next];
    }
}

/* Goes through the head's rows for the tokens of b, with the residual stream x. */
static void run_head(struct head_block *b, float *x)
{
    const struct layers *y = b->y;
    for (uint32_t i = 0; i < b->n; i++)
        b->loss->token[i] = (struct text_loss_token){.max = -INFINITY};
    layers_run_pass(y, &(struct layers_pass){.part = LAYERS_HEAD, .x = x, .n = b->n});
    for (; b->first < y->m->n_vocab; b->first += b->rows) {
        b->rows = y->m->n_vocab - b->first < BLOCK ? y->m->n_vocab - b->first : BLOCK;
        tft_port_team(y->s->n_threads, multiply, b);
        tft_port_team(y->s->n_threads, add_block, b);
    }
}

double text_loss_mean(const struct text_loss *t, const struct layers *y, float *x,
                      const int32_t *tokens, uint32_t n)
{
    struct head_block b = {.loss = t, .y = y, .next = tokens + 1, .n = n - 1};
    double sum = 0;
    if (n < 2)
        return 0;
    run_head(&b, x);
    for (uint32_t i = 0; i < b.n; i++)
        sum += tft_log(t->token[i].sum) + t->token[i].max - t->token[i].next;
    return sum / b.n;
}

struct pairs_task {
    const struct head_block *b;
    struct text_pair *each;
};

static void finish_pairs(void *arg, int tid, int n_threads)
{
    const struct pairs_task *p = arg;
    uint32_t vocab = p->b->y->m->n_vocab;
    for (uint32_t i = (uint32_t)tid; i < p->b->n; i += (uint32_t)n_threads) {
        const struct text_loss_token *f = &p->b->loss->token[i];
        struct text_loss_token q = {.max = -INFINITY};
        const float *other = p->b->other[i];
        add_logits(&q, other, NULL, 0, vocab);
        double log_p = tft_log(f->sum) + f->max, log_q = tft_log(q.sum) + q.max;
        p->each[i] = (struct text_pair){
            .floats = log_p - f->next,
            .other = log_q - (double)other[p->b->next[i]],
            .divergence = f->cross / f->sum - log_p + log_q,
            .same = f->best == q.best,
        };
    }
}

void text_loss_pairs(const struct text_loss *t, const struct layers *y, float *x,
                     const int32_t *next, const float *const *other, uint32_t n,
                     struct text_pair *each)
{
    struct head_block b = {.loss = t, .y = y, .next = next, .other = other, .n = n};
    run_head(&b, x);
    tft_port_team(y->s->n_threads, finish_pairs, &(struct pairs_task){&b, each});
}

bool text_loss_open(struct text_loss *t, const struct tft_model *m, uint32_t n)
{
    size_t rows, logits;
    *t = (struct text_loss){0};
    if (!tft_mul(BLOCK * sizeof(float), m->n_embd, &rows) ||
        !tft_mul(BLOCK * sizeof(float), n, &logits))
        return false;
    t->rows = tft_port_alloc(rows, 64);
    t->logits = tft_port_alloc(logits, 64);
    t->token = malloc(n * sizeof *t->token);
    if (t->rows && t->logits && t->token)
        return true;
    text_loss_close(t);
    return false;
}

void text_loss_close(struct text_loss *t)
{
    tft_port_free(t->rows);
    tft_port_free(t->logits);
    free(t->token);
    *t = (struct text_loss){0};
}
