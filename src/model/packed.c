#include "model/packed.h"

#include "model/keys.h"

static void check_version(struct tft_load *ld, const struct tft_value *v)
{
    uint64_t version;
    if (v->is_array || !tft_value_uint(v, 0, &version))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not an integer", TFT_KEY_PACKED);
    else if (version != TFT_PACKED_VERSION)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "packed weights of version %llu; this program reads version %d: pack the "
                      "original file again",
                      (unsigned long long)version, TFT_PACKED_VERSION);
    else if (ld->w8a8)
        tft_load_fail(ld, TFT_ERR_FORMAT, "has both %s and %s", TFT_KEY_PACKED, TFT_KEY_VERSION);
    else if (ld->unexpanded)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "its weights are packed already: take the file that it was packed from");
    else if (ld->weights != TFT_WEIGHTS_STORED)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "its weights are packed and cannot become floats: open the file that it was "
                      "packed from, or leave them as stored");
    else if (ld->s->alignment % TFT_PACKED_ALIGNMENT)
        tft_load_fail(ld, TFT_ERR_FORMAT,
                      "general.alignment is %u; packed weights need a multiple of %d",
                      ld->s->alignment, TFT_PACKED_ALIGNMENT);
}

static void check_types(struct tft_load *ld)
{
    const struct tft_value *v = ld->packed;
    if (!v || !v->is_array || v->type != TFT_VALUE_I32 || v->n != ld->s->n_tensor)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is missing, or not an array of %zu i32",
                      TFT_KEY_PACKED_TYPES, ld->s->n_tensor);
    for (size_t i = 0; ld->status == TFT_OK && i < ld->s->n_tensor; i++) {
        const struct tft_tensor *t = &ld->s->tensor[i];
        int64_t type = -1;
        tft_value_int(v, i, &type);
        if (type == -1)
            continue;
        if (type < 0 || !tft_format_packed((enum tft_dtype)type))
            tft_load_fail(ld, TFT_ERR_FORMAT,
                          "element %zu of %s is %lld, which is no type that can be packed", i,
                          TFT_KEY_PACKED_TYPES, (long long)type);
        else if (t->type != TFT_I8)
            tft_load_fail(ld, TFT_ERR_FORMAT,
                          "the tensor %.*s is packed by %s, but has type %s and should have I8",
                          TFT_STR_ARG(t->name), TFT_KEY_PACKED_TYPES, tft_dtype_name(t->type));
    }
}

void tft_packed_version(struct tft_load *ld)
{
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_PACKED);
    ld->packed = NULL;
    if (!v)
        return;
    check_version(ld, v);
    ld->packed = tft_source_value(ld->s, TFT_KEY_PACKED_TYPES);
    check_types(ld);
}
