/* Quantized folders that are not read: by the method that config.json names, and by tensors that
   are part of the model's formula. */
#include "quantized_config.h"

#include <string.h>

#include "matrix.h"
#include "names.h"

const json_t *import_quantization(const struct import_folder *f)
{
    static const char *const names[] = {"quantization_config", "compression_config"};
    const json_t *text = json_object_get(f->config, "text_config"), *from[] = {f->config, text};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++) {
            const json_t *q = json_object_get(from[k], names[i]);
            if (json_is_object(q))
                return q;
        }
    return NULL;
}

static const char *text(const json_t *object, const char *name)
{
    const char *s = json_string_value(json_object_get(object, name));
    return s ? s : "";
}

static bool is_one_of(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; n && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* A reason why the method's weights are not read; NULL: there is none. */
typedef const char *reason(const json_t *q);

/* Transforms of inputs, outputs and caches are work of each token; on weights they are done. */
static bool has_transforms(const json_t *q)
{
    const char *name;
    json_t *group, *apply;
    size_t i;
    json_object_foreach(json_object_get(json_object_get(q, "transform_config"), "config_groups"),
                        name, group)
        json_array_foreach(json_object_get(group, "apply"), i,
                           apply) if (!is_one_of("weight_input weight_output",
                                                 text(apply, "location"))) return true;
    return false;
}

static const char *of_compressed_tensors(const json_t *q)
{
    const char *format = text(q, "format"),
               *sparse = text(json_object_get(q, "sparsity_config"), "format");
    if (is_one_of("marlin-24 sparse-bitmask sparse-24-bitmask", format) ||
        is_one_of("sparse-bitmask sparse-24-bitmask", sparse))
        return "sparse weights";
    return has_transforms(q) ? "transforms of inputs (\"transform_config\")" : NULL;
}

static const char *of_gptq(const json_t *q)
{
    const char *format = text(q, "checkpoint_format"), *type = text(q, "pack_dtype");
    if (!*format)
        format = text(q, "format");
    const json_t *rotation = json_object_get(q, "rotation");
    if ((*format && !is_one_of("gptq gptq_v2", format)) ||
        json_is_true(json_object_get(q, "is_marlin_format")))
        return "another checkpoint_format than \"gptq\" and \"gptq_v2\"";
    if (*type && strcmp(type, "int32") != 0)
        return "words other than int32 (\"pack_dtype\")";
    return rotation && !json_is_null(rotation) && !json_is_false(rotation)
               ? "a transform of inputs (\"rotation\")"
               : NULL;
}

static const char *of_awq(const json_t *q)
{
    const char *version = text(q, "version");
    if ((*version && !is_one_of("gemm GEMM exllama ipex", version)) ||
        strcmp(text(q, "backend"), "llm-awq") == 0)
        return "another version than \"gemm\"";
    return json_is_false(json_object_get(q, "zero_point")) ? "no zero points" : NULL;
}

static const char *of_modelopt(const json_t *q)
{
    const char *algo = text(q, "quant_algo");
    return is_one_of("W4A16_AWQ NVFP4_SVD NVFP4_AWQ", algo) ? "a scaling of inputs" : NULL;
}

static const char *any(const json_t *q)
{
    (void)q;
    return NULL;
}

static const struct {
    const char *name;
    reason *why;
} methods[] = {
    {"compressed-tensors", of_compressed_tensors},
    {"gptq", of_gptq},
    {"awq", of_awq},
    {"fp8", any},
    {"mxfp4", any},
    {"gemma", any},
    {"modelopt", of_modelopt},
    {"modelopt_fp4", of_modelopt},
};

static enum tft_status refuse(const struct import_folder *f, const char *form, const char *why,
                              struct tft_error *err)
{
    return import_error(err, TFT_ERR_UNSUPPORTED,
                        "%s: its weights are quantized by \"%.64s\"%s%s, which is not read: import "
                        "the folder of floats that they come from",
                        f->path, form, why ? " with " : "", why ? why : "");
}

static enum tft_status check_method(const struct import_folder *f, const json_t *q,
                                    struct tft_error *err)
{
    const char *method = text(q, "quant_method");
    if (json_is_true(json_object_get(q, "load_in_4bit")) ||
        json_is_true(json_object_get(q, "load_in_8bit")))
        method = "bitsandbytes";
    /* bitnet's that are quantized as they are read are floats: config.c */
    if (!*method || strcmp(text(q, "quantization_mode"), "online") == 0)
        return TFT_OK;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, method) == 0) {
            const char *why = methods[i].why(q);
            return why ? refuse(f, method, why, err) : TFT_OK;
        }
    return refuse(f, method, NULL, err);
}

/* ---- tensors */

/* A range of outputs: a clamp after the product, which the model was trained with. Old folders
   have the cache's scales under the same name. 0 stands for no range. */
static bool is_output(const struct by_name *e, bool caches)
{
    const struct safetensor *t = e->tensor;
    struct import_part p = {t, e->shard->data + t->offset, e->shard};
    bool of_cache = caches && (import_ends(t->name, "k_proj.output_scale") ||
                               import_ends(t->name, "v_proj.output_scale"));
    return (import_ends(t->name, ".output_scale") ||
            import_ends(t->name, ".output_activation_scale")) &&
           !of_cache && t->floats && t->bytes && import_part_number(&p) != 0;
}

enum tft_status import_quantized_check(const struct import_folder *f, struct tft_error *err)
{
    const json_t *q = import_quantization(f);
    bool caches = json_is_object(json_object_get(q, "kv_cache_scheme"));
    enum tft_status status = check_method(f, q, err);
    for (size_t i = 0; i < f->n_tensor && status == TFT_OK; i++) {
        const char *name = f->by_name[i].tensor->name;
        if (import_not_needed(name))
            continue;
        if (import_ends(name, ".SCB") || import_ends(name, ".weight.absmax"))
            status = refuse(f, "bitsandbytes", NULL, err);
        else if (import_ends(name, ".pre_quant_scale"))
            status = refuse(f, "modelopt", "a scaling of inputs (pre_quant_scale)", err);
        else if (q && is_output(&f->by_name[i], caches))
            status =
                import_error(err, TFT_ERR_UNSUPPORTED,
                             "%s: \"%s\": a static range of outputs is not supported: "
                             "--ignore-key quantization_config leaves such ranges out",
                             f->path, name);
    }
    return status;
}

/* ---- inputs */

/* Whether a group of compressed-tensors has inputs of int8. */
static bool has_int8_inputs(const json_t *group)
{
    const json_t *inputs = json_object_get(group, "input_activations");
    uint64_t bits = 8;
    import_json_whole(json_object_get(inputs, "num_bits"), 64, &bits);
    const char *type = text(inputs, "type");
    return json_is_object(inputs) && bits == 8 && (!*type || strcmp(type, "int") == 0);
}

bool import_quantized_inputs(const struct import_folder *f)
{
    bool by_row = false;
    const char *name;
    json_t *group;
    for (size_t i = 0; i < f->n_matrix; i++) {
        const struct import_matrix *m = &f->matrix[i];
        bool whole = m->form == IMPORT_INT8 || m->form == IMPORT_PACKED;
        if (whole && m->input.t)
            return true;
        by_row |= whole && m->across == 1;
    }
    json_object_foreach(json_object_get(import_quantization(f), "config_groups"), name, group)
        if (has_int8_inputs(group) && by_row)
            return true;
    return false;
}
