#include "tools/quantize/quantize.h"

#include <string.h>

#include "tools/quantize/convert/convert.h"
#include "tools/quantize/convert/few_bits.h"
#include "tools/quantize/convert/runs.h"

/* Calls o->outputs with the float model's residual stream. */
static void give_outputs(struct conversion *c, uint32_t l)
{
    if (c->o->outputs)
        c->o->outputs(c->o->outputs_user, l, c->exact ? c->exact : c->y.text, c->y.stride);
}

static void put_layer(struct conversion *c, uint32_t l)
{
    bool data = c->file.pass == WRITE_DATA;
    const struct write_factors factors = {c->fold.factor[TFT_IN_ATTN], c->fold.factor[TFT_IN_FFN],
                                          c->fold.values};
    if (data)
        convert_prepare(c, l);
    if (data && !conversion_failed(c) && c->low_bits && conversion_has_own_weights(c->m, l))
        few_bits_round(c, l);
    if (data && !conversion_failed(c))
        give_outputs(c, l);
    if (!conversion_failed(c) && conversion_has_own_weights(c->m, l))
        write_layer(&c->file, l, &factors, conversion_rounded(c, l));
    if (!data)
        return;
    if (!conversion_failed(c) && c->low_bits)
        few_bits_run(c, l);
    convert_leave(c, l);
}

static void put_head(struct conversion *c)
{
    if (c->file.pass == WRITE_DATA) {
        c->stats.untransformed = true; /* the head's input is neither smoothed nor rotated */
        input_stats_begin(&c->stats, NULL); /* the last layer may lack a half */
        layers_run_head(&c->y);
        if (!conversion_failed(c))
            runs_finish_input(c, c->m->n_layer * TFT_LAYER_INPUTS);
    }
    if (!conversion_failed(c))
        write_head(&c->file);
}

/* The last pass makes the layers, too. */
static void put_tensors(struct conversion *c, enum write_pass pass)
{
    write_start_pass(&c->file, pass);
    write_embedding(&c->file);
    for (uint32_t l = 0; l < c->m->n_layer && !conversion_failed(c); l++)
        put_layer(c, l);
    if (!conversion_failed(c) && c->m->encoder)
        write_others(&c->file);
    if (!conversion_failed(c) && !c->m->encoder)
        put_head(c);
    if (!conversion_failed(c) && !c->m->encoder)
        write_predictors(&c->file);
    if (!conversion_failed(c))
        write_prefix(&c->file, c->prefix_k, c->prefix_v);
    if (!conversion_failed(c) && pass == WRITE_DATA)
        key_importance_finish(&c->importance);
    if (!conversion_failed(c))
        write_importance(&c->file, c->m->n_kv_layer ? c->importance.importance : NULL);
    if (!conversion_failed(c))
        write_kv_calibration(&c->file, &c->kv);
}

static void convert(struct conversion *c)
{
    put_tensors(c, WRITE_COUNT);
    write_values(&c->file);
    put_tensors(c, WRITE_DESCRIPTIONS);
    put_tensors(c, WRITE_DATA);
    if (conversion_failed(c))
        return;
    if (c->m->encoder) /* no head: an input that nothing reads */
        c->result[c->m->n_layer * TFT_LAYER_INPUTS].affine.scale = 1;
    write_inputs(&c->file, c->result);
    conversion_progress(c, 1);
}

enum tft_status quantize_temp(struct tft_model *m, const char *path, const struct quantize_opts *o,
                              struct quantize_input *result, struct tft_new_file **temp,
                              bool *stopped, struct tft_error *err)
{
    struct conversion c = {
        .m = m, .o = o, .result = result, .low_bits = quantize_low_bits(o, 0, m->n_layer)};
    enum tft_status status = quantize_check(m, o, err);
    *stopped = false;
    *temp = NULL;
    if (status == TFT_OK)
        status = convert_open(&c, err);
    if (status != TFT_OK)
        return status;
    memset(result, 0, tft_model_inputs(m) * sizeof *result);
    write_open(&c.file, &c.y, c.kv.value_order, path, &c.bad);
    if (!conversion_failed(&c))
        convert(&c);
    write_close(&c.file, conversion_failed(&c) ? NULL : temp);
    return convert_close(&c, stopped, err);
}

enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o,
                         struct quantize_input *result, bool *stopped, struct tft_error *err)
{
    struct tft_new_file *temp;
    enum tft_status status = quantize_temp(m, path, o, result, &temp, stopped, err);
    return temp ? tft_new_file_end(temp, true, err) : status;
}
