/* --intact-system of tuffet quantize: precomputes the KV cache of a system message and stores it in
   the file as prefix NAME. */
#ifndef QUANTIZE_COMMAND_SYSTEM_H
#define QUANTIZE_COMMAND_SYSTEM_H

#include "tools/quantize/command_prefix.h"
#include "tools/quantize/named_rows.h"

struct command_system {
    struct named_prefix *prefix; /* [n] */
    int32_t **ids;               /* [n] their tokens, with BOS */
    uint32_t n;
    struct quantize_values values;
    struct tft_model *m;
    const struct quantize_opts *o;
    enum tft_dtype type; /* of the rows in the file */
    char *unnamed;       /* path of the model without named prefixes, beside the output file */
};

extern const struct cli_option command_system_option_list[];

/* Checks the options: CLI_OK or CLI_USAGE. */
int command_system_check(void);

/* choose: makes the tokens by the chat format of the model; prefix: after command_prefix_choose; c:
   all zeros. begin: call before quantize(), when o has the prefix; sets *path to a file for the
   model without names. finish: call after tuning; writes the model to `path`. All return CLI_OK, or
   the exit status after a message on standard error, and do nothing without --intact-system. */
int command_system_choose(struct command_system *c, struct tft_model *m,
                          const struct command_prefix *prefix);
int command_system_begin(struct command_system *c, struct quantize_opts *o, const char **path);
int command_system_finish(struct command_system *c, const char *path);

/* Removes the file without names. Accepts all zeros. */
void command_system_free(struct command_system *c);

/* Prints a line for each prefix on standard error; a JSON object, or null, on standard output. */
void command_system_report(const struct command_system *c);
void command_system_json(const struct command_system *c);

#endif
