#include "tools/quantize/measure/text_loss.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { BLOCK = 512 }; /* rows of the head that are floats at a time, 4 MiB of a model of 2048
                         numbers a token */

/* Of the logits that follow a token, so far: the largest, the sum of e^(logit - max), and that of
   the token that does follow. */
struct text_loss_token {
    double max, sum, next;
};

/* Rows first .. first + rows - 1 of the head, and the logits that they make of n tokens. */
struct block {
    const struct text_loss *g;
    const struct layers *y;
    const int32_t *next; /* [n] the token that follows each */
    uint32_t n, first, rows;
};

static void multiply(void *arg, int tid, int n_threads)
{
    const struct block *b = arg;
    const struct tft_model *m = b->y->m;
    struct tft_pass p = {.m = m, .s = b->y->s, .tid = tid, .n_threads = n_threads};
    size_t begin, end;
    tft_pass_share(&p, b->rows, &begin, &end);
    float *rows = b->g->rows + begin * m->n_embd;
    layers_rows(b->y, &m->output.w, b->first + (uint32_t)begin, (uint32_t)(end - begin), rows);
    m->kern.gemm[TFT_NUM_F32](&(struct tft_gemm){
        .y = b->g->logits + begin,
        .ldy = BLOCK,
        .x = tft_pass_row(&p, TFT_H, 0),
        .ldx = tft_pass_stride(&p, TFT_H),
        .w = rows,
        .M = b->n,
        .N = end - begin,
        .K = m->n_embd,
    });
}

static void add_logits(struct text_loss_token *t, const float *logit, uint32_t n)
{
    double max = t->max;
    for (uint32_t i = 0; i < n; i++)
        if ((double)logit[i] > max)
            max = (double)logit[i];
    if (max > t->max)
        t->sum *= exp(t->max - max);
    t->max = max;
    for (uint32_t i = 0; i < n; i++)
        t->sum += exp((double)logit[i] - max);
}

static void add_block(void *arg, int tid, int n_threads)
{
    const struct block *b = arg;
    for (uint32_t i = (uint32_t)tid; i < b->n; i += (uint32_t)n_threads) {
        const float *logit = b->g->logits + (size_t)i * BLOCK;
        uint32_t next = (uint32_t)b->next[i] - b->first;
        add_logits(&b->g->token[i], logit, b->rows);
        if (next < b->rows)
            b->g->token[i].next = (double)logit[next];
    }
}

double text_loss_mean(const struct text_loss *g, const struct layers *y, float *x,
                      const int32_t *tokens, uint32_t n)
{
    struct block b = {.g = g, .y = y, .next = tokens + 1, .n = n - 1};
    double sum = 0;
    if (n < 2)
        return 0;
    for (uint32_t i = 0; i < b.n; i++)
        g->token[i] = (struct text_loss_token){.max = -INFINITY};
    layers_run_pass(y, &(struct layers_pass){.part = LAYERS_HEAD, .x = x, .n = b.n});
    for (; b.first < y->m->n_vocab; b.first += b.rows) {
        b.rows = y->m->n_vocab - b.first < BLOCK ? y->m->n_vocab - b.first : BLOCK;
        tft_port_team(y->s->n_threads, multiply, &b);
        tft_port_team(y->s->n_threads, add_block, &b);
    }
    for (uint32_t i = 0; i < b.n; i++)
        sum += log(g->token[i].sum) + g->token[i].max - g->token[i].next;
    return sum / b.n;
}

bool text_loss_open(struct text_loss *g, const struct tft_model *m, uint32_t n)
{
    size_t rows, logits;
    *g = (struct text_loss){0};
    if (!tft_mul(BLOCK * sizeof(float), m->n_embd, &rows) ||
        !tft_mul(BLOCK * sizeof(float), n, &logits))
        return false;
    g->rows = tft_port_alloc(rows, 64);
    g->logits = tft_port_alloc(logits, 64);
    g->token = malloc(n * sizeof *g->token);
    if (g->rows && g->logits && g->token)
        return true;
    text_loss_close(g);
    return false;
}

void text_loss_close(struct text_loss *g)
{
    tft_port_free(g->rows);
    tft_port_free(g->logits);
    free(g->token);
    *g = (struct text_loss){0};
}
