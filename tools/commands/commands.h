/* The commands of tuffet, each in the file of its name. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "tools/cli/cli.h"

extern const struct cli_command command_batch, command_bench, command_chat, command_demo,
    command_embed, command_eval, command_import, command_inspect, command_list, command_pack,
    command_ppl, command_pull, command_quantize, command_rerank, command_rm, command_run,
    command_serve, command_tokenize;

#endif
