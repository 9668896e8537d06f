/* Which tokens the prefix of a model is of that tuffet quantize makes: those that its command line
   names, and those that a search finds. */
#ifndef QUANTIZE_COMMAND_PREFIX_H
#define QUANTIZE_COMMAND_PREFIX_H

#include "tools/cli/cli.h"
#include "model/model.h"
#include "tools/quantize/search/cushion.h"

struct command_prefix {
    int32_t *ids; /* [n] */
    size_t n;
    bool searched;
    struct cushion cushion; /* then */
    char *checkpoint;
};

extern const struct cli_option command_prefix_option_list[];

/* What these options may not be together: CLI_OK or CLI_USAGE. */
int command_prefix_check(void);

/* How its keys and values are to be held. */
enum tft_dtype command_prefix_type(void);

/* What is named; f: all zero. Then what is found in a text, ids: [n], for a model to be written to
   `out`. CLI_OK, or what the program ends with after a line on standard error. */
int command_prefix_choose(struct command_prefix *f, const struct tft_model *m);
int command_prefix_search(struct command_prefix *f, struct tft_model *m, const char *out,
                           const int32_t *ids, size_t n);

/* All zero is fine. status: what the program ends with. The checkpoint of a search goes where the
   model was written, and else stays. */
void command_prefix_free(struct command_prefix *f, int status);

/* A line for each round, on standard error; an object, or null, on standard output. */
void command_prefix_report(const struct tft_model *m, const struct cushion *c);
void command_prefix_json(const struct cushion *c);

/* A number at *p, no longer than any model needs; *p moves past it. */
bool quantize_take_number(const char **p, uint32_t *n);

/* Leaves `wanted` windows of the text, as far apart as it allows. How many tokens there are
   then. */
size_t quantize_spread_windows(int32_t *ids, size_t n, size_t window, size_t wanted);

#endif
