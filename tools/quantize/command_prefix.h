/* --intact* and --cushion* of tuffet quantize: the tokens of the new model's prefix, given on the
   command line or found by a search. */
#ifndef QUANTIZE_COMMAND_PREFIX_H
#define QUANTIZE_COMMAND_PREFIX_H

#include "tools/cli/cli.h"
#include "model/model.h"
#include "tools/quantize/command_check.h"
#include "tools/quantize/search/pivots.h"

struct command_prefix {
    int32_t *ids; /* [n] */
    size_t n;
    uint32_t n_text;        /* the last of the ids: the text of --intact-text */
    bool pivots;            /* the tokens are the text's own outliers */
    bool searched;
    struct cushion cushion; /* if searched */
    struct check_prefix choice[PIVOT_PREFIXES + 3]; /* [n_choices] candidates: the start, the
                                                       outliers of the text, the searched prefix,
                                                       and the tokens that all conversations begin
                                                       with */
    uint32_t n_choices, n_pivots;
    bool tried;             /* the choices have losses */
    char *checkpoint;       /* path */
};

extern const struct cli_option command_prefix_option_list[];

/* Checks the options: CLI_OK or CLI_USAGE. */
int command_prefix_check(void);

/* Type of the prefix in the file: --prefix-bits. */
enum tft_dtype command_prefix_type(void);

/* choose: sets the tokens of the command line; f: all zeros. look: then adds tokens that take the
   outliers of the text ids: [n], if the command line names none. search: then adds the tokens that
   --cushion finds in the text; out: path of the output file. take: makes that choice the prefix.
   All return CLI_OK, or the exit status after a message on standard error. */
int command_prefix_choose(struct command_prefix *f, const struct tft_model *m);
int command_prefix_look(struct command_prefix *f, struct tft_model *m, const int32_t *ids,
                        size_t n, uint32_t window);
int command_prefix_search(struct command_prefix *f, struct tft_model *m, const char *out,
                           const int32_t *ids, size_t n);
int command_prefix_take(struct command_prefix *f, uint32_t choice);

/* Adds a choice if look has added some: the start, and token[n], with which all conversations
   begin, up to --cushion-max tokens. These tokens cost a conversation nothing, as it continues
   after them (command_text_begin). They may be outliers in every conversation, which look does not
   find. */
void command_prefix_add_first(struct command_prefix *f, const int32_t *token, size_t n);

/* The most tokens that the prefix can have after look and search. */
uint32_t command_prefix_most(const struct command_prefix *f);

/* Number of leading prefix tokens that the float model gets in a comparison: BOS, or the given
   text. */
uint32_t command_prefix_start(const struct command_prefix *f, const struct tft_model *m);

/* Accepts all zeros. status: the program's exit status. The checkpoint of a search is removed if
   the model was written. */
void command_prefix_free(struct command_prefix *f, int status);

/* Prints the candidates: lines on standard error; a JSON array on standard output, empty if nothing
   was tried. */
void command_prefix_report_choice(const struct command_prefix *f, const struct tft_model *m);
void command_prefix_json_choice(const struct command_prefix *f);

/* Prints the search: a line for each round on standard error; a JSON object, or null if c is NULL,
   on standard output. */
void command_prefix_report(const struct tft_model *m, const struct cushion *c);
void command_prefix_json(const struct cushion *c);

/* Parses a number of at most 9 digits at *p and moves *p past it. */
bool quantize_take_number(const char **p, uint32_t *n);

/* Likewise layers, "3" or "0-3". */
bool quantize_take_layers(const char **p, uint32_t *from, uint32_t *to);

#endif
