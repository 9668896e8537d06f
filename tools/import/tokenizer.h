/* The tokenizer of a folder: tokenizer.json, tokenizer.model, tokenizer_config.json. */
#ifndef IMPORT_TOKENIZER_H
#define IMPORT_TOKENIZER_H

#include "work.h"

/*
 * Adds the values tokenizer.ggml.* and tokenizer.chat_template to im->gguf, whose tensors have not
 * been described yet. Ids of special tokens come from the tokenizer's files, im->folder.config and
 * im->folder.generation (which may be NULL). On failure calls import_fail; the message begins with
 * the file's path.
 *
 * im->n_vocab is the number of rows of the embedding. The vocabulary that is written has as many
 * tokens: ids that the tokenizer lacks become unused tokens "[PADn]". Where llama.cpp's converter
 * drops the rows behind the tokenizer's last token (gemma3), im->n_vocab is reduced instead.
 */
void import_tokenizer(struct import *im);

#endif
