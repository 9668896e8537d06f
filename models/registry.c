#include "models/registry.h"

const struct tft_arch *const tft_archs[] = {
    &tft_arch_gpt2, &tft_arch_llama, &tft_arch_qwen2, &tft_arch_qwen3, NULL,
};
