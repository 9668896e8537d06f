/* A saved session: docs/file-format.md has the format. save.c writes it, load.c reads it. copy.c
   takes the same parts from another session. */
#ifndef TFT_SAVED_H
#define TFT_SAVED_H

#include "kv/saved.h"
#include "model/identity.h"
#include "session.h"

enum { TFT_SAVED_VERSION = 2, TFT_SAVED_CHECKSUM = 4, TFT_SAVED_LONG_ROPE = 1 };

/* The numbers at the start of a file, little-endian as all others: no machine that tuffet runs on
   has another order. They leave no padding. Every version begins with magic and version. */
struct tft_saved {
    char magic[8];
    uint32_t version, flags; /* flags: LONG_ROPE */
    uint64_t bytes;          /* of the file, its checksum included */
    struct tft_identity model;
    uint64_t seed;          /* of the sampler */
    uint32_t cache, prefix; /* CRC-32 of the policy; of the named prefix's name and tokens, or 0,
                               with that of the adapters (exclusive or) */
    uint32_t pos, n_checkpoint, has_logits, has_sampler;
    uint32_t grammar_bytes; /* of the state of a grammar, or 0 */
    float mirostat_mu;
    struct tft_kv_saved kv;
    float temperature, top_p, min_p, repeat_penalty;
    int32_t top_k, repeat_last;
};
_Static_assert(sizeof(struct tft_saved) == 8 + 8 + 8 + 24 + 8 + (8 + 14 + 6) * 4, "no padding");
_Static_assert(sizeof(bool) == 1, "the filter's answers are saved as they are");

/* The numbers of a session, without `bytes` and `model`. z: NULL, or its sampler. */
struct tft_saved tft_saved_of(const struct tft_session *s, const struct tft_sampler *z);

/* Why a session with the numbers h cannot be loaded into one with the numbers `own`, as the end of
   a line such as "was saved with another model"; NULL: it can. */
const char *tft_saved_differs(const struct tft_saved *h, const struct tft_saved *own);

/* Walks through all parts of a file but the numbers at its start, and the grammar's state and the
   checksum at its end. from: the session that is copied, or NULL. first: as in struct
   tft_kv_image. */
void tft_saved_walk(const struct tft_session *s, const struct tft_session *from,
                    const struct tft_saved *h, const unsigned char *first, struct tft_walk *w);

/* Replaces the session's contents by the parts of the walk. Cannot fail: call it after all
   checks. */
void tft_saved_restore(struct tft_session *s, const struct tft_session *from,
                       const struct tft_saved *h, const struct tft_kv_image *kv,
                       struct tft_walk *w);

/* Bytes of the file; first: NULL when saving. */
uint64_t tft_saved_bytes(const struct tft_session *s, const struct tft_saved *h,
                         const unsigned char *first);

/* Fails for a session that is not on the CPU alone. */
enum tft_status tft_saved_on_cpu(const struct tft_session *s, struct tft_error *err);

extern const char tft_saved_magic[8];

#endif
