#ifndef TFT_TEXT_KEYS_H
#define TFT_TEXT_KEYS_H

/* An array of ids: tokens that generation never chooses. */
#define TFT_KEY_SUPPRESS "tokenizer.ggml.suppress_tokens"

/* Values that other programs do not know, in files that tuffet converts. Arrays of ids: special
   tokens that take the white space before them, and after them. */
#define TFT_KEY_LSTRIP "tokenizer.tuffet.lstrip"
#define TFT_KEY_RSTRIP "tokenizer.tuffet.rstrip"

/* bools, for the space that tokenizer.ggml.add_space_prefix asks for: it goes before the start of
   the text alone, not before the text after a special token; and only where no space is there */
#define TFT_KEY_SPACE_AT_START "tokenizer.tuffet.space_at_start"
#define TFT_KEY_SPACE_IF_NONE "tokenizer.tuffet.space_if_none"

/* Arrays of ids of user tokens: these are found after the space of tokenizer.ggml.add_space_prefix
   is put before the text, and no further space follows them; those of the second array only with a
   space before them, which they take. For tokenizer.ggml.model "llama". */
#define TFT_KEY_NORMALIZED "tokenizer.tuffet.normalized"
#define TFT_KEY_NORMALIZED_SPACED "tokenizer.tuffet.normalized_with_space"

/* bools: drop the white space at the start of a text, and at its end; likewise between special
   tokens */
#define TFT_KEY_STRIP_LEFT "tokenizer.tuffet.strip_left"
#define TFT_KEY_STRIP_RIGHT "tokenizer.tuffet.strip_right"

/* An array of ids: all tokens that generation ends at. Without it, those of llama.cpp's keys, and
   tokens of known names. */
#define TFT_KEY_ENDS "tokenizer.tuffet.ends"

/* bool: compose the text (NFC) before cutting */
#define TFT_KEY_NFC "tokenizer.tuffet.nfc"

#endif
