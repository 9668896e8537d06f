/* The text that tuffet quantize calibrates with, and the text that it keeps out: what the model
   writes itself (text/own_text.h), beside the program's prose; or the file of --calib. */
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
    struct talks talks; /* conversations, or texts of the model's own; may be empty */
    bool conversations; /* the file has them, or the model has written them */
    struct talks first; /* else some of few words, where there is a template: how all begin */
    int32_t *prose, *kept_prose; /* [n_prose] whole windows to calibrate with; those kept out */
    size_t n_prose, n_kept_prose;
    uint32_t window;

    /* behind the prefix that command_text_begin was told last: */
    int32_t *ids; /* [n] windows, first those of `talks`: all that there are, until
                     command_text_spread */
    size_t n_own, n;
    int32_t *kept[CHECK_GROUPS], *start;
    struct check_text group[CHECK_GROUPS];
    uint32_t n_prefix_text; /* the last tokens of the prefix, which texts go on behind */
};

extern const struct cli_option command_text_option_list[];

/* All that return an int: CLI_OK, or the exit status after a message. check: the options. read: the
   file of --calib; t: all zeros. */
int command_text_check(void);
int command_text_read(struct command_text *t);
void command_text_free(struct command_text *t);

/* Whether the model is to write text of its own. */
bool command_text_wants_own(void);

/* Tokenizes the text for m, chooses the window, and keeps text out. runs: the model of floats, as a
   model that computes; NULL if text of its own is not wanted. most_prefix: the most tokens that the
   prefix may have. */
int command_text_make(struct command_text *t, const struct tft_model *m,
                      const struct tft_model *runs, uint32_t most_prefix);

/* The tokens that all conversations of the text begin with, *n of them, but for BOS. *n is 0 where
   there are no conversations, or no such tokens. */
const int32_t *command_text_first(const struct command_text *t, size_t *n);

/* Makes the windows that come behind this prefix, whose first n_start tokens the model of floats
   gets, too. Sets t->n_prefix_text: n_text, the last tokens that are a text of the command line;
   where that is 0, all tokens but BOS, if all conversations begin with them. */
int command_text_begin(struct command_text *t, const int32_t *prefix, uint32_t n_prefix,
                       uint32_t n_text, uint32_t n_start);

/* Lowers the windows of t->ids to those of --calib-tokens, or to about `tokens`, if that is not
   0. */
void command_text_spread(struct command_text *t, uint32_t tokens);

#endif
