/* CRC-32, the checksum of gzip, PNG and zlib. */
#ifndef TFT_CRC32_H
#define TFT_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues a CRC-32 (IEEE 802.3) over n more bytes. crc: the CRC of the earlier bytes; 0 to begin.
   The same as zlib's crc32(). */
uint32_t tft_crc32(uint32_t crc, const void *data, size_t n);

#endif
