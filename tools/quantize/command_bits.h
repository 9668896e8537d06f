/* --bits-search of tuffet quantize: chooses bits for each matrix of the layers. */
#ifndef QUANTIZE_COMMAND_BITS_H
#define QUANTIZE_COMMAND_BITS_H

#include "tools/cli/cli.h"
#include "tools/quantize/options.h"
#include "tools/quantize/search/bits_search.h"

extern const struct cli_option command_bits_option_list[];

/* Checks the option: CLI_OK or CLI_USAGE. */
int command_bits_check(void);

/* Whether there is a search. */
bool command_bits_wanted(void);

/* Call before quantize(). Makes a model with 8 bits beside the file `path`, searches, and removes
   it. bits: [n_layer, LAYER_MATS], set to the result; r: all zeros. o: as for quantize(); its
   progress is not called. Returns CLI_OK, or the exit status after a message on standard error. */
int command_bits_run(struct tft_model *m, const struct quantize_opts *o, const char *path,
                     uint8_t *bits, struct bits_search *r);

/* Prints the result: a line on standard error, or nothing; a JSON object, or null, on standard
   output. */
void command_bits_report(const struct bits_search *r);
void command_bits_json(const struct bits_search *r);

#endif
