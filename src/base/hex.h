/* Hexadecimal digits. */
#ifndef TFT_HEX_H
#define TFT_HEX_H

/* The value of the digit c, or -1. */
static inline int tft_hex_digit(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

#endif
