/* Cuts text into the pieces that byte-level BPE must not merge across. Vocabularies define this by
   a regular expression, which tokenizer.ggml.pre names; these are the same by hand, without
   backtracking: linear in the text. */
#ifndef TFT_PRETOKENIZE_H
#define TFT_PRETOKENIZE_H

#include "file/file.h"

struct tft_pretokenizer {
    bool gpt2;          /* the rules of GPT-2, else those of Llama 3 */
    unsigned digits;    /* most digits in a piece; 0: any number */
    bool whole_pieces;  /* a piece that is a token is that token, whatever the merges say */
    bool add_bos;       /* unless tokenizer.ggml.add_bos_token says otherwise */
};

/* By the name that tokenizer.ggml.pre has; false if it is not known. */
bool tft_pretokenize_find(struct tft_str name, struct tft_pretokenizer *out);

/* The bytes of the first piece of a text of n >= 1 bytes. The pieces of the rest do not depend on
   it. A byte that is not UTF-8 counts as a character that is no letter, number or space. */
size_t tft_pretokenize_next(struct tft_pretokenizer rules, const char *text, size_t n);

#endif
