/* The vocabulary of a folder, between tokenizer.json or tokenizer.model and values
   tokenizer.ggml.* */
#ifndef IMPORT_VOCABULARY_H
#define IMPORT_VOCABULARY_H

#include "work.h"

/* Flags of a token. */
enum {
    VOCABULARY_LSTRIP = 1,             /* it takes the white space before it, */
    VOCABULARY_RSTRIP = 2,             /* and after it */
    VOCABULARY_ENDS = 4,               /* generation ends at it */
    VOCABULARY_ADDED = 8,              /* tokenizer.json says that it is an added token */
    VOCABULARY_NORMALIZED = 16,        /* TFT_KEY_NORMALIZED of text/keys.h */
    VOCABULARY_NORMALIZED_SPACED = 32, /* TFT_KEY_NORMALIZED_SPACED */
};

/* Ids are -1 if absent. */
struct import_vocabulary {
    struct import *im;
    const char *path; /* of the current file, for messages */

    const char *model, *pre; /* tokenizer.ggml.model and .pre; pre may be NULL */
    size_t n;                /* im->n_vocab */
    struct tft_str *token;   /* [n], in the memory of the file; p is NULL for a row without a
                                token */
    int32_t *type;           /* [n], enum tft_token_kind */
    float *score;            /* [n] */
    unsigned char *flags;    /* [n] */
    bool scored;             /* scores are written */
    struct tft_str *merge;   /* [n_merge]; without scores, they are written, but for WordPiece */
    size_t n_merge;
    char *text;              /* of merges and names made here */
    char *nul, *symbols;     /* of names with a NUL, and of SentencePiece's symbols, or of
                                WordPiece's pieces */
    unsigned char *charsmap; /* [n_charsmap] */
    size_t n_charsmap;
    bool nfc, strip_left, strip_right;
    bool strips_late;  /* after spaces are put or replaced */
    bool of_pieces;    /* of SentencePiece's file */
    bool by_character; /* names have U+2581 for a space */
    bool space_first, merges_spaces;
    bool space_at_start, space_if_none; /* text/keys.h */
    bool prepends;  /* the normalizer puts a space first, also before names of added tokens */
    bool splits;    /* no token has a space after another character */
    bool of_bert;   /* the normalizer is BERT's, with */
    bool lowercase;
    int strip_accents; /* -1: unknown, as the two below */

    int64_t bos, eos, unknown, pad, eot, eom, cls, sep, mask;
    int64_t last; /* the special token that the post-processor puts after a text */
    int add_bos, add_eos;
    int add_sep; /* two tokens are between the texts of a pair */
};

#define VOCABULARY_FAIL(v, code, ...) import_fail((v)->im, code, __VA_ARGS__)
#define VOCABULARY_BAD(v, fmt, ...)                                                                \
    import_fail((v)->im, TFT_ERR_FORMAT, "%s: " fmt, (v)->path, __VA_ARGS__)
#define VOCABULARY_UNSUPPORTED(v, fmt, ...)                                                        \
    import_fail((v)->im, TFT_ERR_UNSUPPORTED, "%s: " fmt, (v)->path, __VA_ARGS__)

/* Takes memory for n rows; fails if memory is short. vocabulary_end must follow, also on
   failure. */
bool vocabulary_start(struct import_vocabulary *v, struct import *im, size_t n);
void vocabulary_end(struct import_vocabulary *v);

/* Bytes of the longest token: TFT_TOKEN_MAX of src/text/vocab.h. */
enum { VOCABULARY_MOST_NAME = 1024 };

/* Enters a token; fails if there is no such row, the id already has another text, or the text is
   too long. */
bool vocabulary_add(struct import_vocabulary *v, uint64_t id, struct tft_str text, int32_t type,
                    float score);

/* Enters an added token: an object with its content and, perhaps, its flags. `one` outlives v. */
void vocabulary_add_added(struct import_vocabulary *v, uint64_t id, const json_t *one,
                          bool special);

/* The token of a text, by linear search; -1 if there is none. */
int64_t vocabulary_find(const struct import_vocabulary *v, struct tft_str text);

/* "<0xHH>" */
bool vocabulary_is_byte(struct tft_str s);

/* Each reads a file, given as `root` or data[size], and fills in v. */
void vocabulary_read_json(struct import_vocabulary *v, const json_t *root);
void vocabulary_read_model(struct import_vocabulary *v, const unsigned char *data, size_t size);
void vocabulary_read_rwkv(struct import_vocabulary *v, const unsigned char *data, size_t size);

/* The pre-tokenizer of tokenizer.json: v->pre. */
void vocabulary_read_pre(struct import_vocabulary *v, const json_t *pre, bool whole_pieces);

#endif
