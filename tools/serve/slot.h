/* Slots: the sessions of the engine. The engine's thread alone uses them. */
#ifndef SERVE_SLOT_H
#define SERVE_SLOT_H

#include "job.h"

struct slot {
    struct tft_session *s; /* NULL: not opened yet */
    bool off;              /* there is no memory for a session */
    struct job *job;       /* NULL: the slot is free */
    const int32_t *feed;   /* [n_feed] tokens that the session is to get: the rest of the prompt, or
                              `next` */
    size_t n_feed;
    bool in_prompt;
    bool empty_prompt; /* the model's prefix holds all of it, and is asked for the logits */
    int32_t next[FORM_MOST];
    uint64_t used; /* when it was last fed, in passes */
};

/* How many tokens at the beginning of the prompt need no computing in this slot; the last token of
   the prompt is always left to compute. */
size_t slot_common(const struct slot *s, const int32_t *ids, size_t n);

/* The free slot for this prompt, or NULL if all are busy: the one that shares most with it. But the
   tokens of another conversation are spared while there are slots without tokens. */
struct slot *slot_choose(struct slot *slots, size_t n_slots, const int32_t *ids, size_t n);

/* The slot whose session has so much more of the prompt than that of `to` that it is worth copying;
   or NULL. It may be busy. */
const struct slot *slot_source(const struct slot *slots, size_t n_slots, const struct slot *to,
                               const int32_t *ids, size_t n);

#endif
