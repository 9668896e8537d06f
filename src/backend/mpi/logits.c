/*
 * Messages with the largest logits. Each process has the logits of a part of the vocabulary. A
 * sampler needs the k largest of all logits (run/likely.h), which are among the k largest of each
 * process. So each process sends its k largest, and the sum of the weights of its other logits.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "run/session.h"

/* The message of a process. */
struct likeliest {
    float best;               /* the process's largest logit */
    double rest;              /* the sum of exp((x - best) / temperature) of the other logits x */
    struct tft_candidate c[]; /* [k] the largest logits */
};

size_t tft_mpi_likeliest_bytes(size_t k)
{
    return sizeof(struct likeliest) + k * sizeof(struct tft_candidate);
}

/* A candidate has 8 bytes and a logit 4. With at most a quarter of the logits, a message has at
   most half the bytes of all logits. */
enum tft_status tft_mpi_make_room(struct part *part, struct tft_error *err)
{
    const uint32_t *ends = part->vocab_ends;
    part->most = part->link.size > 1 ? ends[0] / 4 : 0; /* one process sends nothing */
    for (int r = 1; r < part->link.size; r++) {
        size_t most = (ends[r] - ends[r - 1]) / 4;
        part->most = most < part->most ? most : part->most;
    }
    part->likeliest = malloc(tft_mpi_likeliest_bytes(part->most));
    return part->likeliest ? TFT_OK : tft_fail(err, TFT_ERR_NOMEM, "mpi: out of memory");
}

/* The width that gives the first layer of tft_likely, of 4 widths, about 2 k candidates. The
   largest logits of the n blocks roughly follow a Gumbel distribution, with mu and beta from their
   mean and variance. Then n exp(-(x - mu) / beta) logits are above x. Another width would give the
   same logits in more time. */
static float width_of_layer(const struct tft_likely *l, size_t k)
{
    size_t n = tft_likely_layers(l->n);
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)l->best - (double)l->tops[i];
        mean += d / (double)n;
        square += d * d / (double)n;
    }
    double beta = 0.78 * sqrt(fmax(square - mean * mean, 0));
    float width = (float)(mean + beta * (0.577 + log(2 * (double)k / (double)n))) / 4;
    return width > 0 ? width : 1;
}

/* If a logit is NaN, a process sends NaN: the pass fails in process 0, as it would without other
   processes. */
void tft_mpi_send_likeliest(struct part *part, struct tft_session *s, const struct tft_asked *a)
{
    struct likeliest *to = part->likeliest;
    const float *x = s->out.logits;
    float *chosen = s->work->penalized; /* [k] free: tft_sample never sees this session */
    struct tft_likely l = {.kern = &s->m->kern,
                           .logits = x,
                           .n = s->m->n_vocab,
                           .c = s->work->candidates,
                           .tops = s->work->tops,
                           .unit = 1};
    bool good = tft_are_numbers(x, l.n);
    tft_likely_begin(&l);
    l.unit = good ? width_of_layer(&l, a->k) : 1;
    for (size_t i = 0; i < a->k; i++) {
        chosen[i] = good && tft_likely_has(&l, i) ? l.c[i].logit : NAN;
        to->c[i] = (struct tft_candidate){chosen[i], (int32_t)part->vocab.from};
        to->c[i].id += good ? l.c[i].id : 0;
    }
    to->best = l.best;
    to->rest = good && a->inverse > 0 ? l.kern->sum_exp(x, l.n, l.best, a->inverse) -
                                            l.kern->sum_exp(chosen, a->k, l.best, a->inverse)
                                      : 0;
    tft_mpi_send(&part->link, to, tft_mpi_likeliest_bytes(a->k));
}

/* exp((from - to) / temperature): turns weights relative to the logit `from` into weights relative
   to `to` >= `from`. */
static double rescale(float from, float to, float inverse)
{
    return from == to ? 1 : exp(((double)from - (double)to) * (double)inverse);
}

void tft_mpi_take_likeliest(struct part *part, struct tft_session *own, const struct tft_asked *a,
                            struct tft_session *caller, float *row)
{
    struct likeliest *from = part->likeliest;
    uint32_t n_vocab = caller->m->n_vocab, n_own = part->vocab_ends[0];
    float best = -FLT_MAX;
    double rest = 0; /* relative to `best` */
    memcpy(row, own->out.logits, n_own * sizeof *row);
    own->m->kern.tops(own->work->tops, row, n_own);
    for (size_t i = 0; i < tft_likely_layers(n_own); i++)
        best = own->work->tops[i] > best ? own->work->tops[i] : best;
    for (uint32_t i = n_own; i < n_vocab; i++)
        row[i] = -FLT_MAX;
    for (int r = 1; r < part->link.size; r++) {
        tft_mpi_receive(&part->link, r, from, tft_mpi_likeliest_bytes(a->k));
        if (part->link.error)
            return;
        for (size_t i = 0; i < a->k; i++)
            row[from->c[i].id] = from->c[i].logit;
        float larger = from->best > best ? from->best : best;
        rest = rest * rescale(best, larger, a->inverse) +
               fmax(from->rest, 0) * rescale(from->best, larger, a->inverse);
        best = larger;
    }
    caller->out.rest = rest;
}
