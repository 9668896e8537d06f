/* Copies of model files with prefixes. A session that computed the tokens has given the keys and
   values. Include it after fed.h. */
#ifndef TFT_TEST_PREFIXES_H
#define TFT_TEST_PREFIXES_H

#include "file/file.h"
#include "model/keys.h"

struct prefix_text {
    const char *name;       /* NULL: the model's own prefix, which comes first */
    const int32_t *tokens;  /* [n] */
    uint32_t n;
    const char *system;     /* or NULL */
    bool no_x;
};

enum { PREFIX_ROWS = 1 << 15 };
struct prefix_rows {
    uint16_t k[PREFIX_ROWS], v[PREFIX_ROWS];
    float x[64], state[PREFIX_ROWS];
};

/* The rows of the newest n tokens, and the residual stream and the states of the last of them. */
static inline void prefix_rows_of(const struct tft_session *s, uint32_t n, struct prefix_rows *r)
{
    const struct tft_model *m = s->m;
    uint32_t dim = m->head_dim, at = 0, end = s->kv.n_prefix + (uint32_t)tft_pos(s);
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        for (uint32_t pos = end - n; pos < end; pos++)
            for (uint32_t h = 0; h < m->n_head_kv; h++, at += dim) {
                const uint16_t *panel = tft_kv_keys(&s->kv, l, h, pos - pos % TFT_KEY_PANEL);
                assert_true(at + dim <= PREFIX_ROWS && m->n_embd <= 64);
                for (uint32_t d = 0; d < dim; d++)
                    r->k[at + d] = panel[d * TFT_KEY_PANEL + pos % TFT_KEY_PANEL];
                memcpy(r->v + at, tft_kv_values(&s->kv, l, h, pos), dim * sizeof *r->v);
            }
    memcpy(r->x, s->work->buf[TFT_X], m->n_embd * sizeof *r->x);
    assert_true(m->state_size <= PREFIX_ROWS);
    if (m->state_size)
        memcpy(r->state, s->states.now, m->state_size * sizeof *r->state);
}

static inline const char *prefix_key(const struct prefix_text *p, const char *what)
{
    static char key[TFT_PREFIX_KEY];
    snprintf(key, sizeof key, p->name ? "tuffet.prefix.%s.%s" : "tuffet.prefix.%s%s",
             p->name ? p->name : "", what);
    return key;
}

static inline void put_prefix_values(struct tft_gguf_writer *w, const struct prefix_text *p,
                                     uint32_t n)
{
    struct tft_str names[TFT_PREFIX_NAMES];
    uint32_t named = 0;
    for (uint32_t i = 0; i < n; i++) {
        tft_gguf_put_array(w, prefix_key(&p[i], "tokens"), TFT_VALUE_I32, p[i].tokens, p[i].n);
        if (p[i].name)
            names[named++] = (struct tft_str){p[i].name, strlen(p[i].name)};
        if (p[i].system)
            tft_gguf_put_str(w, prefix_key(&p[i], "system"),
                             (struct tft_str){p[i].system, strlen(p[i].system)});
    }
    if (named)
        tft_gguf_put_strs(w, TFT_KEY_PREFIX_NAMES, names, named);
}

static inline void put_prefix_tensors(struct tft_gguf_writer *w, const struct tft_model *m,
                                      const struct prefix_text *p, const struct prefix_rows *r,
                                      bool data)
{
    const uint64_t ne[4] = {m->head_dim, m->n_head_kv, p->n, m->n_kv_layer}, d = m->n_embd,
                   states = m->state_size;
    size_t bytes = (size_t)(ne[0] * ne[1] * ne[2] * ne[3]) * sizeof *r->k;
    const struct {
        const char *what;
        const void *p;
    } rows[] = {{"k", r->k}, {"v", r->v}};
    for (int i = 0; i < 2; i++) {
        const char *key = prefix_key(p, rows[i].what);
        if (data)
            tft_gguf_put_data(w, rows[i].p, bytes);
        else
            tft_gguf_put_tensor(w, (struct tft_str){key, strlen(key)}, TFT_F16, 4, ne);
    }
    const char *key = prefix_key(p, "x");
    if (data && !p->no_x)
        tft_gguf_put_data(w, r->x, d * sizeof *r->x);
    else if (!p->no_x)
        tft_gguf_put_tensor(w, (struct tft_str){key, strlen(key)}, TFT_F32, 1, &d);
    key = prefix_key(p, "state");
    if (states && data)
        tft_gguf_put_data(w, r->state, states * sizeof *r->state);
    else if (states)
        tft_gguf_put_tensor(w, (struct tft_str){key, strlen(key)}, TFT_F32, 1, &states);
}

/* Writes `to`: the model file `from` with n prefixes. A named one is computed after the tokens of
   the model's own, if that is the first. own_text: TFT_KEY_PREFIX_TEXT, or -1. */
static inline void write_prefixes(const char *from, const char *to, const struct prefix_text *p,
                                  uint32_t n, int own_text)
{
    struct prefix_rows *r = malloc(n * sizeof *r);
    struct tft_model *m = opened(from);
    struct tft_gguf_writer *w;
    for (uint32_t i = 0; i < n; i++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .kv = "f16"});
        if (p[i].name && !p[0].name)
            assert_int_equal(tft_prefill(s, p[0].tokens, p[0].n), TFT_OK);
        for (uint32_t t = 0; t < p[i].n; t++)
            assert_int_equal(tft_decode(s, p[i].tokens[t]), TFT_OK);
        prefix_rows_of(s, p[i].n, &r[i]);
        tft_session_close(s);
    }
    const struct tft_source *s = &m->source;
    assert_int_equal(tft_gguf_create(&w, to, NULL), TFT_OK);
    for (size_t i = 0; i < s->n_value; i++)
        tft_gguf_put_value(w, &s->value[i]);
    put_prefix_values(w, p, n);
    if (own_text >= 0)
        tft_gguf_put_u32(w, TFT_KEY_PREFIX_TEXT, (uint32_t)own_text);
    for (int data = 0; data < 2; data++) {
        for (size_t i = 0; i < s->n_tensor; i++)
            if (data)
                tft_gguf_put_data(w, s->tensor[i].data, (size_t)s->tensor[i].bytes);
            else
                tft_gguf_put_tensor(w, s->tensor[i].name, s->tensor[i].type, s->tensor[i].n_dims,
                                    s->tensor[i].ne);
        for (uint32_t i = 0; i < n; i++)
            put_prefix_tensors(w, m, &p[i], &r[i], data);
    }
    assert_int_equal(tft_gguf_close(w, true, NULL), TFT_OK);
    tft_model_close(m);
    free(r);
}

#endif
