/* The tokens of a session, and the positions that it can go back to: compared with a prompt, they
   tell how much computing the session saves. */
#ifndef SERVE_TRAIL_H
#define SERVE_TRAIL_H

#include "tools/cli/cli.h"

struct trail {
    const int32_t *tokens; /* [n_tokens] */
    const uint32_t *marks; /* [n_marks] the checkpoints of a model with states in its layers */
    uint32_t n_tokens, n_marks;
    uint32_t least;   /* a quantized cache, or one with windows, cannot go back to fewer tokens */
    bool marked;      /* the session goes back only to its marks */
    uint64_t adapted; /* differs for sessions with other adapters; 0: none */
};

/* Fewer tokens than this are not worth saving or loading a session. */
enum { TRAIL_WORTH = 32 };

/* Tokens to compute. */
struct trail_prompt {
    const int32_t *ids; /* [n] */
    size_t n;
    uint64_t adapted; /* as in struct trail */
};

/* Number of leading tokens of ids[n] that the session saves computing. Never all n: the last token
   is computed for its logits. */
size_t trail_common(const struct trail *t, const struct trail_prompt *p);

/* Likewise for an open session. */
size_t trail_common_now(const struct tft_session *s, const int32_t *ids, size_t n);

/* Whether a session with the trail `by` has all but TRAIL_WORTH of the tokens of t. */
bool trail_covers(const struct trail *by, const struct trail *t);

/* The least number of tokens above 0 that an open session can go back to. */
uint32_t trail_least(const struct tft_session *s);

/* The marks of an open session of a model with states, in order, to marks[returned]; NULL: only
   counts. */
uint32_t trail_marks(const struct tft_session *s, uint32_t *marks);

#endif
