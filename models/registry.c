/* Every architecture that tuffet runs: one file beside this one, one line here. */
#include "model/model.h"

extern const struct tft_arch tft_arch_gpt2, tft_arch_llama, tft_arch_qwen2, tft_arch_qwen3;

const struct tft_arch *const tft_archs[] = {
    &tft_arch_gpt2,
    &tft_arch_llama,
    &tft_arch_qwen2,
    &tft_arch_qwen3,
    NULL,
};
