/* The checksum of gzip, PNG and zlib. */
#ifndef TFT_CRC32_H
#define TFT_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 (IEEE 802.3) of what `crc` is the CRC of, 0 for nothing, and then n bytes: zlib's
   crc32(). */
uint32_t tft_crc32(uint32_t crc, const void *p, size_t n);

#endif
