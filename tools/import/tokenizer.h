/* The tokenizer of a folder: tokenizer.json, tokenizer.model, tokenizer_config.json. */
#ifndef IMPORT_TOKENIZER_H
#define IMPORT_TOKENIZER_H

#include "work.h"

/*
 * Adds the values tokenizer.ggml.* and tokenizer.chat_template to im->gguf, before its tensors are
 * described. Ids of special tokens come from the tokenizer's files, im->folder.config and
 * im->folder.generation (which may be NULL). On failure calls import_fail; the message begins with
 * the file's path.
 *
 * im->n_vocab is the number of imported rows of the embedding. The vocabulary in the file has as
 * many tokens: ids that the tokenizer lacks become unused tokens "[PADn]", also with gemma3, where
 * llama.cpp's converter drops such rows. Added tokens of tokenizer.json without a row are left out;
 * any other token without a row is a failure.
 */
void import_tokenizer(struct import *im);

#endif
