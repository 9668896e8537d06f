#include "tools/quantize/measure/worst_inputs.h"

#include "tools/quantize/inputs.h"

uint32_t worst_inputs_shown(const struct worst_inputs *w)
{
    return w->n < WORST_INPUTS_SHOWN ? w->n : WORST_INPUTS_SHOWN;
}

void worst_inputs_add(struct worst_inputs *w, struct input_error input)
{
    w->inputs++;
    if (!(input.error > WORST_INPUTS_ERROR))
        return;
    uint32_t at = worst_inputs_shown(w);
    if (at == WORST_INPUTS_SHOWN)
        at--; /* the table is full: the new error may replace the last one */
    if (w->n < WORST_INPUTS_SHOWN || input.error > w->worst[at].error) {
        for (; at > 0 && input.error > w->worst[at - 1].error; at--)
            w->worst[at] = w->worst[at - 1];
        w->worst[at] = input;
    }
    w->n++;
}

double input_error_min(const struct input_error *input)
{
    return -input->affine.zero * (double)input->affine.scale;
}

double input_error_max(const struct input_error *input)
{
    return (255 - input->affine.zero) * (double)input->affine.scale;
}

void worst_inputs_print(struct sink *to, const struct worst_inputs *w, uint32_t n_layer)
{
    char name[64];
    if (w->n)
        sink_print(to, "%u of %u static inputs lose more than %.0f %% of their power to 8 bits:\n",
                w->n, w->inputs, 100 * WORST_INPUTS_ERROR);
    for (uint32_t i = 0; i < worst_inputs_shown(w); i++) {
        const struct input_error *input = &w->worst[i];
        sink_print(to, "  %-22s %5.1f %%   range %.4g .. %.4g\n",
                quantize_input_name(n_layer, input->index, name), 100 * input->error,
                input_error_min(input), input_error_max(input));
    }
}
