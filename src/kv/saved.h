/*
 * A cache as it is saved: its state as numbers, then the memory in use, part by part. The same walk
 * counts, writes and reads the parts, so their order is written down once. Where numbers lie does
 * not depend on the CPU, nor on the capacity of the session: a cache is restored in any that has
 * room, with the same policy. The walk also copies a cache to another one.
 */
#ifndef TFT_KV_SAVED_H
#define TFT_KV_SAVED_H

#include "kv.h"
#include "port/port.h"

struct tft_kv_saved {
    uint32_t held, dropped, frozen;
    uint32_t prefill; /* of the policy: it changes where it is the prompt's length */
    struct {
        uint32_t sinks, named, waiting, kept, blocks;
    } side[TFT_KV_SIDES];
};

/* What a walk does with each part: n bytes at p, or n bytes that are skipped if p is NULL. */
struct tft_walk {
    void (*part)(struct tft_walk *w, void *p, size_t n);
    bool loads;                /* into the session: from a file, or from another session */
    const unsigned char *from; /* a file: it begins here. A session: the next part is here */
    uint64_t n;                /* bytes of the parts so far, and of the file before them */
    const struct tft_kv *kv;   /* the cache that is copied; NULL: none is */
    uint32_t crc;              /* saving: of the n bytes that were written */
    unsigned char *to;         /* here; or else into `file` */
    FILE *file;
    int os; /* errno of the first failure in `file`, or 0 */
};

/* Walks through a part of n bytes at p; copied: where the session that is copied has it. */
static inline void tft_walk_part(struct tft_walk *w, void *p, const void *copied, size_t n)
{
    if (copied)
        w->from = copied;
    w->part(w, p, n);
}

/* Walks through the first n slots of a head, which are bytes. */
void tft_kv_walk_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n,
                      struct tft_walk *w);

/* A saved cache while it is checked or restored, or one that has been copied. */
struct tft_kv_image {
    struct tft_kv_saved state;
    const struct tft_kv *kv; /* the copied one, and nothing of what follows; NULL: in a file */
    const unsigned char *first; /* u32 [n_layer] the first position that each layer's ring has */
    const unsigned char *named; /* [held or more] the filter's answers; NULL without a filter */
    const unsigned char *owner; /* what tft_kv_owners walks through */
};

struct tft_kv_saved tft_kv_save(const struct tft_kv *kv);

/* The first position that the ring of a layer has; 0: all, or the layer has no window. */
uint32_t tft_kv_first(const struct tft_kv *kv, uint32_t layer);

/* Walk through the owners of slots and blocks, and through slots and blocks. first: as in struct
   tft_kv_image; NULL: those of the cache that is copied, or of the cache itself. */
void tft_kv_owners(const struct tft_kv *kv, const struct tft_kv_saved *a, struct tft_walk *w);
void tft_kv_memory(const struct tft_kv *kv, const struct tft_kv_saved *a,
                   const unsigned char *first, struct tft_walk *w);

/* What is wrong with the state, so that this cache cannot have it; NULL: nothing. */
const char *tft_kv_wrong_state(const struct tft_kv *kv, const struct tft_kv_saved *a);

/* Likewise with the arrays of an image whose state is right. */
const char *tft_kv_wrong_image(const struct tft_kv *kv, const struct tft_kv_image *i);

/* Takes over the state, whose memory a walk has read. */
void tft_kv_restore(struct tft_kv *kv, const struct tft_kv_image *i);

#endif
