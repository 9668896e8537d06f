/*
 * Output of a given form: the options --grammar, --regex and --json-schema of commands that
 * generate text. A model may think first, without a form; the form begins after the thoughts.
 */
#ifndef FORM_H
#define FORM_H

#include "cli.h"
#include "loops.h"
#include "thinking.h"

extern const struct cli_option form_option_list[];

struct form {
    const struct tft_model *m;
    struct tft_lexicon *lexicon;
    struct tft_grammar *grammar;           /* NULL: no form, any text may come */
    bool borrowed;                         /* the grammar has another owner */
    struct tft_grammar_state *fresh, *now; /* the beginning of the form, and the current place in
                                              it */
    int32_t think, think_end;              /* the tokens <think> and </think>, or -1 */
    enum form_phase {
        FORM_TEXT,     /* the text must follow the form */
        FORM_OPEN,     /* the next token is <think>, or the form's first */
        FORM_THINKING, /* until </think> */
        FORM_CLOSED,   /* after </think>: white space may come before the form */
    } phase;
    const float *logits;      /* [n_vocab] tokens are chosen from these; NULL: from the session's */
    bool outside;             /* the last sampled token is outside the form */
    struct thinking thinking; /* the budget of thoughts; all zero: there is none */
};

/* Checks the options without a model. Returns CLI_OK or CLI_USAGE. */
int form_check(void);

/* A form of m without a grammar. */
void form_none(struct form *f, const struct tft_model *m);

/* Reads the grammar that the options name, if any. Returns CLI_OK or CLI_FAILED; call form_close in
   either case. */
int form_open(struct form *f, const struct tft_model *m);
void form_close(struct form *f);

/* The given option for a form; or NULL. */
const char *form_option(void);

/* Replaces the form by a grammar in GBNF. where: for messages. Returns CLI_OK or CLI_FAILED. */
int form_replace(struct form *f, const char *where, const char *gbnf, size_t n);

/* Begins a text after the prompt ids[n]. thinks: the model may think first. Returns CLI_OK or
   CLI_FAILED. */
int form_begin(struct form *f, const int32_t *ids, size_t n, bool thinks);

/* Chooses the next token from the session's logits, as by tft_sample, within the form, with the
   forced tokens before or after it: ids[*n]. Tokens that end thoughts of the budget are forced
   too. f->outside: the first one is of the thoughts. Returns
   1; 0: the text is complete, without further tokens; -1: no token can come, and form_error has the
   reason. */
enum { FORM_MOST = 256 };
int form_next(struct form *f, struct tft_sampler *z, struct tft_session *s, int32_t ids[FORM_MOST],
              size_t *n);

const char *form_error(const struct tft_session *s);

/* Whether the form allows no further token: the newest one need not be computed. */
bool form_is_done(const struct form *f);

/* A generated text. */
struct form_text {
    struct tft_text *text;
    /* Takes the text of a token, which may be empty. id: -1 if the token is not of the form, but of
       the thoughts before it. Returns false, with errno, if the text cannot be written. */
    bool (*put)(void *user, int32_t id, const char *p, size_t n);
    void *user;
    bool in_line;        /* the text is on the terminal's line: an error message begins another */
    size_t n, most;      /* tokens so far, and the number at which to stop, or SIZE_MAX */
    struct loops *loops; /* a loop stops the text; NULL: it does not */
    const char *stop;    /* "end", "length", "loop", "interrupt"; NULL: not yet */
};

/* Generates from the session's logits until the text stops, or until the session is full: t->stop
   stays NULL then. Tokens are chosen as by tft_sample, within the form. The end of t->text is not
   put. Returns CLI_OK, or CLI_FAILED after an error message. */
int form_generate(struct form *f, struct tft_sampler *z, struct tft_session *s,
                  struct form_text *t);

#endif
