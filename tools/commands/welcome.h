/* What `tuffet` alone shows to a person: commands, models, and the next command. */
#ifndef COMMAND_WELCOME_H
#define COMMAND_WELCOME_H

/* Prints it on standard output. Returns CLI_OK or CLI_FAILED. */
int welcome(void);

#endif
