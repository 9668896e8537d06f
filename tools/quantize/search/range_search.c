#include "tools/quantize/search/range_search.h"

#include <stdlib.h>

#include "base/error.h"

/* Tokens of text, whose second halves are scored; and bytes of the logits that are compared with. */
enum { MEASURED_TOKENS = 2048, MOST_LOGITS = 256 << 20 };

struct tft_input *range_search_input(struct tft_model *m, uint32_t index)
{
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
            if (tft_model_has_input(m, i) && tft_input_index(m, l, i) == index)
                return &m->block[l].in[i];
    return &m->head_in;
}

/* By insertion: there are some hundreds. */
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

/* As many tokens as have room for their logits, but two windows, one of each kind of text. */
static uint32_t tokens_of(const struct tft_model *m, const struct divergence_opts *o)
{
    size_t window = (size_t)o->window / 2 * m->n_vocab * sizeof(float),
           most = MOST_LOGITS / window * o->window;
    return most > MEASURED_TOKENS ? MEASURED_TOKENS
           : most < 2 * o->window ? 2 * o->window
                                  : (uint32_t)most;
}

static void measure_all(struct range_search *r, struct tft_model *m, struct divergence *d)
{
    uint32_t windows = divergence_pick(d, false, tokens_of(m, &d->o));
    d->total_work = windows * (r->n + 1.0);
    set_all(r, m, TFT_RANGE_TOKEN);
    divergence_refer(d, NULL);
    for (uint32_t i = 0; i < r->n && d->bad->code == TFT_OK && !d->stopped; i++) {
        struct tft_input *in = range_search_input(m, r->order[i]);
        in->range = TFT_RANGE_STATIC;
        r->nats[r->order[i]] = divergence_measure(d, NULL);
        in->range = TFT_RANGE_TOKEN;
    }
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
    if (!r->nats || !r->order) {
        range_search_free(r);
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to compare ranges", m->source.name);
    }
    for (uint32_t i = 0; i < all; i++)
        if (range_search_input(m, i)->range == TFT_RANGE_STATIC)
            r->order[r->n++] = i;
    m->float_inputs = m->float_hidden = true; /* sessions have rows of floats */
    divergence_open(&d, m, o, &bad);
    if (bad.code == TFT_OK)
        measure_all(r, m, &d);
    m->float_inputs = float_inputs;
    m->float_hidden = float_hidden;
    *stopped = d.stopped;
    divergence_close(&d);
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
