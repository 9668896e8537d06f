#include "lossy.h"

#include "quantize.h"

uint32_t lossy_shown(const struct lossy *l)
{
    return l->n < LOSSY_SHOWN ? l->n : LOSSY_SHOWN;
}

void lossy_add(struct lossy *l, struct lossy_input input)
{
    l->inputs++;
    if (!(input.error > LOSSY))
        return;
    uint32_t at = lossy_shown(l);
    if (at == LOSSY_SHOWN)
        at--; /* the last one is given up if it is the least */
    if (l->n < LOSSY_SHOWN || input.error > l->worst[at].error) {
        for (; at > 0 && input.error > l->worst[at - 1].error; at--)
            l->worst[at] = l->worst[at - 1];
        l->worst[at] = input;
    }
    l->n++;
}

double lossy_min(const struct lossy_input *input)
{
    return -input->affine.zero * (double)input->affine.scale;
}

double lossy_max(const struct lossy_input *input)
{
    return (255 - input->affine.zero) * (double)input->affine.scale;
}

void lossy_print(FILE *f, const struct lossy *l, uint32_t n_layer)
{
    char name[64];
    if (l->n)
        fprintf(f, "%u of %u static inputs lose more than %.0f %% of their power to 8 bits:\n",
                l->n, l->inputs, 100 * LOSSY);
    for (uint32_t i = 0; i < lossy_shown(l); i++) {
        const struct lossy_input *input = &l->worst[i];
        fprintf(f, "  %-22s %5.1f %%   range %.4g .. %.4g\n",
                quantize_input_name(n_layer, input->index, name), 100 * input->error,
                lossy_min(input), lossy_max(input));
    }
}
