/* The operand MODEL of a command: a path, or a name of the hub. */
#ifndef PULL_OPERAND_H
#define PULL_OPERAND_H

/* If *operand is hf:USER/REPO[:QUANT], *operand becomes the path of the model: it is fetched unless
   it is here, and a folder of safetensors is imported. Returns CLI_OK, CLI_FAILED, CLI_USAGE or
   CLI_INTERRUPTED. */
int pull_operand(const char **operand);

#endif
