/* The calibration text and the held-out text of tuffet quantize: text that the model writes
   (text/own_text.h) with the program's prose, or the file of --calib. */
#ifndef QUANTIZE_COMMAND_TEXT_H
#define QUANTIZE_COMMAND_TEXT_H

#include "tools/cli/cli.h"
#include "model/model.h"
#include "tools/quantize/check.h"
#include "tools/quantize/text/talks.h"

struct command_text {
    const struct tft_model *m;
    char *file; /* [n_file] of --calib; NULL: the program's text */
    size_t n_file;
    struct talks talks; /* conversations, or texts that the model wrote; may be empty */
    bool conversations; /* the file has conversations, or the model wrote some */
    struct talks first; /* otherwise a few short ones, if there is a template: how all begin */
    int32_t *prose, *kept_prose; /* [n_prose] whole windows for calibration; held-out ones */
    size_t n_prose, n_kept_prose;
    uint32_t window;

    /* for the prefix that command_text_begin was given last: */
    int32_t *ids; /* [n] windows, first the windows of `talks`: all of them, until
                     command_text_spread */
    size_t n_own, n;
    int32_t *kept[CHECK_GROUPS], *start;
    struct check_text group[CHECK_GROUPS];
    uint32_t n_prefix_text; /* the last tokens of the prefix, which texts continue after */
};

extern const struct cli_option command_text_option_list[];

/* All functions that return an int return CLI_OK, or the exit status after a message. check: checks
   the options. read: reads the file of --calib; t: all zeros. */
int command_text_check(void);
int command_text_read(struct command_text *t);
void command_text_free(struct command_text *t);

/* The file of --calib, or NULL; --calib-tokens. */
const char *command_text_path(void);
uint32_t command_text_tokens(void);

/* Whether the model writes its own calibration text. */
bool command_text_wants_own(void);

/* Tokenizes the text for m, chooses the window, and holds text out. runs: the float model, opened
   for computing; NULL if it writes no text. most_prefix: the most tokens that the prefix may
   have. */
int command_text_make(struct command_text *t, const struct tft_model *m,
                      const struct tft_model *runs, uint32_t most_prefix);

/* The tokens that all conversations of the text begin with, *n of them, without BOS. *n is 0 if
   there are no conversations, or no such tokens. */
const int32_t *command_text_first(const struct command_text *t, size_t *n);

/* Makes the windows that follow this prefix; the float model gets its first n_start tokens too.
   Sets t->n_prefix_text: n_text, the last tokens, which are a text of the command line; if n_text
   is 0, all tokens but BOS, if all conversations begin with them. */
int command_text_begin(struct command_text *t, const int32_t *prefix, uint32_t n_prefix,
                       uint32_t n_text, uint32_t n_start);

/* Reduces the windows of t->ids to --calib-tokens, or to about `tokens`, if `tokens` is not 0. */
void command_text_spread(struct command_text *t, uint32_t tokens);

#endif
