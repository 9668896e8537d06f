/* Defaults of the user: a file of options, and the environment. */
#ifndef CONFIG_H
#define CONFIG_H

#include "ini.h"

/* Sets the options of the command by its section of $XDG_CONFIG_HOME/tuffet/config, or of
   ~/.config/tuffet/config; without the file, does nothing. Returns CLI_OK, or CLI_USAGE or
   CLI_FAILED after an error message, which names the line. */
int config_read(const struct cli_command *c);

/* The option of the command that the line names; NULL after an error message. */
const struct cli_option *config_option(const struct cli_command *c, const struct ini_line *l);

/* The model of TUFFET_MODEL; NULL: there is none. */
const char *config_model(void);

#endif
