/*
 * What a tokenizer is made of, shared by its files: vocab.c builds it from a source, special.c
 * finds special tokens in text, spm.c and bpe.c encode what is between them, tokenizer.c is the way
 * in.
 */
#ifndef TFT_VOCAB_H
#define TFT_VOCAB_H

#include "file/file.h"
#include "merge.h"
#include "pretokenize.h"

enum {
    TFT_TOKEN_MAX = 1024, /* bytes of the longest token that a vocabulary may have */
    /* Places that a search of a table looks at. Tables are at most 3/4 full, where the longest run
       of full places is about 2 ln n / (3/4 - 1 - ln 3/4) = 53 ln n, 1100 for 2^30 entries: more is
       a file made to be slow. */
    TFT_PROBE_MAX = 4096,
};

struct tft_token {
    uint32_t at;        /* in bytes[] */
    uint16_t n;         /* at most TFT_TOKEN_MAX */
    unsigned char kind; /* enum tft_token_kind */
    bool ends;          /* generation */
};

struct tft_slot { /* of the table of tokens */
    uint32_t hash;
    int32_t id; /* -1: empty */
};

struct tft_pair { /* two tokens that merge */
    uint32_t left, right;
    uint32_t rank; /* the lower the sooner */
    int32_t id;    /* what they make; -1: an empty place of the table */
};

struct tft_special {
    const char *p;
    uint32_t n;
    int32_t id;
};

struct tft_tokenizer {
    const struct tft_allocator *allocator;
    size_t size; /* of the one block that holds all of it */

    struct tft_token *token; /* [n_token] */
    char *bytes;             /* what the tokens stand for: spaces as spaces, bytes as bytes */
    uint32_t n_token, longest;
    int32_t bos, eos, unknown; /* or -1 */
    bool add_bos;

    struct tft_slot *slot; /* by a hash of the token's bytes; open addressing, n_slot a power of
                              two */
    uint32_t n_slot;
    int32_t byte[256]; /* the token of a lone byte, or -1 */

    struct tft_special *special; /* sorted: those of kind user, control and unknown */
    uint32_t n_special, special_of[257]; /* those that begin with byte b are special_of[b] to
                                            special_of[b + 1] */

    bool is_spm;
    /* SentencePiece */
    uint32_t *rank;   /* [n_token] of making the token: the higher its score the lower */
    bool space_first; /* put a space before text, and take it off again */
    bool words_apart; /* no token has a space after something else: text may be cut before such a
                         space */
    /* byte-level BPE */
    struct tft_pretokenizer rules;
    struct tft_pair *pair; /* by a hash of left and right; open addressing, n_pair a power of two */
    uint32_t n_pair;
};

/* Where encoding writes to. */
struct tft_ids {
    int32_t *ids;
    size_t cap, n; /* n counts on beyond cap */
    int32_t last;  /* the newest, or -1 */
};

static inline void tft_ids_push(struct tft_ids *out, int32_t id)
{
    if (out->n < out->cap)
        out->ids[out->n] = id;
    out->n++;
    out->last = id;
}

/* The token of these bytes, or -1. Of several with the same bytes the first of kind normal, or else
   the first. `hash` is tft_vocab_hash of them, which also starts to fetch their place in the table:
   who has several searches to do hashes them all first. */
uint32_t tft_vocab_hash(const struct tft_tokenizer *t, const char *p, size_t n);
int32_t tft_vocab_find(const struct tft_tokenizer *t, const char *p, size_t n, uint32_t hash);

/* ---- for tft_tokenizer_open */

/* Builds it all, in one block. The first thing that makes no sense is the error. */
enum tft_status tft_vocab_read(struct tft_tokenizer **out, const struct tft_source *s,
                               const struct tft_allocator *a, struct tft_error *err);

/* Where p, in the data of v, is in the file, for messages; v's place if it is not in it, as for a
   llama2.c model. */
uint64_t tft_vocab_offset(const struct tft_source *s, const struct tft_value *v, const void *p);

/* ---- for vocab.c */

/* The smallest table with a quarter of its places free. */
uint32_t tft_vocab_table_size(uint32_t n);

/* Sorts t->special[0..n_special) and fills in special_of. */
void tft_special_sort(struct tft_tokenizer *t);

/* The bytes that a normal token of a byte-level vocabulary stands for, to out[s.n]; returns how
   many. If it has characters that stand for no byte, it stands for itself. */
size_t tft_bpe_decode(struct tft_str s, char *out);

/* Fills t->pair from tokenizer.ggml.merges, whose type has been checked. */
enum tft_status tft_bpe_read_merges(struct tft_tokenizer *t, const struct tft_source *s,
                                    const struct tft_value *merges, struct tft_error *err);

/* ---- for tokenizer.c: text without special tokens, n >= 1 */

/* The longest special token that the text begins with: its bytes, or 0. Control, unknown ones only
   if `control`. */
size_t tft_special_match(const struct tft_tokenizer *t, const char *text, size_t n, bool control,
                         int32_t *id);

enum tft_status tft_spm_encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text,
                               size_t n, struct tft_ids *out);
enum tft_status tft_bpe_encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text,
                               size_t n, struct tft_ids *out);

#endif
