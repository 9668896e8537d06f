/*
 * Output of a given form: the options --grammar, --regex and --json-schema of the commands that
 * generate. A model that thinks does so freely; the form begins behind its thoughts.
 */
#ifndef FORM_H
#define FORM_H

#include "cli.h"

extern const struct cli_option form_option_list[];

struct form {
    const struct tft_model *m;
    struct tft_lexicon *lexicon;
    struct tft_grammar *grammar;            /* NULL: any text */
    struct tft_grammar_state *fresh, *now;  /* its beginning, and where the text stands */
    int32_t think, think_end;               /* the tokens <think> and </think>, or -1 */
    enum form_phase {
        FORM_TEXT,     /* the form holds */
        FORM_OPEN,     /* the next token is <think>, or the first of the form */
        FORM_THINKING, /* until </think> */
        FORM_CLOSED,   /* behind it: white space may come before the form */
    } phase;
};

/* Checks the options without a model. Returns CLI_OK or CLI_USAGE. */
int form_check(void);

/* Reads the grammar that the options name, if any. Close it in either case. CLI_OK or
   CLI_FAILED. */
int form_open(struct form *f, const struct tft_model *m);
void form_close(struct form *f);

/* Begins a text behind the prompt ids[n]. thinks: the model may think first. Returns CLI_OK or
   CLI_FAILED. */
int form_begin(struct form *f, const int32_t *ids, size_t n, bool thinks);

enum { FORM_MOST = 256 };

/* Chooses the next token as tft_sample does, within the form; with it come those that the form
   leaves no choice of, before or behind it: ids[*n]. Returns 1; 0: the text is complete, and there
   are none; -1: no token can come, which form_fail reports. */
int form_next(struct form *f, struct tft_sampler *z, struct tft_session *s, int32_t ids[FORM_MOST],
              size_t *n);
int form_fail(void); /* returns CLI_FAILED */

/* Whether the form lets nothing more come: the newest token need not be computed. */
bool form_is_done(const struct form *f);

#endif
