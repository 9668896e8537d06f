/*
 * Sessions that have lost their slot. They are saved in memory, within a budget, and optionally in
 * a folder too (folder.h), where a later server finds them. The least recently used one is dropped
 * first. Only the engine's thread uses a store, except store_counts.
 */
#ifndef SERVE_STORE_H
#define SERVE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "trail.h"

struct loras;
struct store;

struct store_options {
    uint64_t memory;    /* bytes; 0: no sessions are stored */
    const char *folder; /* NULL: in memory alone */
    uint64_t disk;      /* bytes of the folder */
};

struct store_counts {
    size_t memory;     /* used bytes of the budget */
    size_t n_sessions; /* in memory */
    uint64_t disk;     /* bytes of the folder's files */
    size_t n_files;    /* that sessions can be loaded from */
    uint64_t n_saved;  /* sessions saved since the store was opened */
};

/* s: an empty session of m, of the kind to store, without adapters. Returns CLI_OK, or CLI_FAILED
   after an error message. *out is NULL if o->memory is 0. */
int store_open(struct store **out, const struct store_options *o, const struct tft_session *s,
               const struct tft_model *m);

/* Waits until all images are written. st may be NULL, here and below. */
void store_close(struct store *st);

/* A number of a slot's adapters, which its images have; s: an empty session. 0: none, or st is
   NULL. */
uint64_t store_adapted(const struct store *st, const struct tft_session *s,
                       const struct loras *l);

/* Saves a session before it is overwritten, unless all but TRAIL_WORTH of its tokens are already
   stored. adapted: its store_adapted. have: how many of its first tokens other sessions have. The
   session may lose its logits. */
void store_keep(struct store *st, struct tft_session *s, uint64_t adapted, size_t have);

/* Saves a session when the server ends, if there is a folder. If memory is short, waits until the
   queued images are written. */
void store_keep_last(struct store *st, struct tft_session *s, uint64_t adapted);

enum store_found { STORE_NOTHING, STORE_MEMORY, STORE_DISK };

/* Looks for the session with most of the prompt: more than `have` tokens, and enough to be worth
   loading. If there is one, call store_load next; it is not dropped before. */
enum store_found store_find(struct store *st, const struct trail_prompt *p, size_t have);

/* Loads the session that store_find has found. False: it is damaged, and s is unchanged. */
bool store_load(struct store *st, struct tft_session *s);

struct store_counts store_counts(struct store *st);

#endif
