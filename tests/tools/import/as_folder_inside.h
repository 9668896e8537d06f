/* What the files of as_folder share. */
#ifndef TFT_TEST_AS_FOLDER_INSIDE_H
#define TFT_TEST_AS_FOLDER_INSIDE_H

#include <stdio.h>

#include "as_folder.h"
#include "file/file.h"

/* How a tensor of the folder is made of that of the GGUF file. */
enum how {
    AS_IT_IS,
    ROTATED,
    QKV,
    QKV_ROTATED,
    TRANSPOSED,
    APART,
    EXPERTS,
    WITH_UP,
    IN_GATE,
    V_ROWS,
    V_COLUMNS,
    WIDENED,
    TURNED,
    TURNED_WITH_UP,
    QKVZ,
    LERPS,
    HEADS,
    SPLIT
};

#define GRANITES " granitemoe granite_swa granitehybrid "
#define HALF_BLOCKS " mamba2 nemotron_h nemotron_h_moe "

enum { SHORT_VALUE = 8 }; /* numbers of a value in the toy of mimo2 */

/* Sizes of a delta net: heads of keys, heads of values, numbers of a head. */
struct heads {
    uint64_t keys, values, dim;
};

struct out {
    FILE *header, *data;
    uint64_t at;
    struct heads heads;
};

/* ---------------------------------------------------------------------------- as_folder_names.c */

bool as_folder_in(const char *archs, const char *arch);
bool as_folder_is(const struct toy *t, const char *arch);
/* The last blocks that predict further tokens. */
uint32_t as_folder_predicting(const struct toy *t);
/* The name of a tensor in the folder. False: it is not one of the folder. */
bool as_folder_name(const struct toy *t, const char *gguf, char name[160], enum how *how);

/* ----------------------------------------------------------------------------- as_folder_data.c */

/* dims: matrices first; no more than one is no dimension */
void as_folder_put_head(struct out *out, const char *name, enum tft_dtype type, uint64_t matrices,
                        uint64_t rows, uint64_t cols, bool vector, uint64_t bytes);
/* up: with WITH_UP, the tensor with rows that come after the rows of each matrix of `from` */
void as_folder_put_tensor(struct out *out, const struct toy *t, const struct tft_tensor *from,
                          const struct tft_tensor *up, const char *name, enum how how);
/* The tensor named like a gate, with "up" instead of "gate". */
const struct tft_tensor *as_folder_up_of(const struct tft_source *s, const char *gate);

/* --------------------------------------------------------------------------- as_folder_config.c */

void as_folder_config(const struct toy *t, const struct tft_source *s, const char *path);

/* ---------------------------------------------------------------------------------- as_folder.c */

FILE *as_folder_create(const char *folder, const char *name);

#endif
