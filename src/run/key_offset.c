/*
 * Offsets of keys in slots of bytes (kv.h). The bias of a key's product may be a hundred times as
 * large as the rest of the key in some channels, as in qwen2; one scale for the whole key would
 * then leave the rest few of its 8 bits. RoPE turns the bias by the token's position, and hardly
 * turns the slow pairs of channels, which have the large biases. So the offset is the mean of the
 * turned bias over the first positions: near the bias in slow pairs, and near 0 in fast ones.
 *
 * Any offset leaves the probabilities right; this one leaves bytes for what differs between tokens.
 * Where a score is more than compared with others, with a soft cap or beside a sink, there is none.
 */
#include <math.h>
#include <string.h>

#include "base/rope.h"
#include "session.h"

enum { POSITIONS = 4096 }; /* of the mean, unless the context is shorter */

/* The mean of exp(i t angle) over t = 0 .. n - 1: a geometric series. */
static void mean_turn(double angle, uint32_t n, double *cos, double *sin)
{
    double half, whole, unused, s, c;
    tft_rope_sincos(angle / 2, &half, &unused);
    tft_rope_sincos(n * (angle / 2), &whole, &unused);
    tft_rope_sincos((n - 1) * (angle / 2), &s, &c);
    double length = half == 0 ? 1 : whole / (n * half);
    *cos = length * c;
    *sin = length * s;
}

/* to: [E] the bias of a head, becomes the offset. */
static void turn(const struct tft_model *m, float *to)
{
    uint32_t n = m->n_ctx < POSITIONS ? m->n_ctx : POSITIONS;
    for (uint32_t i = 0; i < m->n_rot / 2; i++) {
        uint32_t a = m->rope_halves ? i : 2 * i, b = m->rope_halves ? i + m->n_rot / 2 : 2 * i + 1;
        double cos, sin, x = (double)to[a] * (double)m->rope_amplitude,
                         y = (double)to[b] * (double)m->rope_amplitude;
        mean_turn(m->rope_freq[i], n, &cos, &sin);
        to[a] = (float)(x * cos - y * sin);
        to[b] = (float)(y * cos + x * sin);
    }
}

/* Whether the keys of a layer lie in bytes, and are a product with a bias that nothing but RoPE
   changes. */
static bool has_offset(const struct tft_session *s, const struct tft_layer *b)
{
    return tft_layer_has_kv(b) && tft_kv_in_bytes(&s->kv, b->kv_layer) && b->k.bias &&
           !b->k_norm.w && !b->sinks && b->kv.dim <= TFT_KV_OFFSET_DIM &&
           s->m->n_rot <= b->kv.dim;
}

void tft_session_key_offsets(struct tft_session *s)
{
    const struct tft_model *m = s->m;
    struct tft_kv *kv = &s->kv;
    bool some = false;
    if (!kv->key_offset)
        return;
    memset(kv->key_offset, 0,
           (size_t)kv->n_layer * kv->n_head_kv * kv->head_dim * sizeof *kv->key_offset);
    for (uint32_t l = 0; l < m->n_layer && !(m->score_cap > 0); l++) {
        const struct tft_layer *b = &m->layer[l];
        for (uint32_t h = 0; has_offset(s, b) && h < b->kv.n; h++) {
            float *to = tft_kv_key_offset(kv, b->kv_layer, h);
            memcpy(to, b->k.bias + (size_t)h * b->kv.dim, b->kv.dim * sizeof *to);
            if (!b->no_rope)
                turn(m, to);
            some = true;
        }
    }
    if (!some)
        kv->key_offset = NULL;
}
