#include "model/file_type.h"

#include "model/keys.h"

/* llama.cpp's enum llama_ftype, by number. Of a guessed type, GUESSED is added. */
enum { GUESSED = 1024 };
static const char *const names[] = {
    [0] = "F32",      [1] = "F16",      [2] = "Q4_0",     [3] = "Q4_1",     [7] = "Q8_0",
    [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",    [11] = "Q3_K_S",  [12] = "Q3_K_M",
    [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M",  [16] = "Q5_K_S",  [17] = "Q5_K_M",
    [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS",  [21] = "Q2_K_S",  [22] = "IQ3_XS",
    [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL",  [26] = "IQ3_S",   [27] = "IQ3_M",
    [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS",  [31] = "IQ1_M",   [32] = "BF16",
    [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4",
};

enum { TYPES = TFT_Q2_0 + 1 };

/* Of the codes, if the tensor is packed. */
static uint64_t type_of(const struct tft_source *s, const struct tft_value *packed, size_t i)
{
    uint64_t type;
    return packed && tft_value_uint(packed, i, &type) && type < TYPES ? type : s->tensor[i].type;
}

const char *tft_file_type(const struct tft_source *s)
{
    const struct tft_value *v = tft_source_value(s, "general.file_type"),
                           *packed = tft_source_value(s, TFT_KEY_PACKED_TYPES);
    uint64_t number, bytes[TYPES] = {0}, most = TFT_F32;
    if (v && !v->ignored && tft_value_uint(v, 0, &number)) {
        number %= GUESSED;
        if (number < sizeof names / sizeof *names && names[number])
            return names[number];
    }
    for (size_t i = 0; i < s->n_tensor; i++)
        bytes[type_of(s, packed, i)] += s->tensor[i].bytes;
    for (uint32_t type = 0; type < TYPES; type++)
        most = bytes[type] > bytes[most] ? type : most;
    return tft_dtype_name((uint32_t)most);
}
