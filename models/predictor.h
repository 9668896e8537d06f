/*
 * A block that predicts a further token (nextn_predict_layers; "multi-token prediction",
 * DeepSeek-AI 2024, arXiv 2412.19437, section 2.2): one more layer after the model's, which reads
 * the token x and the model's hidden vector h of the token before, after the last norm; 0 before
 * the first token.
 *
 *      y = Wproj [rms(embed[x]) g_embed, rms(h) g_hidden]      the halves side by side
 *      y = layer(y)                                            with keys and values of its own
 *      g = rms(y) g_out
 *      logits = Wout g                                         of the token after x
 *
 * For the token after that, the predicted token takes the place of x, and g that of h. So it makes
 * draft tokens (run/feed.c). The model's logits do not depend on it.
 */
#ifndef TFT_PREDICTOR_H
#define TFT_PREDICTOR_H

#include "model/model.h"

/* Loads m->predictor, if tft_model_opts asks for it; after all other tensors. */
void tft_predictor_load(struct tft_load *ld);

#endif
