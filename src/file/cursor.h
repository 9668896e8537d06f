/* Reads bytes and little-endian numbers from untrusted memory, with bounds checks. After a read
   past the end all later reads fail, so a reader may check `past_end` once per record. */
#ifndef TFT_CURSOR_H
#define TFT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tft_cursor {
    const unsigned char *data;
    size_t size, pos; /* pos <= size, always */
    bool past_end;    /* a read went past the end; never cleared */
};

/* The next n bytes, within data; NULL past the end. */
const unsigned char *tft_cursor_bytes(struct tft_cursor *c, uint64_t n);

/* The next number; 0 past the end. */
uint8_t tft_cursor_u8(struct tft_cursor *c);
uint32_t tft_cursor_u32(struct tft_cursor *c);
uint64_t tft_cursor_u64(struct tft_cursor *c);

#endif
