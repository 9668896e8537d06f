/* Work of the engine's thread on slots beside answers: to list them, and to save, restore and erase
   the session of a slot without a job. */
#ifndef SERVE_CHORE_H
#define SERVE_CHORE_H

#include "slot.h"

enum chore_kind { CHORE_LIST, CHORE_SAVE, CHORE_RESTORE, CHORE_ERASE };

struct chore {
    enum chore_kind kind;
    size_t slot;
    char path[4096]; /* of the saved session */
    struct loras loras; /* of a session that the chore opens */

    enum tft_status status; /* the results; err is set if status is not TFT_OK */
    struct tft_error err;
    size_t n_tokens, bytes; /* of the session; of the file */
    double seconds;
    struct chore_slot {
        bool busy;
        size_t n_tokens; /* of its session */
    } *slots;            /* [n_slots] of CHORE_LIST; the owner of the chore frees it */
    size_t n_slots;

    void (*done)(struct chore *c); /* called by the clients' thread; may free the chore */
    void *user;
    struct chore *next; /* the engine's */
};

/* Whether the chore can be done now. */
bool chore_is_ready(const struct chore *c, const struct slot *slots, size_t n_slots);

/* Does the chore. The session of its slot is open. */
void chore_do(struct chore *c, struct slot *slots, size_t n_slots);

#endif
