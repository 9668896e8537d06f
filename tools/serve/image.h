/*
 * A saved session in memory, with the trail that finds it. A file in the folder of the cache
 * (folder.h) has the same bytes: numbers in the machine's byte order, without gaps.
 *
 *      8   TFTKEPT and a newline
 *      4   version, 2
 *      4   the key: differs for other models and caches
 *      8   bytes in total
 *      4   tokens N
 *      4   marks M
 *      4   least, as in struct trail
 *      4   adapted, as in struct trail
 *      4   0
 *      4   CRC-32 of the fields before, the tokens and the marks
 *    4 N   the tokens
 *    4 M   the marks
 *          the session as tft_session_save_mem saves it, with a checksum of its own
 */
#ifndef SERVE_IMAGE_H
#define SERVE_IMAGE_H

#include <stdatomic.h>

#include "loras.h"
#include "trail.h"

/* The bytes of images and of the lists that find them: `held` never exceeds `most`. Threads may
   share a budget. */
struct budget {
    atomic_size_t held;
    size_t most;
};

bool budget_take(struct budget *b, size_t n); /* false: fewer bytes are left */
void budget_give(struct budget *b, size_t n);

/* Common to all images of a server. */
struct image_kind {
    uint32_t key;
    bool marked; /* as in struct trail */
    size_t most_tokens;
};

/* s: an empty session of m without adapters. */
struct image_kind image_kind_of(const struct tft_session *s, const struct tft_model *m);

/* Differs for sessions with other adapters; 0: none. s: an empty session of the kind. */
uint64_t image_adapted(const struct tft_session *s, const struct image_kind *k,
                       const struct loras *l);

struct image {
    atomic_uint refs;
    struct budget *budget; /* its memory counts towards this budget */
    struct trail trail;
    unsigned char *data; /* [size] from the system, not the heap: freed pages go back to the
                            system */
    size_t size;
};

/* Bytes of the budget: for image_save of s; for an image of `size` bytes. */
size_t image_bytes(const struct tft_session *s, const struct image_kind *k);
size_t image_taken(size_t size);

/* Saves a session, and drops its logits. adapted: its image_adapted. NULL: the image does not fit
   the budget or memory, or the session cannot be saved. */
struct image *image_save(struct tft_session *s, const struct image_kind *k, uint64_t adapted,
                         struct budget *b);

/* Result of reading a file. */
enum image_found {
    IMAGE_GOOD,
    IMAGE_FOREIGN, /* not an image at all */
    IMAGE_OTHER, /* of another version, model or cache, or with more tokens than there is room
                    for */
    IMAGE_DAMAGED,
    IMAGE_NO_ROOM, /* in the budget, or in memory */
};

/* Reads an image of `size` bytes. Only image_load checks the saved session in it. */
enum image_found image_read(struct image **out, int fd, size_t size, const struct image_kind *k,
                            struct budget *b);

/* Reads the trail alone, into memory of the budget; trail_free gives it back. */
enum image_found image_read_trail(struct trail *out, int fd, size_t size,
                                  const struct image_kind *k, struct budget *b);
/* The trail of an image. */
bool image_copy_trail(struct trail *out, const struct image *i, struct budget *b);
void trail_free(struct trail *t, struct budget *b);

/* Replaces the contents of s by the image. False: the image is damaged, and s is unchanged. */
bool image_load(const struct image *i, struct tft_session *s);

struct image *image_share(struct image *i);
void image_drop(struct image *i); /* frees i when its last owner drops it; i may be NULL */

#endif
