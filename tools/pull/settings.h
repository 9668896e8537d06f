/* Folders and settings by the environment, under the names that other programs of the hub read. */
#ifndef PULL_SETTINGS_H
#define PULL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "name.h"

/* The folders return false if no variable says where home is, or a path is too long. */
bool settings_hub_folder(char out[PULL_PATH]);    /* the cache in Hugging Face's layout */
bool settings_llama_folder(char out[PULL_PATH]);  /* llama.cpp's own cache, of 2025 */
bool settings_ollama_folder(char out[PULL_PATH]); /* ollama's models */
bool settings_own_folder(char out[PULL_PATH]);    /* files that tuffet made of pulled folders */

/* Where the hub is, without a slash at the end. */
bool settings_endpoint(char out[PULL_PATH]);

/* The token, empty if there is none. false: there is one that cannot be a token. */
enum { SETTINGS_TOKEN = 512 };
bool settings_token(char out[SETTINGS_TOKEN]);

bool settings_offline(void);

/* Seconds without a byte after which a connection counts as broken. */
long settings_patience(void);

#endif
