/* Cuts text into pieces: byte-level BPE never merges across pieces. The value tokenizer.ggml.pre of
   a vocabulary names the regular expressions. */
#ifndef TFT_PRETOKENIZE_H
#define TFT_PRETOKENIZE_H

#include "file/file.h"

enum { TFT_STAGE_MAX = 6 };

struct tft_pretokenizer {
    /* [n_stage] each stage splits the previous stage's pieces */
    const struct tft_piece_stage *stage;
    unsigned n_stage;
    bool whole_pieces; /* a piece that is a token becomes that token, without merging */
    bool add_bos;      /* the default of tokenizer.ggml.add_bos_token */
    bool add_sep;      /* that of tokenizer.ggml.add_sep_token: RoBERTa's pairs */
    bool characters;   /* as Gemma 4: symbols are characters, not bytes; U+2581 is a space */
};

/* *out = the rules of a name in tokenizer.ggml.pre; false if the name is unknown. */
bool tft_pretokenize_find(struct tft_str name, struct tft_pretokenizer *out);

/* Common names of pre-tokenizers, for messages. */
extern const char tft_pretokenize_known[];

/* The pieces of a text, one after another. */
struct tft_pieces {
    const struct tft_pretokenizer *rules;
    const char *p;                      /* the start of the next piece */
    const char *end[TFT_STAGE_MAX + 1]; /* of the text; of each stage's current part */
};

void tft_pieces_start(struct tft_pieces *s, const struct tft_pretokenizer *rules, const char *text,
                      size_t n);

/* The next piece is p[result]; 0 at the end of the text. A byte that is not UTF-8 counts as a
   character of no class. */
size_t tft_pieces_next(struct tft_pieces *s, const char **p);

#endif
