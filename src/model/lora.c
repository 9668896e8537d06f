#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/crc32.h"
#include "base/error.h"

enum { NAME = 160, MOST_RANK = 4096 };

struct opening {
    const struct tft_model *m;
    struct tft_source s; /* the adapter's file */
    double alpha;        /* 0: each part has the factor 1 */
    struct tft_error *err;
};

static enum tft_status refuse(const struct opening *o, uint64_t at, const char *text)
{
    return tft_fail_at(o->err, TFT_ERR_UNSUPPORTED, o->s.name, at, "%s", text);
}

static enum tft_status can_adapt(const struct tft_model *m, struct tft_error *err)
{
    if (!m->arch)
        return tft_fail(err, TFT_ERR_ARG, "%s: opened with vocab_only: there is no model to adapt",
                        m->source.name);
    if (m->encoder)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: an encoder takes no adapter",
                        m->source.name);
    if (m->byte_inputs)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: its weights and inputs are int8, to which an adapter cannot be added: "
                        "merge the adapter with the float model (tuffet quantize --lora)",
                        m->source.name);
    return TFT_OK;
}

/* ------------------------------------------------------------------------------------- the file */

static bool is_text(const struct tft_source *s, const char *key, const char *text)
{
    const struct tft_value *v = tft_source_value(s, key);
    struct tft_str str;
    return v && tft_value_str(v, &str) && tft_str_is(str, text);
}

static enum tft_status read_values(struct opening *o)
{
    const struct tft_value *alpha = tft_source_value(&o->s, "adapter.lora.alpha");
    if (!is_text(&o->s, "general.type", "adapter"))
        return refuse(o, 0, "not an adapter: general.type is not \"adapter\"");
    if (!is_text(&o->s, "adapter.type", "lora"))
        return refuse(o, 0, "an adapter of another kind than LoRA");
    if (!is_text(&o->s, "general.architecture", o->m->arch->name))
        return tft_fail(o->err, TFT_ERR_ARG,
                        "%s: an adapter of another architecture than the model's, %s", o->s.name,
                        o->m->arch->name);
    if (alpha && (!tft_value_real(alpha, 0, &o->alpha) || !(fabs(o->alpha) <= 1e6)))
        return tft_fail_at(o->err, TFT_ERR_FORMAT, o->s.name, alpha->offset,
                           "adapter.lora.alpha is not a number up to 1e6");
    return TFT_OK;
}

/* The model's tensor that t belongs to, and whether t is its lora_b. NULL: there is none. */
static const struct tft_tensor *adapted(const struct opening *o, const struct tft_tensor *t,
                                        bool *is_b)
{
    char name[NAME];
    const size_t suffix = sizeof ".lora_a" - 1;
    if (t->name.n <= suffix || t->name.n - suffix >= sizeof name)
        return NULL;
    size_t n = t->name.n - suffix;
    const char *end = t->name.p + n;
    *is_b = memcmp(end, ".lora_b", suffix) == 0;
    if (!*is_b && memcmp(end, ".lora_a", suffix) != 0)
        return NULL;
    memcpy(name, t->name.p, n);
    name[n] = 0;
    return tft_source_tensor(&o->m->source, name);
}

static const struct tft_tensor *partner(const struct opening *o, const struct tft_tensor *a)
{
    char name[NAME + 8];
    snprintf(name, sizeof name, "%.*s", (int)a->name.n, a->name.p);
    name[a->name.n - 1] = 'b';
    return tft_source_tensor(&o->s, name);
}

/* -------------------------------------------------------------------------- matrices with parts */

static void target(struct tft_lora *lora, const struct tft_linear *l)
{
    if (!l->w.tensor || !l->w.rows || l->w.experts || l->w.factor != 0)
        return;
    struct tft_lora_part *part = &lora->part[l->w.tensor - lora->m->source.tensor];
    uint32_t end = l->w.tensor_row + l->w.rows;
    part->cols = l->w.cols;
    part->rows = end > part->rows ? end : part->rows;
}

/* Gives the parts of matrices that may be adapted their sizes: matrices with a product of their
   own (latent attention, experts, RWKV-7, embeddings) may not, nor matrices with a factor, of which
   programs disagree whether it multiplies the adapter, too. A head that is tied to the embedding
   is not a matrix of its own. */
static void targets(struct tft_lora *lora)
{
    const struct tft_model *m = lora->m;
    bool latent = m->arch->parts & TFT_BIT(TFT_PART_LATENT);
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_layer *b = &m->layer[l];
        if (b->mixer == TFT_MIX_RWKV)
            continue;
        for (uint32_t i = 0; !latent && i < tft_layer_reads(b); i++)
            target(lora, &b->reads[i]);
        if (!latent)
            target(lora, &b->o);
        target(lora, &b->gate);
        target(lora, &b->up);
        target(lora, &b->down);
    }
    if (m->output.w.tensor != m->embed.tensor)
        target(lora, &m->output);
}

/* ------------------------------------------------------------------------------------- numbers */

static enum tft_status wrong(const struct opening *o, const struct tft_tensor *t, const char *why)
{
    return tft_fail_at(o->err, TFT_ERR_UNSUPPORTED, tft_source_file(&o->s, t->data), t->offset,
                       "the tensor %.*s %s", TFT_STR_ARG(t->name), why);
}

/* to: NULL, or gets the numbers. */
static enum tft_status read_matrix(const struct opening *o, const struct tft_tensor *t,
                                   uint64_t cols, uint64_t rows, float *to)
{
    const struct tft_dtype_info *type = tft_dtype_info(t->type);
    if (t->ne[0] != cols || t->ne[1] != rows || t->ne[2] != 1 || t->ne[3] != 1)
        return tft_fail_at(o->err, TFT_ERR_FORMAT, tft_source_file(&o->s, t->data), t->offset,
                           "the tensor %.*s is [%llu, %llu], and the model needs [%llu, %llu]",
                           TFT_STR_ARG(t->name), (unsigned long long)t->ne[1],
                           (unsigned long long)t->ne[0], (unsigned long long)rows,
                           (unsigned long long)cols);
    if (!type->to_f32)
        return wrong(o, t, "has integers");
    if (!to)
        return TFT_OK;
    type->to_f32(to, t->data, (size_t)(cols * rows));
    for (uint64_t i = 0; i < cols * rows; i++)
        if (!isfinite(to[i]))
            return wrong(o, t, "has NaN or infinity");
    return TFT_OK;
}

static uint32_t sum_of(uint32_t sum, const struct tft_tensor *t, const float *x, size_t n)
{
    sum = tft_crc32(sum, t->name.p, t->name.n);
    return tft_crc32(sum, x, n * sizeof *x);
}

/* a is a lora_a for the tensor `of`. */
static enum tft_status read_part(const struct opening *o, struct tft_lora *lora,
                                 struct tft_arena *arena, const struct tft_tensor *a,
                                 const struct tft_tensor *of)
{
    struct tft_lora_part *part = &lora->part[of - o->m->source.tensor];
    const struct tft_tensor *b = partner(o, a);
    uint64_t rank = a->ne[1];
    if (!b)
        return wrong(o, a, "has no lora_b beside it");
    if (rank > MOST_RANK)
        return wrong(o, a, "has a rank above 4096");
    size_t one = (size_t)rank * sizeof(float); /* the arena checks the next product */
    float *to_a = tft_arena_take(arena, part->cols, one),
          *to_b = tft_arena_take(arena, part->rows, one);
    enum tft_status status = read_matrix(o, a, part->cols, rank, to_a);
    if (status == TFT_OK)
        status = read_matrix(o, b, rank, part->rows, to_b);
    if (status != TFT_OK)
        return status;
    part->rank = (uint32_t)rank;
    part->scale = o->alpha != 0 ? (float)(o->alpha / (double)rank) : 1;
    part->a = to_a;
    part->b = to_b;
    lora->rank = part->rank > lora->rank ? part->rank : lora->rank;
    lora->cols = part->cols > lora->cols ? part->cols : lora->cols;
    if (to_a) {
        lora->sum = tft_crc32(lora->sum, &part->scale, sizeof part->scale);
        lora->sum = sum_of(lora->sum, a, to_a, (size_t)rank * part->cols);
        lora->sum = sum_of(lora->sum, b, to_b, (size_t)rank * part->rows);
    }
    return TFT_OK;
}

static enum tft_status read_parts(const struct opening *o, struct tft_lora *lora,
                                  struct tft_arena *arena)
{
    enum tft_status status = TFT_OK;
    size_t n = 0, n_b = 0;
    for (size_t i = 0; i < o->s.n_tensor && status == TFT_OK; i++) {
        const struct tft_tensor *t = &o->s.tensor[i];
        bool is_b = false;
        const struct tft_tensor *of = adapted(o, t, &is_b);
        if (!of)
            return wrong(o, t, "is not a lora_a or lora_b of a tensor that the model has");
        if (!lora->part[of - o->m->source.tensor].rows)
            return wrong(o, t, "adapts a tensor for which adapters are not supported");
        if (!is_b)
            status = read_part(o, lora, arena, t, of);
        n += !is_b;
        n_b += is_b;
    }
    if (status == TFT_OK && (n == 0 || n_b != n))
        return refuse(o, 0, n ? "a lora_b has no lora_a beside it" : "there are no tensors in it");
    return status;
}

/* ------------------------------------------------------------------------------------- opening */

/* place: the arena's block begins with the adapter itself, or NULL while counting. */
static struct tft_lora *begin(const struct opening *o, struct tft_arena *arena)
{
    struct tft_lora *lora = tft_arena_take(arena, 1, sizeof *lora);
    struct tft_lora_part *part = tft_arena_take(arena, o->m->source.n_tensor, sizeof *part);
    if (!lora)
        return NULL;
    memset(part, 0, o->m->source.n_tensor * sizeof *part);
    *lora = (struct tft_lora){.m = o->m, .part = part};
    targets(lora);
    return lora;
}

static enum tft_status no_memory(const struct opening *o)
{
    return tft_fail(o->err, TFT_ERR_NOMEM, "%s: out of memory for the adapter", o->s.name);
}

/* Counts with parts in memory of their own: the numbers come after these in the adapter's. */
static enum tft_status count(const struct opening *o, size_t *bytes)
{
    struct tft_arena head = {0}, numbers;
    begin(o, &head);
    size_t n = head.used;
    void *memory = head.failed ? NULL : tft_alloc(o->m->allocator, n);
    if (!memory)
        return no_memory(o);
    head = (struct tft_arena){.base = memory};
    struct tft_lora *lora = begin(o, &head);
    numbers = (struct tft_arena){.used = n};
    enum tft_status status = read_parts(o, lora, &numbers);
    if (status == TFT_OK && numbers.failed)
        status = no_memory(o);
    tft_free(o->m->allocator, memory, n);
    *bytes = numbers.used;
    return status;
}

static enum tft_status place(const struct opening *o, struct tft_lora **out)
{
    size_t bytes = 0;
    enum tft_status status = count(o, &bytes);
    if (status != TFT_OK)
        return status;
    void *memory = tft_alloc(o->m->allocator, bytes);
    if (!memory)
        return no_memory(o);
    struct tft_arena arena = {.base = memory};
    struct tft_lora *lora = begin(o, &arena);
    lora->size = bytes;
    status = read_parts(o, lora, &arena);
    if (status == TFT_OK)
        *out = lora;
    else
        tft_free(o->m->allocator, memory, bytes);
    return status;
}

enum tft_status tft_lora_open(struct tft_lora **out, const struct tft_model *m, const char *path,
                              struct tft_error *err)
{
    struct opening o = {.m = m, .err = err};
    *out = NULL;
    enum tft_status status = can_adapt(m, err);
    if (status != TFT_OK)
        return status;
    status = tft_source_open(&o.s, path, NULL, m->allocator, err);
    if (status == TFT_OK)
        status = read_values(&o);
    if (status == TFT_OK)
        status = place(&o, out);
    tft_source_close(&o.s);
    return status;
}

void tft_lora_close(struct tft_lora *lora)
{
    if (lora)
        tft_free(lora->m->allocator, lora, lora->size);
}
