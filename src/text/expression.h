/* The regular expressions of pre-tokenizers, written out as code: without backtracking, the time is
   linear in the text. expression.c has the expressions. */
#ifndef TFT_EXPRESSION_H
#define TFT_EXPRESSION_H

#include "character.h"

/* An expression with its parameters; each function below says which ones it reads. */
struct tft_stage {
    /* The end of the match that begins at `a`, which is not the end of the text; NULL if there is
       none. NULL instead of a function stands for \s+$ */
    const char *(*match)(struct tft_position a, const struct tft_stage *s);
    unsigned letters;        /* the classes of which a word consists */
    unsigned digits;         /* most digits of a piece; 0: any number */
    bool no_contractions;    /* 's, 't and so on are not pieces of their own */
    const char *after_marks; /* these ASCII characters belong to the punctuation before them */
    bool after_once;         /* ... at most one of them */
};

typedef const char *tft_match(struct tft_position a, const struct tft_stage *s);

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
tft_match tft_match_cjk3;       /* those of DeepSeek 3 */

/* The end of the first piece of a's text when it is split by the expression: the end of a match
   that begins at `a`, or else the start of the first match, or the end of the text. */
const char *tft_stage_cut(const struct tft_stage *s, struct tft_position a);

#endif
