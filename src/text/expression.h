/* The regular expressions of pre-tokenizers as code: without backtracking, the time is linear in
   the text. expression.c lists the expressions. */
#ifndef TFT_EXPRESSION_H
#define TFT_EXPRESSION_H

#include "character.h"

/* An expression with its parameters; the comment on each function below names the parameters. */
struct tft_piece_stage {
    /* The end of the match that begins at `a`, before the end of the text; NULL: no match. A NULL
       function means \s+$ */
    const char *(*match)(struct tft_position a, const struct tft_piece_stage *s);
    unsigned letters;        /* the classes of a word's characters */
    unsigned digits;         /* most digits of a piece; 0: any number */
    bool no_contractions;    /* 's, 't and so on are not separate pieces */
    const char *after_marks; /* ASCII characters that belong to punctuation before them */
    bool after_once;         /* ... at most one character */
};

typedef const char *tft_match(struct tft_position a, const struct tft_piece_stage *s);

tft_match tft_match_gpt2;
tft_match tft_match_llama3; /* letters, digits, no_contractions, after_marks, after_once */
tft_match tft_match_case;   /* digits, no_contractions */
tft_match tft_match_phrase; /* EXAONE MoE */
tft_match tft_match_bloom;
tft_match tft_match_deepseek3;
tft_match tft_match_digits;     /* \p{N}{1,digits} */
tft_match tft_match_3_digits;   /* [0-9][0-9][0-9] */
tft_match tft_match_newline;    /* [\r\n] */
tft_match tft_match_line;       /* [^\n]+|\n+ */
tft_match tft_match_falcon;     /* punctuation and some symbols */
tft_match tft_match_space_word; /* \s?[letters]+ */
tft_match tft_match_latin;      /* DeepSeek's letters */
tft_match tft_match_marks;      /* DeepSeek's punctuation */
tft_match tft_match_cjk;        /* DeepSeek's Chinese, Japanese and Korean */
tft_match tft_match_cjk3;       /* the same of DeepSeek 3 */

/* The end of the first piece of a split by the expression, from `a` on: the end of a match that
   begins at `a`; else the start of the first match, or the end of the text. */
const char *tft_stage_cut(const struct tft_piece_stage *s, struct tft_position a);

#endif
