#include "model/open.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/flaws.h"
#include "model/keys.h"
#include "model/load.h"
#include "model/packed.h"
#include "model/prefix.h"
#include "model/resident.h"
#include "model/unread.h"
#include "model/w8a8.h"
#include "port/port.h"

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

/* One of the two runs that load.h describes. */
static void load(struct tft_load *ld, bool vocab_only)
{
    struct tft_model *m = ld->m;
    ld->n_conversion = 0;
    m->n_params = m->weight_bytes = m->matmul_macs = 0;
    m->name = copy_text(ld, "general.name");
    m->chat_template = copy_text(ld, "tokenizer.chat_template");
    m->tool_template = copy_text(ld, "tokenizer.chat_template.tool_use");
    m->kv_text = copy_text(ld, TFT_KEY_KV);
    tft_prefix_bos(ld);
    if (vocab_only)
        return;
    tft_w8a8_version(ld);
    tft_w8a8_codes(ld);
    tft_packed_version(ld);
    m->arch->load(ld);
    if (ld->predictor && !tft_model_predicts(m))
        tft_load_fail(ld, TFT_ERR_ARG, "there is no block that predicts further tokens in it");
    tft_w8a8_inputs(ld);
    tft_prefix_load(ld);
    tft_prefix_load_named(ld);
    tft_w8a8_kv(ld);
    if (ld->status == TFT_OK && m->tokenizer && tft_tokenizer_size(m->tokenizer) != m->n_vocab)
        tft_load_fail(ld, TFT_ERR_FORMAT,
                      "the tokenizer has %u tokens, but the embedding has %u rows",
                      tft_tokenizer_size(m->tokenizer), m->n_vocab);
}

/* Why the file is no model that writes text; NULL: it may be one. type: general.type. */
static const char *why_no_model(struct tft_str arch, struct tft_str type)
{
    if (tft_str_is(arch, "t5"))
        return "an encoder with a decoder, which reads another text than it writes";
    if (tft_str_is(arch, "clip") || tft_str_is(type, "mmproj"))
        return "the part of a model that reads images: name the file of the part that writes text";
    if (tft_str_is(type, "adapter"))
        return "a LoRA adapter and no model: name its model, and the adapter with --lora";
    return NULL;
}

/* Whether the file has an encoder: it says so, or its architecture is one. */
static bool is_encoder(const struct tft_source *s, struct tft_str arch)
{
    char key[96];
    uint64_t causal = 1;
    if (tft_str_is(arch, "t5encoder"))
        return true;
    snprintf(key, sizeof key, "%.*s.attention.causal", TFT_STR_ARG(arch));
    const struct tft_value *v = tft_source_value(s, key);
    return v && tft_value_uint(v, 0, &causal) && !causal;
}

/* NULL: there is none of this name. */
static const struct tft_arch *find_arch(const struct tft_arch *const *archs, struct tft_str name)
{
    while (*archs && !tft_str_is(name, (*archs)->name))
        archs++;
    return *archs;
}

/* What the file is, if its vocabulary alone is opened: it may be of an unknown architecture. */
static void look_at_arch(struct tft_model *m, const struct tft_arch *const *archs)
{
    const struct tft_value *v = tft_source_value(&m->source, "general.architecture");
    struct tft_str name;
    m->kind = v && tft_value_str(v, &name) ? find_arch(archs, name) : NULL;
    m->encoder = m->kind && m->kind->parts & TFT_BIT(TFT_PART_ENCODER);
}

static enum tft_status choose_arch(struct tft_model *m, const struct tft_arch *const *archs,
                                   struct tft_error *err)
{
    const struct tft_value *v = tft_source_value(&m->source, "general.architecture");
    struct tft_str name;
    if (!v || !tft_value_str(v, &name))
        return tft_fail(err, TFT_ERR_FORMAT, "%s: general.architecture is missing", m->source.name);
    const struct tft_value *kind = tft_source_value(&m->source, "general.type");
    struct tft_str type = {0};
    if (kind && !tft_value_str(kind, &type))
        type = (struct tft_str){0};
    const char *why = why_no_model(name, type);
    if (why)
        return tft_fail_at(err, TFT_ERR_UNSUPPORTED, m->source.name, v->offset,
                           "the file is %s (%.*s): it is not supported", why,
                           name.n < 60 ? (int)name.n : 60, name.p);
    m->arch = m->kind = find_arch(archs, name);
    if (m->arch)
        return TFT_OK;
    if (is_encoder(&m->source, name))
        return tft_fail_at(err, TFT_ERR_UNSUPPORTED, m->source.name, v->offset, "%s",
                           tft_load_not_causal);
    return tft_fail_at(err, TFT_ERR_UNSUPPORTED, m->source.name, v->offset,
                       "the architecture \"%.*s\" is not supported", name.n < 60 ? (int)name.n : 60,
                       name.p);
}

size_t tft_open_plan_tables(const struct tft_source *s)
{
    const struct tft_value *k = tft_source_value(s, TFT_KEY_KV_FISHER_K),
                           *v = tft_source_value(s, TFT_KEY_KV_FISHER_V);
    return (size_t)((k ? k->n : 0) + (v ? v->n : 0));
}

enum tft_status tft_open_plan(struct tft_model *m, const struct tft_arch *const *archs,
                              enum tft_weights weights, const struct tft_plan_room *room,
                              struct tft_error *err)
{
    size_t n = m->source.n_tensor, n_used = n + m->source.n_value;
    struct tft_load ld = {.m = m,
                          .s = &m->source,
                          .err = err,
                          .weights = weights,
                          .windows = room ? room->windows : NULL,
                          .heads = room ? room->heads : NULL,
                          .tables = room ? room->tables : NULL};
    ld.status = choose_arch(m, archs, err);
    if (ld.status != TFT_OK)
        return ld.status;
    ld.used = tft_alloc(m->allocator, n_used);
    if (!ld.used)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", m->source.name);
    memset(ld.used, 0, n_used);
    ld.read = ld.used + n;
    load(&ld, false);
    size_t of_blocks = ld.status == TFT_OK ? ld.n_block * sizeof *ld.blocks : 0;
    if (of_blocks) { /* sessions need the sizes of all blocks, not of the last one alone */
        ld.blocks = tft_alloc(m->allocator, of_blocks);
        ld.arena = (struct tft_arena){0};
        if (ld.blocks)
            load(&ld, false);
        else
            ld.status = tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", m->source.name);
    }
    tft_load_check_all_used(&ld);
    tft_unread_refuse(&ld);
    m->memory_size = ld.arena.failed ? SIZE_MAX : ld.arena.used;
    m->layer = NULL;
    tft_free(m->allocator, ld.blocks, of_blocks);
    tft_free(m->allocator, ld.used, n_used);
    return ld.status;
}

static enum tft_status open_weights(struct tft_model *m, const struct tft_opening *o,
                                    struct tft_error *err)
{
    struct tft_load ld = {.m = m,
                          .s = &m->source,
                          .err = err,
                          .weights = o->opts->weights,
                          .ignore = o->opts->ignore_keys,
                          .predictor = o->opts->predictor,
                          .unexpanded = o->unexpanded};
    tft_unread_mark(&ld);
    load(&ld, o->opts->vocab_only);
    /* the lists that only loading needs come last */
    size_t lists_at = ld.arena.used, n_list = ld.n_conversion;
    tft_arena_take(&ld.arena, n_list, sizeof *ld.conversion);
    tft_arena_take(&ld.arena, m->source.n_tensor, 1);
    tft_arena_take(&ld.arena, m->source.n_value, 1);
    if (ld.status != TFT_OK)
        return ld.status;

    m->memory = ld.arena.failed ? NULL : tft_alloc(m->allocator, ld.arena.used);
    if (!m->memory)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for %zu MB of weights",
                        m->source.name, ld.arena.used >> 20);
    m->memory_size = ld.arena.used;
    ld.arena = (struct tft_arena){.base = m->memory, .used = lists_at};
    ld.conversion = tft_arena_take(&ld.arena, n_list, sizeof *ld.conversion);
    ld.used = tft_arena_take(&ld.arena, m->source.n_tensor, 1);
    memset(ld.used, 0, m->source.n_tensor);
    ld.read = tft_arena_take(&ld.arena, m->source.n_value, 1);
    memset(ld.read, 0, m->source.n_value);

    ld.arena.used = 0;
    load(&ld, o->opts->vocab_only);
    if (!o->opts->vocab_only) {
        tft_load_check_all_used(&ld);
        tft_unread_refuse(&ld);
    }
    if (ld.status == TFT_OK && !o->opts->vocab_only && !o->unexpanded)
        ld.status = tft_resident_open(m, o->opts->experts_bytes, err);
    if (ld.status == TFT_OK)
        ld.status = tft_convert(&m->kern, &m->source, ld.conversion, ld.n_conversion, o->opts, err);
    if (ld.status == TFT_OK && ld.w8a8) {
        ld.status = tft_flaws_refuse(m, o->opts->n_threads, err);
        tft_resident_clear(m);
    }
    return ld.status;
}

/* From the source on. */
static enum tft_status build(struct tft_model *m, const struct tft_opening *o,
                             struct tft_error *err)
{
    tft_kernels_fill(&m->kern, tft_kernels_best());
    if (m->kern.contracted)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "this build of tuffet makes fma of products and sums, and would compute "
                        "other numbers: compile it with -ffp-contract=off");
    if (o->opts->vocab_only) {
        look_at_arch(m, o->archs);
    } else {
        enum tft_status status = choose_arch(m, o->archs, err);
        if (status != TFT_OK)
            return status;
    }
    if (tft_source_value(&m->source, "tokenizer.ggml.model")) {
        enum tft_status status = tft_tokenizer_open(&m->tokenizer, &m->source, m->allocator, err);
        if (status != TFT_OK)
            return status;
    } else if (o->opts->vocab_only) {
        return tft_fail(err, TFT_ERR_FORMAT, "%s: there is no tokenizer in it", m->source.name);
    }
    return open_weights(m, o, err);
}

enum tft_status tft_open(struct tft_model **out, const struct tft_opening *o, struct tft_error *err)
{
    const struct tft_model_opts *opts = o->opts;
    *out = NULL;
    if ((unsigned)opts->weights > TFT_WEIGHTS_BF16)
        return tft_fail(err, TFT_ERR_ARG, "weights cannot become those of type %d",
                        (int)opts->weights);
    if (opts->tokenizer && opts->tokenizer_data)
        return tft_fail(err, TFT_ERR_ARG, "a tokenizer by its path and another in memory");
    if (opts->n_threads < 0 || opts->n_threads > TFT_PORT_THREADS)
        return tft_fail(err, TFT_ERR_ARG, "%d threads; there can be 0 (all CPUs) to %d",
                        opts->n_threads, TFT_PORT_THREADS);

    struct tft_model *m = tft_alloc(opts->allocator, sizeof *m);
    if (!m)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", o->file.name);
    *m = (struct tft_model){0};
    if (opts->allocator) {
        m->allocator_copy = *opts->allocator;
        m->allocator = &m->allocator_copy;
    }
    struct tft_place tokenizer = {0};
    if (opts->tokenizer_data)
        tokenizer = (struct tft_place){.where = TFT_IN_MEMORY,
                                       .name = "tokenizer_data",
                                       .data = opts->tokenizer_data,
                                       .size = opts->tokenizer_size};
    else if (opts->tokenizer)
        tokenizer = (struct tft_place){.where = TFT_AT_PATH, .name = opts->tokenizer};
    enum tft_status status =
        tft_source_open_at(&m->source, &o->file, &tokenizer, m->allocator, err);
    if (status == TFT_OK)
        status = build(m, o, err);
    if (status != TFT_OK) {
        tft_open_undo(m);
        return status;
    }
    *out = m;
    return TFT_OK;
}

void tft_open_undo(struct tft_model *m)
{
    tft_tokenizer_close(m->tokenizer);
    tft_resident_close(m);
    tft_free(m->allocator, m->memory, m->memory_size);
    tft_source_close(&m->source);
    struct tft_allocator copy = m->allocator_copy;
    tft_free(m->allocator ? &copy : NULL, m, sizeof *m);
}
