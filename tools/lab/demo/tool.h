/* Shared by the programs of this folder, which README.md describes: errors, memory, files, random
   numbers. The programs end at the first error. */
#ifndef DEMO_TOOL_H
#define DEMO_TOOL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prints one line to stderr and exits with status 1. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Zeroed memory, aligned to 64 bytes. The programs do not free what they need until they end. */
void *take(size_t count, size_t size);

FILE *open_file(const char *path, const char *mode);
void read_all(FILE *f, void *out, size_t bytes, const char *path);
void write_all(FILE *f, const void *data, size_t bytes, const char *path);
char *read_text(const char *path, size_t *len); /* NUL-terminated */

double seconds(void); /* of a monotonic clock */

/* Random numbers by SplitMix64 (Steele, Lea and Flood 2014). The state is one number; any value is
   a valid seed. */
uint64_t random_bits(uint64_t *state);
float random_unit(uint64_t *state);   /* [0, 1) */
float random_normal(uint64_t *state); /* mean 0, variance 1 */
size_t random_below(uint64_t *state, size_t n);

#endif
