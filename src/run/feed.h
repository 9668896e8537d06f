/* The parts of feeding a session that tft_prefill and tft_step share (feed.c). */
#ifndef TFT_FEED_H
#define TFT_FEED_H

#include "session.h"

/* Whether the next n tokens can share a pass: they fit one pass, and no tokens have to be computed
   again or dropped before them. In a model whose layers share keys and values they see the same
   blocks, too. */
bool tft_feed_can_join(const struct tft_session *s, size_t n);

/* Whether the tokens are one that was computed as a draft token: tft_prefill then runs no pass. */
bool tft_feed_drafted(const struct tft_session *s, const int32_t *tokens, size_t n);

/* Writes draft tokens of the model's predictor after the next token, which is listed: the ones that
   pay, at most `most`. Returns their number. The logits of the last one are row 0 of the session's
   memory. */
uint32_t tft_feed_predict(struct tft_session *s, uint32_t most);

/* Begins such a call: checks and lists the tokens, and plans where they go in the cache. Fails as
   tft_prefill does. */
enum tft_status tft_feed_begin(struct tft_session *s, const int32_t *tokens, uint32_t n);

/* Call it after a pass of n tokens; the session holds `end` tokens then. The pass has written the
   logits of the last n_logits of them and the hidden vectors of the last n_hidden. */
enum tft_status tft_feed_passed(struct tft_session *s, uint32_t n, uint32_t end, uint32_t n_logits,
                                uint32_t n_hidden);

/* Call it when a call of n tokens has succeeded. */
void tft_feed_end(struct tft_session *s, size_t n);

#endif
