#include "cursor.h"

#include "base/bytes.h"

const unsigned char *tft_cursor_bytes(struct tft_cursor *c, uint64_t n)
{
    if (c->past_end || n > c->size - c->pos) {
        c->past_end = true;
        return NULL;
    }
    c->pos += (size_t)n;
    return c->data + c->pos - n;
}

uint8_t tft_cursor_u8(struct tft_cursor *c)
{
    const unsigned char *p = tft_cursor_bytes(c, 1);
    return p ? *p : 0;
}

uint32_t tft_cursor_u32(struct tft_cursor *c)
{
    const unsigned char *p = tft_cursor_bytes(c, 4);
    return p ? tft_load_u32(p) : 0;
}

uint64_t tft_cursor_u64(struct tft_cursor *c)
{
    const unsigned char *p = tft_cursor_bytes(c, 8);
    return p ? tft_load_u64(p) : 0;
}
