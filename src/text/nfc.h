/* Composes characters (NFC, Unicode Standard Annex 15), which the tokenizers of Qwen do before they
   cut a text. */
#ifndef TFT_NFC_H
#define TFT_NFC_H

#include <stdbool.h>

#include "tuffet.h"

/* Whether text[n] may not be composed yet: false for most text, which then needs no memory. */
bool tft_nfc_may_change(const char *text, size_t n);

/* Writes the composed text to out, which has room for TFT_NFC_MAX bytes for each of n, and *n_out,
   its length. Bytes that are not UTF-8 are copied. TFT_ERR_NOMEM. */
enum { TFT_NFC_MAX = 3 }; /* Unicode Standard Annex 15, table 2 */
enum tft_status tft_nfc(const char *text, size_t n, const struct tft_allocator *a, char *out,
                        size_t *n_out);

#endif
