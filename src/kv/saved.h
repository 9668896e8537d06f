/*
 * The format of a saved cache: its state as numbers, then the memory in use, part by part. One walk
 * counts, writes and reads the parts, so their order is defined once. The format does not depend on
 * the CPU or on the session's capacity: any session with room and the same policy can restore the
 * cache. The walk also copies a cache to another cache.
 */
#ifndef TFT_KV_SAVED_H
#define TFT_KV_SAVED_H

#include "kv.h"

struct tft_kv_saved {
    uint32_t held, dropped, frozen;
    uint32_t prefill; /* of the policy: it varies if it is the prompt's length */
    struct {
        uint32_t sinks, named, waiting, kept, blocks;
    } side[TFT_KV_SIDES];
};

/* The action of a walk on each part: n bytes at p; if p is NULL, n bytes to skip. */
struct tft_walk {
    void (*part)(struct tft_walk *w, void *p, size_t n);
    bool loads;                /* into the session: from a file, or from another session */
    const unsigned char *from; /* a file's start; or a session's next part */
    uint64_t n;                /* bytes so far, including the file's bytes before the parts */
    const struct tft_kv *kv;   /* the source of a copy; NULL: no copy */
    uint32_t crc;              /* saving: of the n bytes written */
    unsigned char *to;         /* the destination; NULL: `write` */
    bool (*write)(void *user, const void *p, size_t n); /* as in tft_session_save_to */
    void *user;
    bool stopped; /* `write` has returned false */
};

/* Walks through a part of n bytes at p; copied: the same part in the source of a copy. */
static inline void tft_walk_part(struct tft_walk *w, void *p, const void *copied, size_t n)
{
    if (copied)
        w->from = copied;
    w->part(w, p, n);
}

/* Walks through the first n slots of a head with slots of bytes. */
void tft_kv_walk_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n,
                      struct tft_walk *w);

/* A saved cache, to check or restore, or the source of a copy. */
struct tft_kv_image {
    struct tft_kv_saved state;
    const struct tft_kv *kv; /* the source of a copy, without the fields below; NULL: a file */
    const unsigned char *first; /* u32 [n_layer] the first position that each layer's ring has */
    const unsigned char *named; /* [held or more] the filter's answers; NULL: no filter */
    const unsigned char *owner; /* the parts of tft_kv_owners */
};

struct tft_kv_saved tft_kv_save(const struct tft_kv *kv);

/* The first position in the ring of a layer; 0: all positions, or the layer has no window. */
uint32_t tft_kv_first(const struct tft_kv *kv, uint32_t layer);

/* Walk through the owners of slots and blocks, and through slots and blocks. first: as in struct
   tft_kv_image; NULL: from the source of a copy, or from the cache itself. */
void tft_kv_owners(const struct tft_kv *kv, const struct tft_kv_saved *a, struct tft_walk *w);
void tft_kv_memory(const struct tft_kv *kv, const struct tft_kv_saved *a,
                   const unsigned char *first, struct tft_walk *w);

/* The reason that this cache cannot have the state; NULL: the state is valid. */
const char *tft_kv_wrong_state(const struct tft_kv *kv, const struct tft_kv_saved *a);

/* The same for the arrays of an image with a valid state. */
const char *tft_kv_wrong_image(const struct tft_kv *kv, const struct tft_kv_image *i);

/* Takes over the state, after a walk has read the memory. */
void tft_kv_restore(struct tft_kv *kv, const struct tft_kv_image *i);

#endif
