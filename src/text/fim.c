/* Fill-in-the-middle by the names of tokens, for files whose keys do not name them. */
#include "vocab_build.h"

/* As in llama.cpp (llama-vocab.cpp): Qwen; Granite and StarCoder; GLM; CodeLlama; DeepSeek, with
   U+FF5C and U+2581. */
static const char *const names[TFT_FIM_MIDDLE + 1][7] = {
    {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<|code_prefix|>", "<PRE>",
     "\342\226\201<PRE>", "<\357\275\234fim\342\226\201begin\357\275\234>"},
    {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<|code_suffix|>", "<SUF>",
     "\342\226\201<SUF>", "<\357\275\234fim\342\226\201hole\357\275\234>"},
    {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<|code_middle|>", "<MID>",
     "\342\226\201<MID>", "<\357\275\234fim\342\226\201end\357\275\234>"},
};

int tft_build_fim(struct tft_str name)
{
    if (!name.n || name.p[name.n - 1] != '>')
        return -1;
    for (int part = 0; part <= TFT_FIM_MIDDLE; part++)
        for (int i = 0; i < 7; i++)
            if (tft_str_is(name, names[part][i]))
                return part;
    return -1;
}
