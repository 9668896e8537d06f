/* SHA-256 (FIPS 180-4) of bytes that are all there. */
#ifndef SERVE_SHA256_H
#define SERVE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

void sha256(const void *p, size_t n, unsigned char out[SHA256_BYTES]);

#endif
