/* The input of the block that predicts a further token (models/predictor.h). */
#include "conv.h"

#include <string.h>

void tft_cpu_norm_y(struct tft_pass *p, const struct tft_norm *w)
{
    uint32_t begin, end;
    tft_pass_touch(p, BIT(TFT_X), BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        tft_cpu_norm_row(p, w, t, tft_pass_row(p, TFT_Y, t));
}

/* Z = Y of the token before, which for the first token is the state. */
static void shift(struct tft_pass *p, const struct tft_layer *b)
{
    float *state = tft_cpu_state(p, b);
    size_t begin, end;
    tft_pass_touch(p, BIT(TFT_Y), BIT(TFT_Z) | BIT(TFT_STATES));
    tft_pass_share(p, p->m->n_embd, &begin, &end);
    size_t bytes = (end - begin) * sizeof *state;
    for (uint32_t t = 0; t < p->n; t++)
        memcpy(tft_pass_row(p, TFT_Z, t) + begin,
               (t ? tft_pass_row(p, TFT_Y, t - 1) : state) + begin, bytes);
    memcpy(state + begin, tft_pass_row(p, TFT_Y, p->n - 1) + begin, bytes);
}

/* J = norms of the embedding and of the hidden vector, side by side. */
static void join(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    const struct tft_predictor *r = &m->predictor;
    uint32_t begin, end;
    tft_pass_touch(p, BIT(TFT_X) | BIT(TFT_Z), BIT(TFT_J));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *j = tft_pass_row(p, TFT_J, t);
        const float *hidden =
            p->before ? p->before + (size_t)t * m->n_embd : tft_pass_row(p, TFT_Z, t);
        tft_cpu_norm_row(p, &r->embed, t, j);
        m->kern.rmsnorm(j + m->n_embd, hidden, r->hidden.w, m->n_embd, m->norm_eps);
    }
    tft_cpu_quantize(p, TFT_J, &r->in);
}

void tft_cpu_predict_input(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    if (!p->before)
        tft_pass_by_state(p, shift, &m->layer[m->n_layer]);
    tft_cpu_embed(p);
    join(p);
    tft_cpu_linear(p, TFT_X, &m->predictor.proj, TFT_J, false);
}
