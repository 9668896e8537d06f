/* Importing as a part of commands: with a bar of progress, and a message after a failure. */
#ifndef IMPORT_COMMAND_H
#define IMPORT_COMMAND_H

#include "models/open.h"
#include "tools/cli/cli.h"
#include "tools/import/opts.h"

/* Imports the folder to the file `path`. Call cli_catch_interrupts() first. Returns CLI_OK,
   CLI_FAILED or CLI_INTERRUPTED. */
int import_command(const char *folder, const char *path, struct import_opts o,
                   struct import_result *r);

bool import_is_folder(const char *path);

/* Opens a model by tft_model_open_unexpanded, and by tft_model_open if runs is not NULL. A folder
   is first imported to a file beside `out`, which is removed before this function returns; its disk
   space is free after tft_model_close. (A system that cannot remove an open file keeps OUT.import.)
   `path` outlives the models. Returns as import_command. */
int import_open_unexpanded(struct tft_model **m, struct tft_model **runs, const char *path,
                           const char *out, const struct tft_model_opts *opts);

#endif
