/* How much of the machine a command takes: --power and --nice. */
#ifndef POWER_H
#define POWER_H

#include "cli.h"

extern const struct cli_option power_option_list[];

/* Checks the options, and lowers the priority of this thread and of those that it starts. Returns
   CLI_OK, CLI_USAGE or CLI_FAILED. */
int power_begin(void);

/* Whether --power asks for pauses. */
bool power_is_shared(void);

/* The calling thread, with its team, has computed since `start`, of cli_ns. Returns for how long it
   should wait now, ns, so that this takes the share of --power of the time: 0 while pauses would be
   too short; they add up. */
uint64_t power_due(uint64_t start);
/* It has waited. */
void power_waited(uint64_t ns);

/* Both, and the waiting, which Ctrl-C ends. */
void power_rest(uint64_t start);

#endif
