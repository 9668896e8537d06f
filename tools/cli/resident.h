/* The model's file in memory: --preload and --mlock. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include "cli.h"

/* For a model that has just been opened, by the options of cli_model_option_list. Returns CLI_OK,
   CLI_INTERRUPTED, or CLI_FAILED after an error message. */
int resident_begin(const char *path);

#endif
