/* One bounds-checked way to read bytes of a file: the first read past the end makes every later one
   fail, so that a reader may check once per record. Little-endian, unaligned. */
#ifndef TFT_CURSOR_H
#define TFT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tft_cursor {
    const unsigned char *data;
    size_t size, at; /* at <= size, always */
    bool past_end;   /* sticky */
};

/* n bytes, or NULL. */
const unsigned char *tft_cursor_bytes(struct tft_cursor *c, uint64_t n);

/* 0 past the end. */
uint8_t tft_cursor_u8(struct tft_cursor *c);
uint32_t tft_cursor_u32(struct tft_cursor *c);
uint64_t tft_cursor_u64(struct tft_cursor *c);

#endif
