/* Opening a session: its options, the size of its memory, and where everything in it lies. */
#include "backend.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "batch.h"
#include "draft.h"
#include "kv/fisher.h"
#include "session.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_BATCH = 512, DEFAULT_CHECKPOINTS = 4 };

/* -------------------------------------------------------------------------------------- options */

/* The channels of heads that blocks of codes do not take: not whole quads, or more than `most`; 0:
   they take all. Layers with a window have no blocks. */
static uint32_t odd_heads(const struct tft_model *m, uint32_t most)
{
    for (uint32_t l = 0; l < m->n_kv_layer; l++) {
        uint32_t dim = tft_model_kv_heads(m, l).dim;
        if (!tft_model_kv_window(m, l) && (dim % TFT_QUAD || dim > most))
            return dim;
    }
    return 0;
}

/* Blocks of codes take heads of whole quads. Mixed keys and calibrated caches need the importance,
   or the calibration, of tuffet quantize in the file. */
static enum tft_status check_kv(const struct tft_kv_policy *kv, const struct tft_model *m,
                                struct tft_error *err)
{
    bool planned = m->n_stage == 0; /* it has weights nowhere, so any cache may be asked about */
    const struct tft_backend *last = planned ? NULL : m->stage[m->n_stage - 1].backend;
    if (tft_kv_is_fisher(kv) && !planned && !last->has_fisher)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: %s does not have the KV cache fisher yet: use another cache, or the "
                        "CPU",
                        m->source.name, last->name);
    if (!tft_kv_quantizes(kv))
        return TFT_OK;
    bool device = !planned && m->n_host < m->n_layer;
    uint32_t dim = odd_heads(m, device ? TFT_SPAN : TFT_CODED_DIM);
    if (dim)
        return tft_fail(
            err, TFT_ERR_UNSUPPORTED,
            "%s: heads of %u channels: a quantized KV cache takes multiples of %d up to %d",
            m->source.name, dim, TFT_QUAD, device ? TFT_SPAN : TFT_CODED_DIM);
    if (kv->k.axis == TFT_KV_MIXED && !m->key_importance)
        return tft_fail(
            err, TFT_ERR_ARG,
            "%s: this KV cache has mixed keys, and the file lacks the importance of its "
            "channels: make it with tuffet quantize",
            m->source.name);
    struct tft_kv_shape shape = tft_model_kv_shape(m);
    if (tft_kv_is_fisher(kv) && !tft_fisher_fits(&shape))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: the KV cache fisher takes the same heads in all layers without a "
                        "window",
                        m->source.name);
    if (tft_kv_is_fisher(kv) && !m->kv_fisher[TFT_KV_K])
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: not calibrated for the KV cache fisher: make the file with tuffet "
                        "quantize --kv fisher%s",
                        m->source.name, m->byte_inputs ? "" : " --gguf keep");
    if ((kv->reorder || kv->clip == TFT_KV_CALIBRATED) &&
        !tft_kv_calibrated_for(&m->kv_policy, kv, m->n_kv_layer))
        return tft_fail(
            err, TFT_ERR_ARG,
            "%s: not calibrated for this KV cache, but for %s: make the file with tuffet "
            "quantize --kv",
            m->source.name, m->kv_text ? m->kv_text : "none");
    return TFT_OK;
}

/* Layers with windows are floats in every cache. If all layers have one, every cache but f32 is
   f16. */
static enum tft_status resolve_kv(struct tft_kv_policy *kv, const struct tft_model *m,
                                  const char *text, struct tft_error *err)
{
    if (!m->arch)
        return tft_fail(err, TFT_ERR_ARG, "%s: opened with vocab_only: there is no model to run",
                        m->source.name);
    if (m->encoder)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: %s", m->source.name, tft_encoder_text);
    enum tft_status status =
        text ? tft_kv_parse(kv, text, err) : tft_kv_parse_stored(kv, tft_model_kv(m), err);
    if (status == TFT_OK && (tft_kv_quantizes(kv) || kv->i8) && tft_model_only_windows(m))
        return tft_kv_parse(kv, "f16", err);
    return status == TFT_OK ? check_kv(kv, m, err) : status;
}

/* Lists the prefixes that there are. */
static enum tft_status no_prefix(const struct tft_model *m, const char *name, struct tft_error *err)
{
    char list[120] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_named && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, i ? ", %s" : "%s", m->named[i].name);
    if (n >= sizeof list)
        memcpy(list + sizeof list - 4, "...", 4);
    return tft_fail(err, TFT_ERR_ARG, "%s: no prefix \"%.40s\": %s%s", m->source.name, name,
                    n ? "it has " : "tuffet quantize --intact-system makes some", list);
}

/* n_batch and n_logits are resolved. */
static enum tft_status check_hidden(const struct tft_session_opts *o, const struct tft_model *m,
                                    struct tft_error *err)
{
    if ((o->n_hidden || o->no_logits) && m->n_host < m->n_layer)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: hidden vectors are not computed on a device: open the model on the "
                        "CPU",
                        m->source.name);
    if (o->n_logits && o->no_logits)
        return tft_fail(err, TFT_ERR_ARG, "n_logits is %u, although no_logits is set",
                        o->n_logits);
    if (o->n_hidden > o->n_batch)
        return tft_fail(err, TFT_ERR_ARG,
                        "n_hidden, %u, is above n_batch, %u: hidden vectors are kept of one pass",
                        o->n_hidden, o->n_batch);
    return TFT_OK;
}

/* A pass is no larger than the batch's workspace. */
static enum tft_status share_batch(struct tft_session_opts *o, const struct tft_model *m,
                                   struct tft_error *err)
{
    const struct tft_work *w = tft_batch_work(o->batch);
    if (w->m != m)
        return tft_fail(err, TFT_ERR_ARG, "%s: the session's batch is of another model",
                        m->source.name);
    if (o->n_batch > w->n_batch)
        o->n_batch = w->n_batch;
    if (o->n_threads > w->n_threads)
        o->n_threads = w->n_threads;
    return TFT_OK;
}

static enum tft_status resolve(struct tft_session_opts *o, struct tft_kv_policy *kv,
                               const struct tft_model *m, const struct tft_session_opts *given,
                               struct tft_error *err)
{
    enum tft_status status = tft_options_take(o, sizeof *o, given, "tft_session_opts", err);
    if (status == TFT_OK)
        status = resolve_kv(kv, m, o->kv, err);
    if (status != TFT_OK)
        return status;
    const struct tft_named_prefix *named = tft_model_prefix(m, o->prefix);
    if (o->prefix && !named)
        return no_prefix(m, o->prefix, err);
    uint32_t n_prefix = m->n_prefix + (named ? named->n : 0), most = m->n_ctx - n_prefix;
    if (o->capacity > most)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a capacity of %u is beyond the model's context of %u", m->source.name,
                        o->capacity, most);
    if (o->n_threads < 0 || o->n_threads > TFT_PORT_THREADS)
        return tft_fail(err, TFT_ERR_ARG, "%d threads: not within 0 .. %d", o->n_threads,
                        TFT_PORT_THREADS);

    if (!o->capacity)
        o->capacity = most;
    if (o->slide && m->pos_embed.data)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot slide: its positions are learned, up to its context only",
                        m->source.name);
    if (o->slide && tft_kv_quantizes(kv) && !kv->names_sinks && !n_prefix)
        kv->sinks = TFT_KV_SLIDE_SINKS;
    if (o->slide && !tft_kv_slides(kv))
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a KV cache with different kr and vr, one of them log2, cannot slide",
                        m->source.name);
    if (o->slide && kv->prefill == TFT_KV_PROMPT)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a KV cache with prefill=prompt cannot slide: give the prompt's "
                        "length, prefill=N",
                        m->source.name);
    if (o->slide && !tft_kv_slide_step(kv, o->capacity))
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a capacity of %u tokens is too small for this KV cache to slide",
                        m->source.name, o->capacity);

    if (o->lookup > TFT_LOOKUP_MOST)
        return tft_fail(err, TFT_ERR_ARG, "a lookup of %u tokens: at most %d", o->lookup,
                        TFT_LOOKUP_MOST);
    if (o->draft && !o->lookup)
        return tft_fail(err, TFT_ERR_ARG, "a draft makes guesses: set lookup, too");
    if (o->draft && (status = tft_draft_check(m, o->draft, err)) != TFT_OK)
        return status;
    if (!o->n_batch)
        o->n_batch = DEFAULT_BATCH;
    if (!o->n_threads)
        o->n_threads = tft_port_cpus();
    if (!tft_port_threaded())
        o->n_threads = 1;
    if (!o->n_logits && !o->no_logits)
        o->n_logits = 1;
    if (!o->checkpoints)
        o->checkpoints = DEFAULT_CHECKPOINTS;
    if (o->batch && (status = share_batch(o, m, err)) != TFT_OK)
        return status;
    if (o->n_logits > o->n_batch)
        return tft_fail(err, TFT_ERR_ARG,
                        "n_logits, %u, is above n_batch, %u: logits are kept of one pass",
                        o->n_logits, o->n_batch);
    status = check_hidden(o, m, err);
    if (status == TFT_OK)
        status = tft_session_loras_check(m, o, err);
    if (status != TFT_OK)
        return status;
    if (o->n_batch > o->capacity)
        o->n_batch = o->capacity;
    if (o->checkpoints > o->capacity)
        o->checkpoints = o->capacity;
    if (o->n_logits > o->n_batch) /* there will never be more tokens */
        o->n_logits = o->n_batch;
    if (o->n_hidden > o->n_batch)
        o->n_hidden = o->n_batch;
    return TFT_OK;
}

/* --------------------------------------------------------------------------------------- memory */

static uint64_t state_bytes(const struct tft_model *m)
{
    return m->state_size * (uint64_t)sizeof(float);
}

/* How many draft tokens a pass may compute. The states after them take an eighth of the weights'
   memory at most. */
static uint32_t drafts_of(const struct tft_model *m, const struct tft_session_opts *o)
{
    if (m->n_host < m->n_layer || !o->n_logits || o->n_hidden)
        return 0;
    uint32_t most = o->lookup < o->n_batch ? o->lookup : o->n_batch - 1;
    uint64_t copies = m->state_size ? m->weight_bytes / 8 / state_bytes(m) : most;
    return copies < most ? (uint32_t)copies : most;
}

/* The cost of a draft token, for tft_lookup_open. Three draft tokens with tinyllama, and stories15M
   in f32, took 0.06 to 0.13 of a pass each; 0.2 to 0.3 with stories2M, with weights in the CPU's
   cache (tools/lab/speed.md). With experts, each token of a pass goes to experts of its own, and
   their weights have to be read. A copy of the states is read and written. */
static uint32_t draft_costs(const struct tft_model *m)
{
    const uint64_t cache = 32 << 20;
    uint32_t weights = m->n_expert               ? 65536 * 3 / 4
                       : m->weight_bytes < cache ? 65536 / 2
                                                 : 65536 / 8;
    uint64_t states = m->state_size ? 2 * state_bytes(m) * 65536 / (m->weight_bytes + 1) : 0;
    return weights + (states < 65536 ? (uint32_t)states : 65536);
}

/* The filter if the program has none: special tokens, such as those of the chat template, which
   many models use as sinks. user: the model */
static bool is_special(void *user, uint64_t position, int32_t token)
{
    const struct tft_model *m = user;
    size_t len;
    (void)position;
    return m->tokenizer && !(tft_token_text(m, token, false, &len) && len);
}

/* RoPE's frequencies for a session of this capacity. */
static const double *frequencies(const struct tft_session *s)
{
    const struct tft_model *m = s->m;
    uint32_t n_prefix = m->n_prefix + (s->named ? s->named->n : 0);
    bool is_long = m->rope_freq_long && s->capacity + n_prefix > m->rope_original_ctx;
    return is_long ? m->rope_freq_long : m->rope_freq;
}

/* Counts, or places, all memory of a session; the session itself comes first. */
static struct tft_session *layout(struct tft_arena *a, const struct tft_model *m,
                                  const struct tft_session_opts *o, const struct tft_kv_policy *kv)
{
    struct tft_session discarded, *place = tft_arena_take(a, 1, sizeof *place),
                                  *s = place ? place : &discarded;
    *s = (struct tft_session){.m = m,
                              .named = tft_model_prefix(m, o->prefix),
                              .capacity = o->capacity,
                              .n_batch = o->n_batch,
                              .out = {.n_logits = o->n_logits, .n_hidden = o->n_hidden},
                              .n_threads = o->n_threads,
                              .max_threads = o->n_threads};
    tft_lookup_open(&s->lookup, drafts_of(m, o), draft_costs(m));
    tft_draft_open(&s->draft, m, o->draft, draft_costs(m));
    s->predicted = tft_model_predicts(m) && s->lookup.most
                       ? tft_arena_take(a, 1 + s->lookup.most, m->n_embd * sizeof(float))
                       : NULL;
    s->out.logit_rows =
        s->out.n_logits && s->out.n_logits <= s->lookup.most ? 1 + s->lookup.most : s->out.n_logits;
    s->slide = o->slide ? tft_kv_slide_step(kv, o->capacity) : 0;
    s->whole_prompt = kv->prefill == TFT_KV_PROMPT;
    s->filter.keep = o->keep ? o->keep : is_special;
    s->filter.user = o->keep ? o->keep_user : (void *)(uintptr_t)m;
    s->call.progress = o->progress;
    s->call.user = o->progress_user;

    s->tokens = tft_arena_take(a, s->capacity, sizeof *s->tokens);
    s->rope_freq = frequencies(s);
    struct tft_kv_shape shape = tft_session_kv_shape(s);
    tft_kv_layout(&s->kv, a, &shape, kv, s->capacity, s->n_batch, s->slide,
                  s->n_threads);
    if (kv->i8)
        s->kv.key_offset = tft_arena_take(a, (size_t)s->kv.n_layer * s->kv.n_head_kv,
                                          s->kv.head_dim * sizeof *s->kv.key_offset);
    tft_states_layout(&s->states, a, m->state_size, o->checkpoints, s->lookup.most);
    s->states.first = s->named ? s->named->state : m->prefix_state;
    s->filter.named = kv->keep ? tft_arena_take(a, s->capacity, sizeof *s->filter.named) : NULL;
    for (int i = 0; i < TFT_KV_SIDES; i++)
        s->kv.at[i].is_named = s->filter.named;

    if (m->n_host == m->n_layer) /* a device has logits of its own */
        s->out.logits = tft_arena_take(a, s->out.logit_rows, m->n_vocab * sizeof(float));
    s->out.hidden = tft_arena_take(a, s->out.n_hidden, m->n_embd * sizeof(float));

    s->work = o->batch ? tft_batch_work(o->batch)
                       : tft_work_layout(a, m, s->n_batch, s->max_threads);
    tft_attend_work_layout(&s->attend, a, m, &s->kv, s->max_threads);
    tft_session_loras_layout(&s->loras, a, o);
    bool counts = o->count_ends && m->n_host == m->n_layer;
    s->ends = counts ? tft_arena_take(a, (size_t)s->max_threads, sizeof *s->ends) : NULL;
    return place;
}

/* Layers with keys that RoPE does not turn. */
static void note_still_layers(struct tft_session *s)
{
    for (uint32_t l = 0; s->kv.layer && l < s->m->n_layer; l++) {
        const struct tft_layer *b = &s->m->layer[l];
        if (tft_layer_has_kv(b) && b->no_rope)
            s->kv.layer[b->kv_layer].still = true;
    }
}

/* The prefix's keys and values take their places before all others. Nothing ever overwrites them
   but a ring, in a layer with a window that has left them. */
void tft_session_put_prefix(struct tft_session *s)
{
    const struct tft_model *m = s->m;
    float *k = s->attend.scratch[0].q, *v = s->attend.scratch[0].o;
    for (uint32_t l = 0; l < s->kv.n_host; l++) {
        struct tft_kv_heads heads = tft_model_kv_heads(m, l);
        for (uint32_t pos = 0; pos < s->kv.n_prefix; pos++) {
            const uint16_t *keys, *values;
            tft_session_prefix_row(s, l, pos, &keys, &values);
            for (uint32_t h = 0; h < heads.n; h++, keys += heads.dim, values += heads.dim) {
                m->kern.widen[TFT_NUM_F16](k, keys, heads.dim);
                m->kern.widen[TFT_NUM_F16](v, values, heads.dim);
                tft_kv_store_key(&s->kv, &m->kern, l, h, pos, k);
                tft_kv_store_value(&s->kv, &m->kern, l, h, pos, v);
            }
        }
    }
}

static enum tft_status too_large(const struct tft_model *m, uint32_t capacity, size_t bytes,
                                 struct tft_error *err)
{
    return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for a session of %u tokens (%zu MB)",
                    m->source.name, capacity, bytes >> 20);
}

size_t tft_session_bytes(const struct tft_model *m, const struct tft_session_opts *opts,
                         struct tft_error *err)
{
    struct tft_session_opts o;
    struct tft_kv_policy kv;
    if (resolve(&o, &kv, m, opts, err) != TFT_OK)
        return 0;
    struct tft_arena count = {0};
    layout(&count, m, &o, &kv);
    if (!count.failed)
        return count.used;
    too_large(m, o.capacity, count.used, err);
    return 0;
}

size_t tft_kv_bytes(const struct tft_model *m, const char *kv, struct tft_error *err)
{
    struct tft_kv_policy policy;
    if (resolve_kv(&policy, m, kv, err) != TFT_OK)
        return 0;
    struct tft_kv_shape shape = tft_model_kv_shape(m);
    uint64_t bytes = tft_kv_token_bytes(&shape, &policy);
    return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

static enum tft_status open_stages(struct tft_session *s, struct tft_error *err)
{
    enum tft_status status = TFT_OK;
    for (uint32_t i = 0; i < s->m->n_stage && status == TFT_OK; i++) {
        const struct tft_stage *stage = &s->m->stage[i];
        if (stage->backend->session_open)
            status = stage->backend->session_open(&s->state[i], stage->device, s, err);
    }
    return status;
}

enum tft_status tft_session_open_resolved(struct tft_session **out, const struct tft_model *m,
                                          const struct tft_session_opts *o,
                                          const struct tft_kv_policy *kv, struct tft_error *err)
{
    struct tft_arena a = {0};
    layout(&a, m, o, kv);
    void *memory = a.failed ? NULL : tft_alloc(o->allocator, a.used);
    if (!memory)
        return too_large(m, o->capacity, a.used, err);
    size_t bytes = a.used;
    a = (struct tft_arena){.base = memory};
    struct tft_session *s = layout(&a, m, o, kv);
    s->size = bytes;
    if (o->allocator) {
        s->allocator_copy = *o->allocator;
        s->allocator = &s->allocator_copy;
    }
    if (!o->batch)
        tft_work_open(s->work);
    if (s->ends)
        memset(s->ends, 0, (size_t)s->max_threads * sizeof *s->ends);
    tft_session_key_offsets(s);
    tft_session_put_prefix(s);
    struct tft_kv_shape shape = tft_session_kv_shape(s);
    tft_kv_open(&s->kv, &shape);
    note_still_layers(s);
    tft_states_reset(&s->states);
    enum tft_status status = open_stages(s, err);
    if (status != TFT_OK)
        tft_session_close(s);
    else
        *out = s;
    return status;
}

enum tft_status tft_session_open(struct tft_session **out, const struct tft_model *m,
                                 const struct tft_session_opts *opts, struct tft_error *err)
{
    *out = NULL;
    struct tft_session_opts o;
    struct tft_kv_policy kv;
    enum tft_status status = resolve(&o, &kv, m, opts, err);
    return status == TFT_OK ? tft_session_open_resolved(out, m, &o, &kv, err) : status;
}

void tft_session_close(struct tft_session *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->m->n_stage; i++)
        if (s->state[i])
            s->m->stage[i].backend->session_close(s->state[i]);
    struct tft_allocator copy = s->allocator_copy;
    tft_free(s->allocator ? &copy : NULL, s, s->size);
}
