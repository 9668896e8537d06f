/* Slots: the sessions of the engine. Only the engine's thread uses them. */
#ifndef SERVE_SLOT_H
#define SERVE_SLOT_H

#include "job.h"

struct slot {
    struct tft_session *s;     /* NULL: not opened yet */
    struct tft_session *draft; /* of the draft model, or NULL */
    struct loras loras;        /* of the session */
    uint64_t adapted;          /* as image_adapted of the session */
    bool off;                  /* there is no memory for a session */
    struct job *job;           /* NULL: the slot is free */
    const int32_t *feed;       /* [n_feed] tokens to feed: the rest of the prompt, or `next` */
    size_t n_feed;
    bool in_prompt;
    bool empty_prompt; /* the model's prefix holds all of the prompt, and gives the logits */
    int32_t next[FORM_MOST];
    uint64_t used; /* pass in which it was last fed */
};

/* Number of leading tokens of the prompt that this slot need not compute; the last token of the
   prompt is always left to compute. 0 if the slot has other adapters than l. */
size_t slot_common(const struct slot *s, const struct loras *l, const int32_t *ids, size_t n);

/* The free slot for the job, or NULL if all are busy: the slot that shares most with its prompt.
   But the tokens of another conversation are spared while some slots have no tokens. */
struct slot *slot_choose(struct slot *slots, size_t n_slots, const struct job *j);

/* The slot with enough more of the job's prompt than `to` has to be worth copying its session; or
   NULL. It may be busy. */
const struct slot *slot_source(const struct slot *slots, size_t n_slots, const struct slot *to,
                               const struct job *j);

#endif
