/* The architectures that tuffet runs. A new one is a file beside this one and a line in
   registry.c. */
#ifndef TFT_REGISTRY_H
#define TFT_REGISTRY_H

#include "model/model.h"

extern const struct tft_arch tft_arch_gpt2, tft_arch_llama, tft_arch_qwen2, tft_arch_qwen3;

/* All of them, then NULL. */
extern const struct tft_arch *const tft_archs[];

#endif
