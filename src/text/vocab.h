/*
 * The data of a tokenizer, shared by the files of this folder: vocab_build.c builds the data from a
 * source, special.c finds special tokens in a text, spm.c, bpe.c, unigram.c, wordpiece.c and
 * longest.c encode the text between special tokens, tokenizer.c is the interface.
 */
#ifndef TFT_VOCAB_H
#define TFT_VOCAB_H

#include "file/file.h"
#include "merge.h"
#include "pretokenize.h"

enum {
    TFT_TOKEN_MAX = 1024, /* bytes of the longest token that a vocabulary may have */
    /* The most entries that a search of a hash table reads. Tables are at most 3/4 full, so the
       longest run of used entries is about 2 ln n / (3/4 - 1 - ln 3/4) = 53 ln n, or 1100 for 2^30
       entries. Only a file made to be slow has a longer run. */
    TFT_PROBE_MAX = 4096,
};

struct tft_token {
    uint32_t offset;    /* of the text in bytes[] */
    uint16_t n;         /* bytes of the text */
    unsigned char kind; /* enum tft_token_kind */
    unsigned char flags;
};

/* Flags of a token. */
enum {
    TFT_TOKEN_ENDS = 1,    /* generation stops at it */
    TFT_TOKEN_LSTRIP = 2,  /* as a special token in a text, takes the white space before it */
    TFT_TOKEN_RSTRIP = 4,  /* ... and after it */
    TFT_TOKEN_RAW = 8,     /* its name has characters that no text becomes: a token with the same
                             text and a proper name goes first */
    TFT_TOKEN_LATE = 16,   /* is found after the space before the text is put, */
    TFT_TOKEN_SPACED = 32, /* ... and only with a space before it, which it takes */
};

enum tft_vocab_kind {
    TFT_VOCAB_SPM,
    TFT_VOCAB_BPE,
    TFT_VOCAB_UNIGRAM,
    TFT_VOCAB_LONGEST,
    TFT_VOCAB_WORDPIECE
};
_Static_assert(TFT_TOKEN_MAX <= UINT16_MAX, "the length of a token fits tft_token.n");

/* An entry of the hash table of tokens. */
struct tft_token_entry {
    uint32_t hash;
    int32_t id; /* -1: empty */
};

/* An entry of the hash table of pairs: two tokens that merge. */
struct tft_pair {
    uint32_t left, right;
    uint32_t rank; /* pairs of lower rank merge first */
    int32_t id;    /* the merged token; -1: empty */
};

struct tft_special {
    const char *p; /* [n], its name */
    uint32_t n;
    int32_t id;
};

struct tft_names {
    struct tft_special *name; /* [n], sorted by name */
    uint32_t n;
    uint32_t first[257]; /* names that begin with byte b: first[b] to first[b + 1] - 1 */
};

struct tft_tokenizer {
    const struct tft_allocator *allocator;
    size_t size; /* of the one allocation for everything except a trie */

    struct tft_token *token; /* [n_token] */
    char *bytes;             /* the texts of the tokens, decoded: with real spaces */
    uint32_t n_token, longest; /* number of tokens, bytes of the longest text */
    int32_t bos, eos, unknown; /* ids, or -1 */
    int32_t fim[TFT_FIM_MIDDLE + 1]; /* likewise */
    int32_t sep;               /* the separator of a pair of texts, or -1 */
    bool add_bos;              /* with TFT_ADD_BOS, a text begins with BOS */
    bool add_eos;              /* with TFT_ADD_EOS, a text ends with EOS */
    bool add_sep;              /* a separator is between the EOS of the first text of a pair and the
                                  second text */
    bool two_types;            /* tokens of the second text of a pair have the type 1 */
    int32_t *suppressed;       /* [n_suppressed] tokens that generation never chooses */
    uint32_t n_suppressed;

    struct tft_token_entry *entry; /* [n_entry, a power of two], by the hash of a token's text; open
                                      addressing */
    uint32_t n_entry;
    int32_t byte[256]; /* the token of a single byte, or -1 */

    struct tft_names special; /* user, control and unknown tokens */
    struct tft_names late;    /* the user tokens with the flag LATE, and not in `special`; their
                                 names have spaces for U+2581, and one before with SPACED */
    char *late_bytes;         /* their names */

    enum tft_vocab_kind kind;

    /* Symbols are characters: names of tokens have U+2581 for a space, and tokens of single bytes
       have names <0xHH>. True for both kinds of SentencePiece, and for BPE with
       rules.characters. */
    bool by_character;
    bool nfc;         /* encoding composes characters first */
    bool space_first; /* encoding puts a space before the text, decoding removes the space */
    bool space_at_start, space_if_none, strip_left, strip_right; /* keys.h */
    bool words_apart; /* no token contains a space after another character, so a text may be cut
                         before the spaces of each word */

    /* SentencePiece's BPE */
    uint32_t *rank; /* [n_token], of a merge into this token: the higher its score, the lower */

    struct tft_unigram *unigram; /* SentencePiece's Unigram model, or NULL */
    struct tft_trie *trie;       /* of a vocabulary where the longest token goes first, or NULL */

    struct tft_wordpiece *wordpiece; /* or NULL */

    /* BPE by a list of merges */
    struct tft_pretokenizer rules;
    struct tft_pair *pair; /* [n_pair, a power of two], by the hash of left and right; open
                              addressing */
    uint32_t n_pair;
};

/* The output of encoding. */
struct tft_ids {
    int32_t *ids;  /* [cap] */
    size_t cap, n; /* n counts all tokens, including tokens beyond cap */
    int32_t last;  /* the newest token, or -1 */
};

static inline void tft_ids_push(struct tft_ids *out, int32_t id)
{
    if (out->n < out->cap)
        out->ids[out->n] = id;
    out->n++;
    out->last = id;
}

/* tft_vocab_find: the token with the text p[n], or -1; of several the first normal token with a
   proper name, or else the first normal token, or else the first. hash: from tft_vocab_hash of
   p[n], which also prefetches the table: a caller with several searches computes all hashes
   first. */
uint32_t tft_vocab_hash(const struct tft_tokenizer *t, const char *p, size_t n);
int32_t tft_vocab_find(const struct tft_tokenizer *t, const char *p, size_t n, uint32_t hash);

/* For messages: the position in the file of p, a pointer into the data of v. The position of v if p
   is not in the file, as in a source from llama2.c. */
uint64_t tft_vocab_offset(const struct tft_source *s, const struct tft_value *v, const void *p);

/* ---- for vocab_build.c */

/* The size of a hash table for n entries: the least power of two that leaves a quarter free. */
uint32_t tft_vocab_table_size(uint32_t n);

/* Enters the normal tokens, first the ones with proper names, then all others. False if a search
   would read too many entries. */
bool tft_vocab_fill_table(struct tft_tokenizer *t);

/* Sorts names, removes duplicate ones, and fills in names->first. */
void tft_special_sort(struct tft_names *names);

/* Decodes the name of a normal token to its bytes, out[s.n], and returns their number. In a
   byte-level vocabulary, a name with a character that means no byte is copied unchanged. */
size_t tft_vocab_decode(const struct tft_tokenizer *t, struct tft_str s, char *out);
size_t tft_bpe_decode(struct tft_str s, char *out);

/* The same for RWKV's vocabulary; *n: the number of bytes. False if the name is damaged. out may be
   NULL. */
bool tft_longest_decode(struct tft_str s, char *out, size_t *n);

/* Fills t->pair from tokenizer.ggml.merges; the caller has checked the type. */
enum tft_status tft_bpe_read_merges(struct tft_tokenizer *t, const struct tft_source *s,
                                    const struct tft_value *merges, struct tft_error *err);

/* ---- for tokenizer.c */

/* The length of the longest of the names that text[n], n >= 1, begins with; *id: the token; 0:
   none. Control and unknown tokens count only within the first `trusted` bytes. */
size_t tft_special_match(const struct tft_tokenizer *t, const struct tft_names *names,
                         const char *text, size_t n, size_t trusted, int32_t *id);

/* Encode text[n], n >= 1, without looking for special tokens: BPE by character, by byte; the
   Unigram model; WordPiece, which takes no memory. TFT_ERR_NOMEM. */
enum tft_status tft_spm_encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text,
                               size_t n, bool first, struct tft_ids *out);
enum tft_status tft_bpe_encode(const struct tft_tokenizer *t, struct tft_merge *m, const char *text,
                               size_t n, struct tft_ids *out);
enum tft_status tft_unigram_encode(const struct tft_tokenizer *t, const char *text, size_t n,
                                   bool first, struct tft_ids *out);
void tft_wordpiece_encode(const struct tft_tokenizer *t, const char *text, size_t n,
                          struct tft_ids *out);

/* The same by the longest tokens. */
void tft_longest_encode(const struct tft_tokenizer *t, const char *text, size_t n,
                        struct tft_ids *out);

/* ---- for the encoders */

tft_merge_join tft_bpe_join; /* ctx is the tokenizer */

/* Pushes the tokens of all bytes, or, if a byte has no token, the unknown token. Several unknown
   tokens in a row become one, as in SentencePiece. */
void tft_push_bytes(const struct tft_tokenizer *t, const char *p, size_t n, struct tft_ids *out);

/* The length of a space or U+2581 at p[n]; 0: neither. */
size_t tft_space_length(const char *p, size_t n);

/* Copies p[n] to `to` with spaces for U+2581; returns the length. */
size_t tft_put_spaces(char *to, const char *p, size_t n);

/* The length of the first word of p[n], including the spaces before the word. */
size_t tft_word_length(const char *p, size_t n);

#endif
