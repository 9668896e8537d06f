/* The list of models that a server has, and their names. */
#ifndef SERVE_CATALOG_H
#define SERVE_CATALOG_H

#include "server.h"

enum {
    CATALOG_MOST = 256,
    CATALOG_ALL = 2 * CATALOG_MOST, /* with retired models */
};

/* Adds the model of a file, with the name name[n]; if n is 0, with the file's name, without .gguf.
   Returns CLI_OK, or CLI_FAILED or CLI_USAGE after an error message, also if a model of that name
   is there. */
int catalog_add(struct server *s, const char *name, size_t n, const char *path);

/* Adds the models of the file of --config. */
int catalog_add_setup(struct server *s);

/* Adds the files *.gguf of a folder, in the order of their names. */
int catalog_add_folder(struct server *s, const char *folder);

/* Adds a model, which the list takes, if no other one has its name. Returns as catalog_add. */
int catalog_take(struct server *s, struct served *m);

/* Whether the aliases are NEW=NAME, with names of models, and new ones; an alias of the file of
   --config too. */
int catalog_check_aliases(const struct server *s);

/* The model of this name, or with this alias; NULL: there is none. Clients of Ollama add
   ":latest". */
struct served *catalog_find(const struct server *s, const char *name);

/* A new list of its aliases. */
json_t *catalog_aliases(const struct server *s, const struct served *m);

void catalog_free(struct server *s);

#endif
