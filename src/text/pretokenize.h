/* Cuts text into the pieces that byte-level BPE must not merge across. A vocabulary names a regular
   expression for this in tokenizer.ggml.pre. The expressions are written out as code here: without
   backtracking, the time is linear in the text. */
#ifndef TFT_PRETOKENIZE_H
#define TFT_PRETOKENIZE_H

#include "file/file.h"

struct tft_pretokenizer {
    bool gpt2;         /* the rules of GPT-2, else those of Llama 3 */
    unsigned digits;   /* most digits in a piece; 0: any number */
    bool whole_pieces; /* a piece that is a token becomes that token, without merging */
    bool add_bos;      /* the default of tokenizer.ggml.add_bos_token */
};

/* *out = the rules that tokenizer.ggml.pre names; false if the name is unknown. */
bool tft_pretokenize_find(struct tft_str name, struct tft_pretokenizer *out);

/* The length of the first piece of text[n], n >= 1. The pieces of the rest do not depend on it. A
   byte that is not UTF-8 counts as a character that is not a letter, number or space. */
size_t tft_pretokenize_next(struct tft_pretokenizer rules, const char *text, size_t n);

#endif
