/* Loading a session. A file is not trusted: everything that memory is addressed by is checked
   before anything of the session is changed. */
#include "base/bytes.h"
#include "base/crc32.h"
#include "base/error.h"
#include "grammar/saved.h"
#include "saved.h"

#include <string.h>

/* A file that is being loaded. */
struct image {
    const char *name; /* for messages */
    const unsigned char *data;
    size_t size;
    struct tft_saved h;
    struct tft_kv_image kv;
    const unsigned char *checkpoint, *tokens, *logits, *grammar;
};

static enum tft_status damaged(const struct image *i, size_t offset, const char *what,
                               struct tft_error *err)
{
    return tft_fail_at(err, TFT_ERR_FORMAT, i->name, offset, "%s", what);
}

static enum tft_status other(const struct image *i, const char *what, struct tft_error *err)
{
    return tft_fail(err, TFT_ERR_ARG, "%s: was saved with %s", i->name, what);
}

/* Reads the head, and whether the file is one of this session's. */
static enum tft_status read_head(struct image *i, const struct tft_session *s,
                                 struct tft_error *err)
{
    struct tft_saved *h = &i->h;
    if (i->size < sizeof *h + TFT_SAVED_CHECKSUM ||
        memcmp(i->data, tft_saved_magic, sizeof h->magic) != 0)
        return damaged(i, 0, "not a saved session", err);
    memcpy(h, i->data, sizeof *h);
    if (h->version != TFT_SAVED_VERSION)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: version %u of a saved session; this program reads version %d", i->name,
                        h->version, TFT_SAVED_VERSION);
    if (h->bytes != i->size)
        return damaged(i, offsetof(struct tft_saved, bytes),
                       "the file is cut off, or has bytes behind its end", err);
    size_t end = i->size - TFT_SAVED_CHECKSUM;
    if (tft_crc32(0, i->data, end) != tft_load_u32(i->data + end))
        return damaged(i, end, "the checksum differs: the file is damaged", err);

    struct tft_saved own = tft_saved_of(s, NULL);
    own.model = tft_identity_of(s->m);
    const char *differs = tft_saved_differs(h, &own);
    if (differs)
        return other(i, differs, err);
    if (h->pos > s->capacity)
        return tft_fail(err, TFT_ERR_FULL, "%s: has %u tokens, and the session has room for %u",
                        i->name, h->pos, s->capacity);
    return TFT_OK;
}

static const char *wrong_numbers(const struct image *i, const struct tft_session *s)
{
    const struct tft_saved *h = &i->h;
    uint32_t prefill = h->kv.prefill;
    if (h->grammar_bytes && !h->has_sampler)
        return "a grammar without a sampler";
    if (h->has_logits > 1 || h->has_sampler > 1 || h->kv.held > h->pos ||
        (h->has_logits && h->kv.held < h->pos))
        return "tokens are missing";
    if (s->whole_prompt ? prefill != TFT_KV_PROMPT && (!prefill || prefill > h->pos)
                        : prefill != s->kv.policy.prefill)
        return "the prompt does not end in it";
    if (h->n_checkpoint > (s->states.size ? h->kv.held : 0))
        return "checkpoints of no state";
    if (h->kv.dropped && s->m->pos_embed.data)
        return "positions beyond those that the model has learned";
    return tft_kv_wrong_state(&s->kv, &h->kv);
}

/* Finds the arrays in the file, once the sum of all parts is known to be its size. */
static void find_arrays(struct image *i, const struct tft_session *s)
{
    const unsigned char *at = i->data + sizeof i->h;
    i->kv.state = i->h.kv;
    i->kv.first = at;
    i->checkpoint = at + (s->kv.ring ? 4 * (size_t)s->kv.n_layer : 0);
    i->tokens = i->checkpoint + 4 * (size_t)i->h.n_checkpoint;
    at = i->tokens + 4 * (size_t)i->h.pos;
    i->kv.named = s->filter.named ? at : NULL;
    i->kv.owner = at + (s->filter.named ? i->h.pos : 0);
    i->grammar = i->data + i->size - TFT_SAVED_CHECKSUM - i->h.grammar_bytes;
    i->logits = i->grammar - (size_t)s->m->n_vocab * sizeof(float);
}

static const char *wrong_arrays(const struct image *i, const struct tft_session *s)
{
    uint32_t pos = i->h.pos, last = 0, n_named = 0;
    for (uint32_t t = 0; t < pos; t++)
        if (tft_load_u32(i->tokens + 4 * (size_t)t) >= s->m->n_vocab)
            return "a token is not within the vocabulary";
    for (uint32_t t = 0; i->kv.named && t < pos; t++) {
        n_named += i->kv.named[t];
        if (i->kv.named[t] > (t >= s->kv.policy.sinks) || n_named > s->kv.policy.keep)
            return "the filter cannot have named these tokens";
    }
    for (uint32_t c = 0; c < i->h.n_checkpoint; c++) {
        uint32_t at = tft_load_u32(i->checkpoint + 4 * (size_t)c);
        if (at <= last || at > i->h.kv.held)
            return "checkpoints are not in order";
        last = at;
    }
    for (uint32_t k = 0; i->h.has_logits && k < s->m->n_vocab; k++) {
        uint32_t bits = tft_load_u32(i->logits + 4 * (size_t)k);
        if ((bits & 0x7f800000) == 0x7f800000)
            return "a logit is NaN or infinity";
    }
    return tft_kv_wrong_image(&s->kv, &i->kv);
}

static void restore_sampler(struct tft_sampler *z, const struct tft_saved *h)
{
    z->seed = h->seed;
    z->temperature = h->temperature;
    z->top_p = h->top_p;
    z->min_p = h->min_p;
    z->repeat_penalty = h->repeat_penalty;
    z->top_k = h->top_k;
    z->repeat_last = h->repeat_last;
    z->mirostat_mu = h->mirostat_mu;
}

static void take(struct tft_walk *w, void *p, size_t n)
{
    if (p && n)
        memcpy(p, w->from + w->n, n);
    w->n += n;
}

void tft_saved_restore(struct tft_session *s, const struct tft_session *from,
                       const struct tft_saved *h, const struct tft_kv_image *kv, struct tft_walk *w)
{
    struct tft_states *t = &s->states;
    tft_saved_walk(s, from, h, kv->first, w);
    tft_kv_restore(&s->kv, kv);
    t->n = h->n_checkpoint < t->most ? h->n_checkpoint : t->most;
    while (t->n && !tft_kv_keeps(&s->kv, t->checkpoint[0].pos)) /* rings may be smaller now */
        tft_states_drop_oldest(t);
    s->pos = h->pos;
    tft_lookup_forget(&s->lookup);
    s->out.first_valid = 0;
    s->out.n_valid = h->has_logits && s->out.n_logits;
    s->out.n_valid_hidden = 0;
    s->filter.n = 0;
    for (uint32_t i = 0; s->filter.named && i < s->pos; i++)
        s->filter.n += s->filter.named[i];
    s->error = (struct tft_error){0};
}

/* The last step that can fail. */
static enum tft_status load_grammar(const struct tft_sampler *z, const struct image *i,
                                    struct tft_error *err)
{
    if (!z || !i->h.grammar_bytes)
        return TFT_OK;
    if (!z->grammar)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: has the state of a grammar: the sampler needs one that has begun",
                        i->name);
    switch (tft_grammar_load(z->grammar, i->grammar, i->h.grammar_bytes)) {
    case TFT_OK: return TFT_OK;
    case TFT_ERR_ARG: return other(i, "another grammar than the sampler has", err);
    case TFT_ERR_NOMEM:
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for the grammar", i->name);
    default:
        return damaged(i, (size_t)(i->grammar - i->data), "not a place in the grammar", err);
    }
}

static enum tft_status load(struct tft_session *s, struct tft_sampler *z, struct image *i,
                            struct tft_error *err)
{
    enum tft_status status = tft_saved_on_cpu(s, err);
    if (status == TFT_OK)
        status = read_head(i, s, err);
    if (status != TFT_OK)
        return status;
    const char *wrong = wrong_numbers(i, s);
    if (wrong)
        return damaged(i, offsetof(struct tft_saved, pos), wrong, err);
    i->kv.first = i->data + sizeof i->h;
    if (i->size - sizeof i->h < (s->kv.ring ? 4 * (uint64_t)s->kv.n_layer : 0) ||
        tft_saved_bytes(s, &i->h, i->kv.first) != i->size)
        return damaged(i, offsetof(struct tft_saved, bytes), "the size is not that of its parts",
                       err);
    find_arrays(i, s);
    wrong = wrong_arrays(i, s);
    if (wrong)
        return damaged(i, sizeof i->h, wrong, err);
    status = load_grammar(z, i, err);
    if (status != TFT_OK)
        return status;
    tft_saved_restore(s, NULL, &i->h, &i->kv,
                      &(struct tft_walk){
                          .part = take, .loads = true, .from = i->data, .n = sizeof i->h});
    if (z && i->h.has_sampler)
        restore_sampler(z, &i->h);
    return TFT_OK;
}

enum tft_status tft_session_load_mem(struct tft_session *s, struct tft_sampler *z, const void *data,
                                     size_t size, struct tft_error *err)
{
    return load(s, z, &(struct image){.name = "memory", .data = data, .size = size}, err);
}

enum tft_status tft_session_load(struct tft_session *s, struct tft_sampler *z, const char *path,
                                 struct tft_error *err)
{
    struct tft_map map;
    if (!path)
        return tft_fail(err, TFT_ERR_ARG, "no path: the name of the file is NULL");
    int os = tft_port_map(&map, path);
    if (os)
        return tft_fail_os(err, os, path, "cannot be read");
    enum tft_status status =
        load(s, z, &(struct image){.name = path, .data = map.data, .size = map.size}, err);
    tft_port_unmap(&map);
    return status;
}
