/* Openings of stories, from the patterns of prompts.txt. */
#ifndef DEMO_PROMPTS_H
#define DEMO_PROMPTS_H

#include <stddef.h>
#include <stdint.h>

struct prompts;
struct prompts *prompts_read(const char *path);

/* Writes a random opening with a NUL; returns its length. */
int prompts_draw(const struct prompts *p, uint64_t *random, char *out, int cap);

#endif
