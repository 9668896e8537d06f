/* Names that come from users and from the hub: of models, and of files in a repository. */
#ifndef PULL_NAME_H
#define PULL_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum { PULL_PATH = 4096, PULL_REPO = 200, PULL_QUANT = 256, PULL_URL = 8192 };

/* USER/REPO[:QUANT] */
struct pull_name {
    char repo[PULL_REPO];   /* USER/REPO */
    char quant[PULL_QUANT]; /* a part of a file's name, or a whole one; empty: the default */
};

/* text: with or without "hf:" before it. false: the text is no such name. */
bool pull_name_read(struct pull_name *n, const char *text);

/* Whether the operand of a command names a model of the hub: "hf:..." */
bool pull_is_name(const char *operand);

/* The name of the repository's folder in a cache: models--USER--REPO. */
void pull_name_folder(const char *repo, char out[PULL_REPO + 16]);

/* The opposite. false: the folder is no such one. */
bool pull_name_of_folder(const char *folder, char repo[PULL_REPO]);

/* Whether a file may have this path in a repository's folder: it is relative and stays inside, and
   has neither backslashes nor control characters. */
bool pull_path_is_safe(const char *path);

/* Whether text is n digits of a hash, in lower case. */
bool pull_is_hex(const char *text, size_t n);

/* snprintf for paths. false: the path is too long. */
__attribute__((format(printf, 2, 3))) bool pull_path_print(char out[PULL_PATH], const char *fmt,
                                                           ...);

#endif
