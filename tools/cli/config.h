/* Defaults of the user: a file of options, and the environment. */
#ifndef CONFIG_H
#define CONFIG_H

#include "cli.h"

/* Sets the options of the command by its section of $XDG_CONFIG_HOME/tuffet/config, or of
   ~/.config/tuffet/config; without the file, does nothing. Returns CLI_OK, or CLI_USAGE or
   CLI_FAILED after an error message, which names the line. */
int config_read(const struct cli_command *c);

/* The model of TUFFET_MODEL; NULL: there is none. */
const char *config_model(void);

#endif
