/* What tft_prefill and tft_step do alike with a session: feed.c. */
#ifndef TFT_FEED_H
#define TFT_FEED_H

#include "session.h"

/* Whether the session can share a pass for its next n tokens: they are of one pass, nothing is to
   be computed again before, and nothing dropped. */
bool tft_feed_can_join(const struct tft_session *s, size_t n);

/* Begins such a call: checks and lists the tokens, and plans where they go in the cache. Fails as
   tft_prefill does. */
enum tft_status tft_feed_begin(struct tft_session *s, const int32_t *tokens, uint32_t n);

/* What follows a pass that has computed n tokens, up to the session's first `end`. Their last
   n_logits have left logits in the session's memory. */
enum tft_status tft_feed_passed(struct tft_session *s, uint32_t n, uint32_t end, uint32_t n_logits);

/* What follows a call of n tokens that has gone well. */
void tft_feed_end(struct tft_session *s, size_t n);

#endif
