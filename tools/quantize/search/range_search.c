#include "tools/quantize/search/range_search.h"

#include <stdlib.h>

#include "base/error.h"

/* Tokens of text, of which the second halves of windows are scored; most bytes of the reference
   logits; and the least number of blocks measured input by input. */
enum { MEASURED_TOKENS = 1024, MOST_LOGITS = 256 << 20, ONE_BY_ONE = 6 };

struct tft_input *range_search_input(struct tft_model *m, uint32_t index)
{
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
            if (tft_model_has_input(m, i) && tft_input_index(m, l, i) == index)
                return &m->layer[l].in[i];
    return &m->head_in;
}

/* By insertion, as there are only some hundreds of inputs. */
static void sort(struct range_search *r)
{
    for (uint32_t i = 1; i < r->n; i++) {
        uint32_t index = r->order[i], at = i;
        for (; at > 0 && r->nats[r->order[at - 1]] < r->nats[index]; at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = index;
    }
}

static void set_all(struct range_search *r, struct tft_model *m, enum tft_range range)
{
    for (uint32_t i = 0; i < r->n; i++)
        range_search_input(m, r->order[i])->range = range;
}

/* As many tokens as have room for their logits, but at least two windows: one of each kind of
   text. */
static uint32_t tokens_of(const struct tft_model *m, const struct divergence_opts *o)
{
    size_t window = (size_t)o->window / 2 * m->n_vocab * sizeof(float),
           most = MOST_LOGITS / window * o->window;
    return most > MEASURED_TOKENS ? MEASURED_TOKENS
           : most < 2 * o->window ? 2 * o->window
                                  : (uint32_t)most;
}

/* The static inputs of a block. Inputs after the blocks' in the order of the file count as blocks
   of TFT_LAYER_INPUTS: the head, and the inputs of feed-forwards beside experts. */
struct block {
    uint32_t first, n; /* in range_search.order, while it is in the order of the model */
    double nats;       /* their total loss */
    bool one_by_one;
};

/* block: [inputs]. Returns the number of blocks. */
static uint32_t list_blocks(const struct range_search *r, struct block *block)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        if (i == 0 || r->order[i] / TFT_LAYER_INPUTS != r->order[i - 1] / TFT_LAYER_INPUTS)
            block[n++] = (struct block){.first = i};
        block[n - 1].n++;
    }
    return n;
}

/* The total loss of inputs [first, first + n) of the order. */
static double measure(const struct range_search *r, struct tft_model *m, struct divergence *d,
                      uint32_t first, uint32_t n)
{
    if (d->bad->code != TFT_OK || d->stopped)
        return 0;
    for (uint32_t i = first; i < first + n; i++)
        range_search_input(m, r->order[i])->range = TFT_RANGE_STATIC;
    double nats = divergence_measure(d, NULL);
    for (uint32_t i = first; i < first + n; i++)
        range_search_input(m, r->order[i])->range = TFT_RANGE_TOKEN;
    return nats;
}

/* Chooses `most` blocks with the largest losses. */
static void choose_blocks(struct block *block, uint32_t n, uint32_t most)
{
    for (uint32_t k = 0; k < most; k++) {
        uint32_t worst = n;
        for (uint32_t i = 0; i < n; i++)
            if (!block[i].one_by_one && (worst == n || block[i].nats > block[worst].nats))
                worst = i;
        block[worst].one_by_one = true;
    }
}

/* In blocks that were measured as a whole, each kind of input has its share of the loss in the
   blocks that were measured input by input. */
static void share_out(struct range_search *r, const struct block *block, uint32_t n)
{
    double part[TFT_LAYER_INPUTS] = {0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = block[i].first; k < block[i].first + block[i].n; k++)
            if (block[i].one_by_one && block[i].n > 1)
                part[r->order[k] % TFT_LAYER_INPUTS] += r->nats[r->order[k]];
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        uint32_t end = block[i].first + block[i].n;
        for (uint32_t k = block[i].first; k < end; k++)
            sum += part[r->order[k] % TFT_LAYER_INPUTS];
        for (uint32_t k = block[i].first; k < end && !block[i].one_by_one; k++)
            r->nats[r->order[k]] =
                block[i].nats * (sum > 0 ? part[r->order[k] % TFT_LAYER_INPUTS] / sum
                                         : 1.0 / block[i].n);
    }
}

static void measure_all(struct range_search *r, struct tft_model *m, struct divergence *d,
                        struct block *block)
{
    uint32_t windows = divergence_pick(d, DIVERGENCE_ALL, tokens_of(m, &d->o)),
             n = list_blocks(r, block),
             chosen = n / 4 > ONE_BY_ONE ? n / 4 : n < ONE_BY_ONE ? n : ONE_BY_ONE, inputs = 0;
    for (uint32_t i = 0; i < n; i++)
        inputs = block[i].n > inputs ? block[i].n : inputs;
    d->total_work = windows * (1.0 + (chosen < n ? n : 0) + chosen * inputs);
    set_all(r, m, TFT_RANGE_TOKEN);
    divergence_refer(d, NULL);
    for (uint32_t i = 0; i < n && chosen < n; i++)
        block[i].nats = measure(r, m, d, block[i].first, block[i].n);
    choose_blocks(block, n, chosen);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < block[i].n && block[i].one_by_one; k++)
            r->nats[r->order[block[i].first + k]] = measure(r, m, d, block[i].first + k, 1);
    share_out(r, block, n);
    set_all(r, m, TFT_RANGE_STATIC);
}

enum tft_status range_search(struct range_search *r, struct tft_model *m,
                             const struct divergence_opts *o, bool *stopped, struct tft_error *err)
{
    struct tft_error bad = {0};
    struct divergence d;
    uint32_t all = tft_model_inputs(m);
    bool float_inputs = m->float_inputs, float_hidden = m->float_hidden;
    *r = (struct range_search){0};
    *stopped = false;
    r->nats = calloc(all, sizeof *r->nats);
    r->order = malloc(all * sizeof *r->order);
    struct block *block = malloc(all * sizeof *block);
    if (!r->nats || !r->order || !block) {
        free(block);
        range_search_free(r);
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to compare ranges", m->source.name);
    }
    for (uint32_t i = 0; i < all; i++)
        if (range_search_input(m, i)->range == TFT_RANGE_STATIC)
            r->order[r->n++] = i;
    m->float_inputs = m->float_hidden = true; /* sessions have rows of floats */
    divergence_open(&d, m, o, &bad);
    if (bad.code == TFT_OK)
        measure_all(r, m, &d, block);
    m->float_inputs = float_inputs;
    m->float_hidden = float_hidden;
    *stopped = d.stopped;
    divergence_close(&d);
    free(block);
    sort(r);
    if (bad.code != TFT_OK) {
        range_search_free(r);
        if (err)
            *err = bad;
    }
    return bad.code;
}

void range_search_free(struct range_search *r)
{
    free(r->nats);
    free(r->order);
    *r = (struct range_search){0};
}
