/* Saving a session. */
#include "base/bytes.h"
#include "base/crc32.h"
#include "base/error.h"
#include "base/new_file.h"
#include "grammar/saved.h"
#include "saved.h"

#include <errno.h>
#include <string.h>

const char tft_saved_magic[8] = "TFTSAVE\n";

/* -------------------------------------------------------------------- requirements of a session */

/* n_layer: layers of the cache, if it quantizes. */
static uint32_t policy_of(const struct tft_kv_policy *p, bool whole_prompt, uint32_t n_layer)
{
    uint32_t knobs[] = {p->num, p->sinks, whole_prompt ? TFT_KV_PROMPT : p->prefill, p->keep,
                        p->group, p->f8, p->clip, p->reorder};
    uint32_t crc = tft_crc32(0, knobs, sizeof knobs);
    for (enum tft_kv_which i = TFT_KV_K; i < TFT_KV_SIDES; i++) {
        const struct tft_kv_side *side = tft_kv_side(p, i);
        uint32_t rule[] = {side->axis, side->retain, side->window};
        crc = tft_crc32(crc, rule, sizeof rule);
        for (uint32_t l = 0; tft_kv_quantizes(p) && l < n_layer; l++) {
            float bits = tft_kv_bits(side, l);
            crc = tft_crc32(crc, &bits, sizeof bits);
        }
    }
    return p->i8 ? tft_crc32(crc, "i8", 2) : crc;
}

static uint32_t cache_of(const struct tft_session *s)
{
    uint32_t crc = policy_of(&s->kv.policy, s->whole_prompt, s->kv.n_layer);
    return s->kv.key_offset ? tft_crc32(crc, "offsets", 7) : crc;
}

static bool is_f16(uint32_t cache)
{
    struct tft_kv_policy f16;
    tft_kv_parse(&f16, "f16", NULL);
    return cache == policy_of(&f16, false, 0);
}

static uint32_t prefix_of(const struct tft_session *s)
{
    const struct tft_named_prefix *p = s->named;
    return p ? tft_crc32(tft_crc32(0, p->name, strlen(p->name)), p->tokens,
                         p->n * sizeof *p->tokens)
             : 0;
}

static bool has_long_rope(const struct tft_session *s)
{
    return s->m->rope_freq_long && s->rope_freq == s->m->rope_freq_long;
}

static void count(struct tft_walk *w, void *p, size_t n)
{
    (void)p;
    w->n += n;
}

static uint32_t grammar_bytes(const struct tft_grammar_state *g)
{
    struct tft_walk w = {.part = count};
    tft_grammar_save(g, &w);
    return (uint32_t)w.n;
}

struct tft_saved tft_saved_of(const struct tft_session *s, const struct tft_sampler *z)
{
    struct tft_saved h = {.version = TFT_SAVED_VERSION,
                          .flags = has_long_rope(s) ? TFT_SAVED_LONG_ROPE : 0,
                          .cache = cache_of(s),
                          .prefix = prefix_of(s) ^ tft_session_loras_sum(&s->loras),
                          .pos = s->pos,
                          .n_checkpoint = s->states.n,
                          .has_logits = s->out.n_valid > 0,
                          .kv = tft_kv_save(&s->kv)};
    memcpy(h.magic, tft_saved_magic, sizeof h.magic);
    if (z) {
        h.has_sampler = 1;
        h.seed = z->seed;
        h.temperature = z->temperature;
        h.top_p = z->top_p;
        h.min_p = z->min_p;
        h.repeat_penalty = z->repeat_penalty;
        h.top_k = z->top_k;
        h.repeat_last = z->repeat_last;
        h.mirostat_mu = z->mirostat_mu;
    }
    if (z && z->grammar)
        h.grammar_bytes = grammar_bytes(z->grammar);
    return h;
}

const char *tft_saved_differs(const struct tft_saved *h, const struct tft_saved *own)
{
    return memcmp(&h->model, &own->model, sizeof h->model) != 0
               ? "another model, or with weights in another form"
           : h->prefix != own->prefix ? "another prefix, or other adapters, than the session has"
           : h->cache != own->cache
               ? (is_f16(h->cache) ? "the KV cache f16, and the session has another"
                                   : "another KV cache than the session has")
           : h->flags != own->flags ? "a capacity for which RoPE has other frequencies"
                                    : NULL;
}

/* ---------------------------------------------------------------------------------------- parts */

static void put(struct tft_walk *w, void *p, size_t n)
{
    if (!n)
        return;
    w->crc = tft_crc32(w->crc, p, n);
    if (w->to)
        memcpy(w->to + w->n, p, n);
    else if (!w->stopped)
        w->stopped = !w->write(w->user, p, n);
    w->n += n;
}

/* How many checkpoints the session has no room for: the oldest ones are skipped. */
static uint32_t skipped(const struct tft_session *s, const struct tft_saved *h)
{
    return h->n_checkpoint > s->states.most ? h->n_checkpoint - s->states.most : 0;
}

/* Numbers that go before the tokens: the first positions in rings, and where checkpoints are. */
static void places(const struct tft_session *s, const struct tft_session *from,
                   const struct tft_saved *h, struct tft_walk *w)
{
    for (uint32_t l = 0; s->kv.ring && l < s->kv.n_layer; l++) {
        uint32_t first = w->loads ? 0 : tft_kv_first(&s->kv, l);
        w->part(w, w->loads ? NULL : &first, sizeof first);
    }
    uint32_t skip = skipped(s, h);
    for (uint32_t i = 0; i < h->n_checkpoint; i++)
        tft_walk_part(w, i < skip ? NULL : &s->states.checkpoint[i - skip].pos,
                      from ? &from->states.checkpoint[i].pos : NULL, sizeof(uint32_t));
}

static void states(const struct tft_session *s, const struct tft_session *from,
                   const struct tft_saved *h, struct tft_walk *w)
{
    const struct tft_states *t = &s->states;
    size_t bytes = t->size * sizeof *t->now;
    uint32_t skip = skipped(s, h);
    tft_walk_part(w, t->now, from ? from->states.now : NULL, bytes);
    for (uint32_t i = 0; i < h->n_checkpoint; i++)
        tft_walk_part(w, i < skip ? NULL : t->checkpoint[i - skip].state,
                      from ? from->states.checkpoint[i].state : NULL, bytes);
}

/* Logits of the newest token. */
static float *newest(const struct tft_session *s)
{
    return s->out.logits + (s->out.first_valid + s->out.n_valid - 1) * (size_t)s->m->n_vocab;
}

void tft_saved_walk(const struct tft_session *s, const struct tft_session *from,
                    const struct tft_saved *h, const unsigned char *first, struct tft_walk *w)
{
    places(s, from, h, w);
    tft_walk_part(w, s->tokens, from ? from->tokens : NULL, h->pos * sizeof *s->tokens);
    if (s->filter.named)
        tft_walk_part(w, s->filter.named, from ? from->filter.named : NULL, h->pos);
    tft_kv_owners(&s->kv, &h->kv, w);
    tft_kv_memory(&s->kv, &h->kv, first, w);
    states(s, from, h, w);
    if (h->has_logits) {
        float *to = s->out.n_logits ? s->out.logits : NULL; /* with no_logits, they are skipped */
        tft_walk_part(w, w->loads ? to : newest(s), from ? newest(from) : NULL,
                      s->m->n_vocab * sizeof(float));
    }
}

/* --------------------------------------------------------------------------------------- saving */

enum tft_status tft_saved_on_cpu(const struct tft_session *s, struct tft_error *err)
{
    if (s->m->n_host == s->m->n_layer)
        return TFT_OK;
    return tft_fail(err, TFT_ERR_UNSUPPORTED,
                    "%s: a session whose cache is on a device cannot be saved, loaded or copied: "
                    "open the model on the CPU",
                    s->m->source.name);
}

static enum tft_status can_save(const struct tft_session *s, const struct tft_sampler *z,
                                struct tft_error *err)
{
    if (z && z->grammar && tft_grammar_failed(z->grammar))
        return tft_fail(err, TFT_ERR_ARG, "the sampler's grammar has failed: no token may come");
    return tft_saved_on_cpu(s, err);
}

uint64_t tft_saved_bytes(const struct tft_session *s, const struct tft_saved *h,
                         const unsigned char *first)
{
    struct tft_walk w = {.part = count, .loads = first != NULL};
    tft_saved_walk(s, NULL, h, first, &w);
    return sizeof *h + w.n + h->grammar_bytes + TFT_SAVED_CHECKSUM;
}

static void write_all(const struct tft_session *s, const struct tft_sampler *z, struct tft_walk *w)
{
    struct tft_saved h = tft_saved_of(s, z);
    unsigned char sum[TFT_SAVED_CHECKSUM];
    h.bytes = tft_saved_bytes(s, &h, NULL);
    h.model = tft_identity_of(s->m);
    w->part = put;
    put(w, &h, sizeof h);
    tft_saved_walk(s, NULL, &h, NULL, w);
    if (z && z->grammar)
        tft_grammar_save(z->grammar, w);
    tft_store_u32(sum, w->crc);
    put(w, sum, sizeof sum);
}

size_t tft_session_save_bytes(const struct tft_session *s, const struct tft_sampler *z)
{
    struct tft_saved h = tft_saved_of(s, z);
    return (size_t)tft_saved_bytes(s, &h, NULL);
}

enum tft_status tft_session_save_mem(const struct tft_session *s, const struct tft_sampler *z,
                                     void *data, size_t size, struct tft_error *err)
{
    size_t bytes = tft_session_save_bytes(s, z);
    enum tft_status status = can_save(s, z, err);
    if (status == TFT_OK && size < bytes)
        status = tft_fail(err, TFT_ERR_FULL, "the saved session takes %zu bytes, not %zu", bytes,
                          size);
    if (status == TFT_OK)
        write_all(s, z, &(struct tft_walk){.to = data});
    return status;
}

enum tft_status tft_session_save_to(const struct tft_session *s, const struct tft_sampler *z,
                                    bool (*write)(void *user, const void *p, size_t n), void *user,
                                    struct tft_error *err)
{
    struct tft_walk w = {.write = write, .user = user};
    enum tft_status status = can_save(s, z, err);
    if (status == TFT_OK)
        write_all(s, z, &w);
    return w.stopped ? tft_fail(err, TFT_ERR_CANCELLED, "the caller stopped the saving") : status;
}

struct saved_file {
    FILE *file;
    int os; /* errno of the first failure, or 0 */
};

static bool write_file(void *user, const void *p, size_t n)
{
    struct saved_file *f = user;
    errno = 0;
    if (fwrite(p, 1, n, f->file) != n)
        f->os = errno ? errno : EIO;
    return !f->os;
}

/* Writes the session to a new file. */
static enum tft_status fill_file(const struct tft_session *s, const struct tft_sampler *z,
                                 FILE *file, const char *path, struct tft_error *err)
{
    struct saved_file f = {.file = file};
    int os = tft_port_private(file); /* a replaced file keeps its mode */
    if (os)
        return tft_fail_os(err, os, path, "cannot be made private");
    enum tft_status status = tft_session_save_to(s, z, write_file, &f, err);
    return f.os ? tft_fail_os(err, f.os, path, "cannot be written") : status;
}

enum tft_status tft_session_save(const struct tft_session *s, const struct tft_sampler *z,
                                 const char *path, struct tft_error *err)
{
    struct tft_new_file *f;
    enum tft_status status = can_save(s, z, err);
    if (status == TFT_OK)
        status = tft_new_file_create(&f, path, err);
    if (status != TFT_OK)
        return status;
    status = fill_file(s, z, f->file, path, err);
    enum tft_status end = tft_new_file_end(f, status == TFT_OK, err);
    return status == TFT_OK ? end : status;
}
