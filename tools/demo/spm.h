/* SentencePiece BPE over a llama2.c tokenizer file: a piece is its text, with spaces as spaces. */
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
    float *score; /* [n]: of two possible merges, the higher is done first */
    int *sorted;  /* ids of whole pieces by text */
};

void spm_read(struct spm *s, const char *path);
/* The pieces `ids` of s, in that order, as a vocabulary of its own. */
void spm_subset(struct spm *out, const struct spm *s, const int *ids, int n);
void spm_write(const struct spm *s, const char *path);

int spm_find(const struct spm *s, const char *text, int len); /* -1 if there is no such piece */

/* Tokens of a text as it is: no BOS, no leading space added. `out` has room for len of them. If
   `seen` is not NULL, seen[i] is set for every piece that exists on the way: what must be in a
   vocabulary for this text to be merged the same way. */
int spm_encode(const struct spm *s, const char *text, int len, uint16_t *out, unsigned char *seen);

#endif
