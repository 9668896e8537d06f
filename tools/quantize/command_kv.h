/* How many bits each layer of the KV cache is to have of a model that tuffet quantize makes: its
   option, and what it takes. */
#ifndef QUANTIZE_COMMAND_KV_H
#define QUANTIZE_COMMAND_KV_H

#include "tools/cli/cli.h"
#include "tools/quantize/search/kv_search.h"
#include "tools/quantize/options.h"

struct command_kv {
    char *unsearched; /* the model before that, in a file beside the one that is wanted */
    struct kv_search_opts o;
    struct kv_search result;
};

extern const struct cli_option command_kv_option_list[];

/* Whether the budget is one: CLI_OK or CLI_USAGE. */
int command_kv_check(void);

/* k: all zero. What is to be made first, of m, goes to *path then, which is as it was where there
   is nothing to be searched; o->text has to stay. CLI_OK, or what the program ends with after a
   line on standard error; so does the next. */
int command_kv_begin(struct command_kv *k, const struct tft_model *m,
                      const struct quantize_opts *o, const char **path);

/* From there to `path`. */
int command_kv_finish(struct command_kv *k, const char *path);

/* All zero is fine. */
void command_kv_free(struct command_kv *k);

/* A line on standard error if something was searched; an object, or null, on standard output. */
void command_kv_report(const struct command_kv *k);
void command_kv_json(const struct command_kv *k);

#endif
