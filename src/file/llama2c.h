/* llama2.c checkpoints, version 0 (karpathy/llama2.c export.py legacy_export), with their
   tokenizer.bin. */
#ifndef TFT_LLAMA2C_H
#define TFT_LLAMA2C_H

#include "source.h"

/* Whether the first bytes can be a llama2.c v0 header: the format has no magic, so its seven
   integers must make sense together and give exactly the size of the file. */
bool tft_llama2c_probe(const unsigned char *data, size_t size);

/* Fills s from s->data (the checkpoint) and the tokenizer file that s->map[1] holds (empty if
   none): the values and tensors that a GGUF file of this model would have. */
enum tft_status tft_llama2c_read(struct tft_source *s, const char *tokenizer_name,
                                 struct tft_error *err);

#endif
