/* The tokens of a session, and where among them it can go back to: what a prompt is compared with
   to find the session that saves it most computing. */
#ifndef SERVE_TRAIL_H
#define SERVE_TRAIL_H

#include "tools/cli/cli.h"

struct trail {
    const int32_t *tokens; /* [n_tokens] */
    const uint32_t *marks; /* [n_marks] the checkpoints of a model whose layers have states */
    uint32_t n_tokens, n_marks;
    uint32_t least; /* a quantized cache, or one with windows, goes back to no fewer tokens */
    bool marked;    /* the session goes back to its marks alone */
};

/* Fewer tokens than this are not worth saving or loading a session. */
enum { TRAIL_WORTH = 32 };

/* How many of the first tokens of ids[n] the session saves computing. Never all n: the last one is
   computed for its logits. */
size_t trail_common(const struct trail *t, const int32_t *ids, size_t n);

/* The same for an open session. */
size_t trail_common_now(const struct tft_session *s, const int32_t *ids, size_t n);

/* Whether a session with the trail `by` has all but TRAIL_WORTH of the tokens of t. */
bool trail_covers(const struct trail *by, const struct trail *t);

/* Whether the session has all that its tokens ask for: it has not slid, and what it holds does not
   depend on where a prompt ended. */
bool trail_is_whole(const struct tft_session *s);

/* The least number of tokens above 0 that the session's cache can go back to. */
uint32_t trail_least(const struct tft_session *s);

#endif
