/*
 * A saved session in memory, with the trail that finds it. Its bytes are also those of a file in
 * the folder of the cache (folder.h): numbers in the machine's byte order, without gaps.
 *
 *      8   TFTKEPT and a newline
 *      4   version, 1
 *      4   the key: sessions of other models and caches have another one
 *      8   bytes of all
 *      4   tokens N
 *      4   marks M
 *      4   least, as in struct trail
 *      4   CRC-32 of all before and of what follows, without the saved session
 *    4 N   the tokens
 *    4 M   the marks
 *          the session as tft_session_save_mem saves it, with a checksum of its own
 */
#ifndef SERVE_IMAGE_H
#define SERVE_IMAGE_H

#include <stdatomic.h>

#include "trail.h"

/* The bytes of images and of the lists that find them: `held` never exceeds `most`. Threads may
   share a budget. */
struct budget {
    atomic_size_t held;
    size_t most;
};

bool budget_take(struct budget *b, size_t n); /* false: there are fewer bytes left */
void budget_give(struct budget *b, size_t n);

/* What all images of a server have in common. */
struct image_kind {
    uint32_t key;
    bool marked; /* as in struct trail */
    size_t most_tokens;
};

/* s: an empty session. */
struct image_kind image_kind_of(const struct tft_session *s);

struct image {
    atomic_uint refs;
    struct budget *budget; /* that its memory is of */
    struct trail trail;
    unsigned char *data; /* [size] of the system, not of the heap: it is given back when freed */
    size_t size;
};

/* Bytes of the budget: for image_save of s; for an image of `size` bytes. */
size_t image_bytes(const struct tft_session *s);
size_t image_taken(size_t size);

/* Saves a session, whose logits are lost. NULL: it does not fit the budget, or there is no memory,
   or the session cannot be saved. */
struct image *image_save(struct tft_session *s, const struct image_kind *k, struct budget *b);

/* What became of reading a file. */
enum image_found {
    IMAGE_GOOD,
    IMAGE_FOREIGN, /* not an image at all */
    IMAGE_OTHER, /* of another version, model or cache, or of more tokens than there is room for */
    IMAGE_DAMAGED,
    IMAGE_NO_ROOM, /* in the budget, or in memory */
};

/* Reads an image of `size` bytes. Only image_load checks the saved session in it. */
enum image_found image_read(struct image **out, int fd, size_t size, const struct image_kind *k,
                            struct budget *b);

/* Reads the trail alone, into memory of the budget, which trail_free gives back. */
enum image_found image_read_trail(struct trail *out, int fd, size_t size,
                                  const struct image_kind *k, struct budget *b);
/* The same of an image. */
bool image_copy_trail(struct trail *out, const struct image *i, struct budget *b);
void trail_free(struct trail *t, struct budget *b);

/* Replaces what s holds by the image. False: the image is damaged, and s is as it was. */
bool image_load(const struct image *i, struct tft_session *s);

struct image *image_share(struct image *i);
void image_drop(struct image *i); /* frees it once nobody shares it; i may be NULL */

#endif
