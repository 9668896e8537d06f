/* adapter_config.json of PEFT. */
#ifndef IMPORT_PEFT_CONFIG_H
#define IMPORT_PEFT_CONFIG_H

#include "work.h"

struct peft_config {
    json_t *all;
    double alpha;  /* lora_alpha */
    uint64_t rank; /* r */
    bool rslora;   /* the scale is alpha / sqrt(rank), not alpha / rank */
};

/* Reads the file of im's folder. Fails if a member may change the adapter in a way that its GGUF
   file does not have. peft_config_free must follow, also on failure. */
void peft_config_read(struct import *im, struct peft_config *c);
void peft_config_free(struct peft_config *c);

/* The alpha of a module: lora_alpha, or that of alpha_pattern. */
double peft_config_alpha(const struct peft_config *c, const char *module);

/* Whether the module may have this rank: r, or that of rank_pattern. */
bool peft_config_has_rank(const struct peft_config *c, const char *module, uint64_t rank);

#endif
