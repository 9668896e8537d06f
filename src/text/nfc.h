/* Composes characters (NFC, Unicode Standard Annex 15), as Qwen's tokenizers do before they cut a
   text; decomposes them (NFD), as BERT's do. */
#ifndef TFT_NFC_H
#define TFT_NFC_H

#include <stdbool.h>
#include <stdint.h>

#include "tuffet.h"

/* Whether NFC may change text[n]. Most text is unchanged and needs no memory. */
bool tft_nfc_may_change(const char *text, size_t n);

/* Writes the composed text to out[n * TFT_NFC_MAX], and its length to *n_out. Copies bytes that are
   not UTF-8. TFT_ERR_NOMEM. */
enum { TFT_NFC_MAX = 3 }; /* Unicode Standard Annex 15, table 2 */
enum tft_status tft_nfc(const char *text, size_t n, const struct tft_allocator *a, char *out,
                        size_t *n_out);

/* The canonical decomposition (NFD) of the code point c, without ordering marks; returns the number
   of parts. No code point has more. */
enum { TFT_NFD_MAX = 4 };
size_t tft_nfd(uint32_t c, uint32_t parts[TFT_NFD_MAX]);

/* The canonical combining class, by which marks after a character are sorted; 0: sorting does not
   cross this character. */
unsigned tft_nfd_class(uint32_t c);

#endif
