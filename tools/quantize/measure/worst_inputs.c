#include "tools/quantize/measure/worst_inputs.h"

#include "tools/quantize/inputs.h"

uint32_t worst_inputs_shown(const struct worst_inputs *l)
{
    return l->n < WORST_INPUTS_SHOWN ? l->n : WORST_INPUTS_SHOWN;
}

void worst_inputs_add(struct worst_inputs *l, struct input_error input)
{
    l->inputs++;
    if (!(input.error > WORST_INPUTS_ERROR))
        return;
    uint32_t at = worst_inputs_shown(l);
    if (at == WORST_INPUTS_SHOWN)
        at--; /* the last one is given up if it is the least */
    if (l->n < WORST_INPUTS_SHOWN || input.error > l->worst[at].error) {
        for (; at > 0 && input.error > l->worst[at - 1].error; at--)
            l->worst[at] = l->worst[at - 1];
        l->worst[at] = input;
    }
    l->n++;
}

double input_error_min(const struct input_error *input)
{
    return -input->affine.zero * (double)input->affine.scale;
}

double input_error_max(const struct input_error *input)
{
    return (255 - input->affine.zero) * (double)input->affine.scale;
}

void worst_inputs_print(FILE *f, const struct worst_inputs *l, uint32_t n_layer)
{
    char name[64];
    if (l->n)
        fprintf(f, "%u of %u static inputs lose more than %.0f %% of their power to 8 bits:\n",
                l->n, l->inputs, 100 * WORST_INPUTS_ERROR);
    for (uint32_t i = 0; i < worst_inputs_shown(l); i++) {
        const struct input_error *input = &l->worst[i];
        fprintf(f, "  %-22s %5.1f %%   range %.4g .. %.4g\n",
                quantize_input_name(n_layer, input->index, name), 100 * input->error,
                input_error_min(input), input_error_max(input));
    }
}
