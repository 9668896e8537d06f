/* --kv-search of tuffet quantize: chooses bits for each layer of the KV cache of the new model. */
#ifndef QUANTIZE_COMMAND_KV_H
#define QUANTIZE_COMMAND_KV_H

#include "tools/cli/cli.h"
#include "tools/quantize/search/kv_search.h"
#include "tools/quantize/options.h"

struct command_kv {
    char *unsearched; /* path of the model before the search, beside the output file; NULL: no
                         search */
    struct kv_search_opts o;
    struct kv_search result;
};

extern const struct cli_option command_kv_option_list[];

/* Checks the option: CLI_OK or CLI_USAGE. */
int command_kv_check(void);

/* Call before quantize(). k: all zeros. With a search: sets *path to a file for the model before
   the search; o->text must stay valid. Returns CLI_OK, or the exit status after a message on
   standard error, as does finish. */
int command_kv_begin(struct command_kv *k, const struct tft_model *m,
                      const struct quantize_opts *o, const char **path);

/* Call after quantize() and tuning: searches, and writes the model to `path`. */
int command_kv_finish(struct command_kv *k, const char *path);

/* Removes the file of the model before the search. Accepts all zeros. */
void command_kv_free(struct command_kv *k);

/* Prints the result: some lines on standard error, or nothing; a JSON object, or null, on standard
   output. */
void command_kv_report(const struct command_kv *k);
void command_kv_json(const struct command_kv *k);

#endif
