/* llama.cpp's /lora-adapters: the scales of requests without `lora`. */
#ifndef SERVE_LORA_ADAPTERS_H
#define SERVE_LORA_ADAPTERS_H

#include "server.h"

void lora_adapters_list(struct exchange *x);   /* GET */
void lora_adapters_change(struct exchange *x); /* POST */

#endif
