#include "model.h"

#include <string.h>

#include "backend/device.h"
#include "load.h"
#include "quantized.h"
#include "run/session.h"

/* ---------------------------------------------------------------------------- expanding tensors */

struct expand_job {
    const struct tft_model *m;
    const struct tft_expansion *list;
    size_t n;
    uint64_t all; /* numbers in the list */
    const struct tft_model_opts *opts;
};

static uint64_t count(const struct tft_tensor *t)
{
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

/* Numbers [begin, end) of a tensor, both multiples of its block. */
static void expand_range(const struct tft_kernels *kern, const struct tft_expansion *x,
                         uint64_t begin, uint64_t end)
{
    enum { CHUNK = 4096 }; /* a multiple of every block, small enough for the stack */
    float t[CHUNK];
    const struct tft_dtype_info *type = tft_dtype_info(x->tensor->type);
    for (uint64_t i = begin; i < end; i += CHUNK) {
        size_t n = end - i < CHUNK ? (size_t)(end - i) : CHUNK;
        const unsigned char *from = x->tensor->data + i / type->block * type->bytes;
        char *to = (char *)x->to + i * tft_num_bytes(x->num);
        if (x->num == TFT_NUM_F32) {
            type->to_f32((float *)(void *)to, from, n);
        } else {
            type->to_f32(t, from, n);
            kern->narrow[x->num](to, t, n);
        }
    }
}

static void expand(void *arg, int tid, int n_threads)
{
    const struct expand_job *job = arg;
    uint64_t done = 0;
    for (size_t i = 0; i < job->n; i++) {
        const struct tft_expansion *x = &job->list[i];
        uint64_t block = tft_dtype_info(x->tensor->type)->block, n = count(x->tensor),
                 units = n / block;
        uint64_t begin = units * (uint64_t)tid / (uint64_t)n_threads,
                 end = units * ((uint64_t)tid + 1) / (uint64_t)n_threads;
        expand_range(&job->m->kern, x, begin * block, end * block);
        done += n;
        if (tid == 0 && job->opts->progress)
            job->opts->progress(job->opts->progress_user, (double)done / (double)job->all);
    }
}

static void expand_all(const struct tft_model *m, const struct tft_expansion *list, size_t n,
                       const struct tft_model_opts *opts)
{
    struct expand_job job = {.m = m, .list = list, .n = n, .opts = opts};
    for (size_t i = 0; i < n; i++)
        job.all += count(list[i].tensor);
    if (n)
        tft_port_team(opts->n_threads ? opts->n_threads : tft_port_cpus(), expand, &job);
}

/* -------------------------------------------------------------------------------------- opening */

static const char *copy_text(struct tft_load *ld, const char *key)
{
    const struct tft_value *v = tft_source_value(ld->s, key);
    struct tft_str s = {0};
    if (v && !tft_value_str(v, &s)) {
        if (ld->status == TFT_OK)
            ld->status = tft_fail_at(ld->err, TFT_ERR_FORMAT, ld->s->name, v->offset,
                                     "%s is not a string", key);
        return NULL;
    }
    char *text = v ? tft_arena_take(&ld->arena, s.n + 1, 1) : NULL;
    if (text) {
        memcpy(text, s.p, s.n);
        text[s.n] = 0;
    }
    return text;
}

/* Once to check and count, once to place: see load.h. */
static void load(struct tft_load *ld, bool vocab_only)
{
    struct tft_model *m = ld->m;
    ld->n_expansion = 0;
    m->n_params = m->weight_bytes = m->matmul_macs = 0;
    m->name = copy_text(ld, "general.name");
    m->chat_template = copy_text(ld, "tokenizer.chat_template");
    m->kv = copy_text(ld, TFT_KEY_KV);
    tft_load_prefix_bos(ld);
    if (vocab_only)
        return;
    tft_load_quantized(ld);
    m->arch->load(ld);
    tft_load_inputs(ld);
    tft_load_prefix(ld);
    tft_load_kv(ld);
    if (ld->status == TFT_OK && m->tokenizer && tft_tokenizer_size(m->tokenizer) != m->n_vocab)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%u tokens in the vocabulary, but %u rows of embeddings",
                      tft_tokenizer_size(m->tokenizer), m->n_vocab);
}

static enum tft_status choose_arch(struct tft_model *m, struct tft_error *err)
{
    const struct tft_value *v = tft_source_value(&m->source, "general.architecture");
    struct tft_str name;
    if (!v || !tft_value_str(v, &name))
        return tft_fail(err, TFT_ERR_FORMAT, "%s: general.architecture is missing", m->source.name);
    for (const struct tft_arch *const *a = tft_archs; *a; a++)
        if (tft_str_is(name, (*a)->name)) {
            m->arch = *a;
            return TFT_OK;
        }
    return tft_fail_at(err, TFT_ERR_UNSUPPORTED, m->source.name, v->offset,
                       "the architecture \"%.*s\" is not supported", name.n < 60 ? (int)name.n : 60,
                       name.p);
}

enum tft_status tft_model_plan(struct tft_model *m, enum tft_weights weights, struct tft_error *err)
{
    size_t n = m->source.n_tensor;
    struct tft_load ld = {.m = m, .s = &m->source, .err = err, .expand_to = tft_formats[weights]};
    ld.status = choose_arch(m, err);
    if (ld.status != TFT_OK)
        return ld.status;
    ld.used = tft_alloc(m->allocator, n);
    if (!ld.used)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: no memory", m->source.name);
    memset(ld.used, 0, n);
    load(&ld, false);
    tft_load_check_all_used(&ld);
    m->memory_size = ld.arena.failed ? SIZE_MAX : ld.arena.used;
    tft_free(m->allocator, ld.used, n);
    return ld.status;
}

static enum tft_status open_weights(struct tft_model *m, const struct tft_model_opts *opts,
                                    bool unexpanded, struct tft_error *err)
{
    struct tft_load ld = {.m = m,
                          .s = &m->source,
                          .err = err,
                          .expand_to = tft_formats[opts->weights],
                          .unexpanded = unexpanded};
    load(&ld, opts->vocab_only);
    /* what only loading needs comes last */
    size_t lists_at = ld.arena.used, n_list = ld.n_expansion;
    tft_arena_take(&ld.arena, n_list, sizeof *ld.expansion);
    tft_arena_take(&ld.arena, m->source.n_tensor, 1);
    if (ld.status != TFT_OK)
        return ld.status;

    m->memory = ld.arena.failed ? NULL : tft_alloc(m->allocator, ld.arena.used);
    if (!m->memory)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: no memory for %zu MB of weights", m->source.name,
                        ld.arena.used >> 20);
    m->memory_size = ld.arena.used;
    ld.arena = (struct tft_arena){.base = m->memory, .used = lists_at};
    ld.expansion = tft_arena_take(&ld.arena, n_list, sizeof *ld.expansion);
    ld.used = tft_arena_take(&ld.arena, m->source.n_tensor, 1);
    memset(ld.used, 0, m->source.n_tensor);

    ld.arena.used = 0;
    load(&ld, opts->vocab_only);
    if (!opts->vocab_only)
        tft_load_check_all_used(&ld);
    if (ld.status == TFT_OK)
        expand_all(m, ld.expansion, ld.n_expansion, opts);
    return ld.status;
}

static enum tft_status build(struct tft_model *m, const struct tft_model_opts *opts,
                             bool unexpanded, struct tft_error *err)
{
    tft_kernels_fill(&m->kern, tft_kernels_best());
    if (!opts->vocab_only) {
        enum tft_status status = choose_arch(m, err);
        if (status != TFT_OK)
            return status;
    }
    if (tft_source_value(&m->source, "tokenizer.ggml.model")) {
        enum tft_status status = tft_tokenizer_open(&m->tokenizer, &m->source, m->allocator, err);
        if (status != TFT_OK)
            return status;
    } else if (opts->vocab_only) {
        return tft_fail(err, TFT_ERR_FORMAT, "%s: there is no tokenizer in it", m->source.name);
    }
    return open_weights(m, opts, unexpanded, err);
}

/* path, or data and size. */
static enum tft_status open_model(struct tft_model **out, const char *path, const void *data,
                                  size_t size, const struct tft_model_opts *given, bool unexpanded,
                                  struct tft_error *err)
{
    *out = NULL;
    struct tft_model_opts opts = {0};
    if (given)
        memcpy(&opts, given, given->size < sizeof opts ? given->size : sizeof opts);
    if ((unsigned)opts.weights > TFT_WEIGHTS_BF16)
        return tft_fail(err, TFT_ERR_ARG, "%d is no type of weights", (int)opts.weights);
    if (opts.n_threads < 0 || opts.n_threads > TFT_PORT_THREADS)
        return tft_fail(err, TFT_ERR_ARG, "%d threads: not within 0 .. %d", opts.n_threads,
                        TFT_PORT_THREADS);

    struct tft_model *m = tft_alloc(opts.allocator, sizeof *m);
    if (!m)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: no memory", path ? path : "memory");
    *m = (struct tft_model){0};
    if (opts.allocator) {
        m->allocator_copy = *opts.allocator;
        m->allocator = &m->allocator_copy;
    }
    enum tft_status status =
        path ? tft_source_open(&m->source, path, opts.tokenizer, m->allocator, err)
             : tft_source_open_mem(&m->source, "memory", data, size, m->allocator, err);
    if (status == TFT_OK)
        status = build(m, &opts, unexpanded, err);
    if (status == TFT_OK && opts.device && strcmp(opts.device, "cpu"))
        status = tft_device_open(m, opts.device, opts.gpu_layers, err);
    if (status != TFT_OK) {
        tft_model_close(m);
        return status;
    }
    *out = m;
    return TFT_OK;
}

enum tft_status tft_model_open(struct tft_model **out, const char *path,
                               const struct tft_model_opts *opts, struct tft_error *err)
{
    return open_model(out, path, NULL, 0, opts, false, err);
}

enum tft_status tft_model_open_unexpanded(struct tft_model **out, const char *path,
                                          const struct tft_model_opts *opts, struct tft_error *err)
{
    return open_model(out, path, NULL, 0, opts, true, err);
}

enum tft_status tft_model_open_mem(struct tft_model **out, const void *data, size_t size,
                                   const struct tft_model_opts *opts, struct tft_error *err)
{
    return open_model(out, NULL, data, size, opts, false, err);
}

void tft_model_close(struct tft_model *m)
{
    if (!m)
        return;
    tft_device_close(m);
    tft_tokenizer_close(m->tokenizer);
    tft_free(m->allocator, m->memory, m->memory_size);
    tft_source_close(&m->source);
    struct tft_allocator copy = m->allocator_copy;
    tft_free(m->allocator ? &copy : NULL, m, sizeof *m);
}

/* -------------------------------------------------------------------------------------- looking */

void tft_model_describe(const struct tft_model *m, struct tft_model_info *info)
{
    struct tft_model_info all = {
        .size = info->size,
        .arch = m->arch ? m->arch->name : "",
        .name = m->name ? m->name : "",
        .n_params = m->n_params,
        .weight_bytes = m->weight_bytes,
        .matmul_macs = m->matmul_macs,
        .kv_width = (uint64_t)m->n_layer * m->n_head_kv * m->head_dim * 2,
        .n_vocab = m->tokenizer ? tft_tokenizer_size(m->tokenizer) : m->n_vocab,
        .n_ctx = m->n_ctx - m->n_prefix,
        .n_embd = m->n_embd,
        .n_layer = m->n_layer,
        .n_head = m->n_head,
        .n_head_kv = m->n_head_kv,
        .head_dim = m->head_dim,
        .n_ff = m->n_ff,
        .weights = m->output.w.format ? m->output.w.format->weights : TFT_WEIGHTS_F32,
        .n_prefix = m->n_prefix,
        .prefix_bos = m->prefix_bos,
    };
    memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
}

const char *tft_model_chat_template(const struct tft_model *m)
{
    return m->chat_template;
}

/* --------------------------------------------------------------------------------------- tokens */

enum tft_status tft_tokenize(const struct tft_model *m, const char *text, size_t len,
                             unsigned flags, int32_t *ids, size_t cap, size_t *n)
{
    *n = 0;
    if (m->prefix_bos)
        flags &= ~(unsigned)TFT_ADD_BOS;
    return m->tokenizer ? tft_tokenizer_encode(m->tokenizer, text, len, flags, ids, cap, n)
                        : TFT_ERR_UNSUPPORTED;
}

const char *tft_token_text(const struct tft_model *m, int32_t id, bool special, size_t *len)
{
    *len = 0;
    return m->tokenizer ? tft_tokenizer_text(m->tokenizer, id, special, len) : NULL;
}

int32_t tft_token_bos(const struct tft_model *m)
{
    return m->tokenizer ? tft_tokenizer_bos(m->tokenizer) : -1;
}

int32_t tft_token_eos(const struct tft_model *m)
{
    return m->tokenizer ? tft_tokenizer_eos(m->tokenizer) : -1;
}

bool tft_token_ends(const struct tft_model *m, int32_t id)
{
    return m->tokenizer && tft_tokenizer_ends(m->tokenizer, id);
}

size_t tft_text_push(struct tft_text *t, const struct tft_model *m, int32_t id,
                     char out[TFT_TEXT_MAX])
{
    return m->tokenizer ? tft_tokenizer_push(m->tokenizer, t, id, out) : 0;
}

/* -------------------------------------------------------------------------------------- machine */

const char *tft_cpu_name(void)
{
    return tft_kernels_name(tft_kernels_best());
}

enum tft_status tft_cpu_limit(const char *rung)
{
    return tft_kernels_limit(rung) ? TFT_OK : TFT_ERR_ARG;
}

int tft_cpu_threads(void)
{
    return tft_port_threaded() ? tft_port_cpus() : 1;
}
