/* Reads llama2.c checkpoints of version 0 (karpathy/llama2.c export.py, legacy_export) and their
   tokenizer.bin. */
#ifndef TFT_LLAMA2C_H
#define TFT_LLAMA2C_H

#include "source.h"

/* Whether data[size] is a complete checkpoint. The format has no magic number: the seven integers
   of its header must be consistent and give exactly the size of the file. */
bool tft_llama2c_probe(const unsigned char *data, size_t size);

/* Fills s with the values and tensors of an equivalent GGUF file, from the checkpoint s->data and,
   unless tokenizer_name is NULL, from s->tokenizer. tokenizer_name is for messages. */
enum tft_status tft_llama2c_read(struct tft_source *s, const char *tokenizer_name,
                                 struct tft_error *err);

#endif
