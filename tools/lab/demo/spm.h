/* SentencePiece BPE with a llama2.c tokenizer file. A piece is its text, with spaces as spaces. */
#ifndef DEMO_SPM_H
#define DEMO_SPM_H

#include <stddef.h>
#include <stdint.h>

/* the order of every Llama vocabulary */
enum { ID_UNK, ID_BOS, ID_EOS, ID_BYTE, ID_PIECE = ID_BYTE + 256 };

struct spm {
    int n, max_len;
    char **text;  /* [n], NUL-terminated */
    int *len;     /* [n] */
    float *score; /* [n]: the merge of the higher score comes first */
    int *sorted;  /* the ids from ID_PIECE on, sorted by text */
};

void spm_read(struct spm *s, const char *path);
/* *out = the pieces ids[n] of s, in that order, as a vocabulary. */
void spm_subset(struct spm *out, const struct spm *s, const int *ids, int n);
void spm_write(const struct spm *s, const char *path);

int spm_find(const struct spm *s, const char *text, int len); /* -1 if there is no such piece */

/* Encodes a text without adding BOS or a space, and returns the number of tokens; `out` has room
   for len. If `seen` is not NULL, seen[i] is set for every piece that occurs while merging: a
   vocabulary needs these pieces to merge this text in the same way. */
int spm_encode(const struct spm *s, const char *text, int len, uint16_t *out, unsigned char *seen);

#endif
