#ifndef TFT_TEXT_KEYS_H
#define TFT_TEXT_KEYS_H

/* An array of ids: tokens that are never chosen when text is generated. */
#define TFT_KEY_SUPPRESS "tokenizer.ggml.suppress_tokens"

/* Values of a source that other programs do not know; files that tuffet converts have them. Arrays
   of ids: special tokens that take the white space before them, and behind them. */
#define TFT_KEY_LSTRIP "tokenizer.tuffet.lstrip"
#define TFT_KEY_RSTRIP "tokenizer.tuffet.rstrip"

/* bool: text is composed (NFC) before it is cut */
#define TFT_KEY_NFC "tokenizer.tuffet.nfc"

#endif
