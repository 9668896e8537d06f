#include "tools/quantize/write/plain.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/keys.h"
#include "port/port.h"
#include "simd/half.h"
#include "tools/quantize/blocks/blocks.h"
#include "tools/quantize/write/old_keys.h"

enum { PIECE = 1 << 20 };          /* numbers that are in memory at a time, at least a row */
enum { QUANTIZATION_VERSION = 2 }; /* of ggml's blocks, GGML_QNT_VERSION */

struct plain {
    const struct tft_source *s;
    const struct plain_opts *o;
    struct tft_gguf_writer *w;
    struct tft_error *err;
    float *x;            /* [threads, a row] */
    float *ones;         /* [a row] weights where none are known */
    unsigned char *data; /* [a piece] */
    size_t widest;
    uint64_t done, all; /* bytes to read */
    bool stopped;
    enum tft_status status;
};

/* ---- values */

/* Whether a key of the old file goes into the new one. */
static bool is_kept(const struct plain *c, struct tft_str key)
{
    if (!describes_old_file(key))
        return true;
    if (!mix_keeps(c->o->mix))
        return false;
    bool tables = tft_str_is(key, TFT_KEY_KV_FISHER_K) || tft_str_is(key, TFT_KEY_KV_FISHER_V),
         cache = tables || (tft_str_is(key, TFT_KEY_KV) && !c->o->kv);
    return describes_types(key) || (c->o->keeps_cache && cache);
}

static void put_values(const struct plain *c)
{
    for (size_t i = 0; i < c->s->n_value; i++) {
        const struct tft_value *v = &c->s->value[i];
        if (!v->ignored && is_kept(c, v->key))
            tft_gguf_put_value(c->w, v);
    }
    if (!mix_keeps(c->o->mix)) {
        tft_gguf_put_u32(c->w, "general.file_type", c->o->mix->file_type);
        tft_gguf_put_u32(c->w, "general.quantization_version", QUANTIZATION_VERSION);
    }
    tft_gguf_put_checksum(c->w, TFT_CHECKSUM_KEY);
    if (c->o->kv)
        tft_gguf_put_str(c->w, TFT_KEY_KV, (struct tft_str){c->o->kv, strlen(c->o->kv)});
}

/* ---- tensors */

/* Rows of a tensor that threads encode. */
struct piece {
    const struct plain *c;
    const struct tft_tensor *t;
    enum tft_dtype type;
    const float *weight;
    uint64_t first, rows;
    size_t from_bytes, to_bytes; /* of a row */
    float limit;
    atomic_bool bad; /* a number is not within the limit */
};

static void encode(void *arg, int tid, int n)
{
    struct piece *p = arg;
    size_t cols = (size_t)p->t->ne[0];
    float *x = p->c->x + (size_t)tid * p->c->widest;
    uint64_t begin = p->rows * (uint64_t)tid / (uint64_t)n,
             end = p->rows * ((uint64_t)tid + 1) / (uint64_t)n;
    for (uint64_t r = begin; r < end; r++) {
        bool bad = false;
        tft_dtype_info(p->t->type)->to_f32(x, p->t->data + (p->first + r) * p->from_bytes, cols);
        for (size_t i = 0; i < cols; i++)
            bad |= !(fabsf(x[i]) <= p->limit);
        if (bad) {
            atomic_store(&p->bad, true);
            return;
        }
        blocks_row(p->c->data + r * p->to_bytes, p->type, x, p->weight, cols);
    }
}

/* The largest number of a type. Scales are f16, and a block's are less than its numbers. */
static float limit_of(enum tft_dtype type)
{
    return type == TFT_F32 || type == TFT_BF16 ? 0x1.fep127f : TFT_F16_MAX;
}

static void fail_number(struct plain *c, const struct piece *p)
{
    c->status =
        tft_fail(c->err, TFT_ERR_UNSUPPORTED,
                 "%s: the tensor %.*s has NaN, an infinity, or a number beyond %g, which %s "
                 "cannot hold",
                 tft_source_file(c->s, p->t->data), TFT_STR_ARG(p->t->name), (double)p->limit,
                 tft_dtype_name(p->type));
}

static void progress(struct plain *c, uint64_t bytes)
{
    c->done += bytes;
    if (c->o->progress && !c->o->progress(c->o->user, (double)c->done / (double)c->all))
        c->stopped = true;
}

static bool goes_on(const struct plain *c)
{
    return c->status == TFT_OK && !c->stopped && !tft_gguf_failed(c->w);
}

static const float *weight_of(const struct plain *c, const struct tft_tensor *t)
{
    const float *known = c->o->importance->of ? c->o->importance->of[t - c->s->tensor] : NULL;
    return known ? known : c->ones;
}

static void put_encoded(struct plain *c, const struct tft_tensor *t, enum tft_dtype type)
{
    uint64_t rows = t->ne[1] * t->ne[2] * t->ne[3], most = PIECE / t->ne[0] ? PIECE / t->ne[0] : 1,
             to = 0, from = t->bytes / rows;
    tft_dtype_bytes(type, t->ne[0], &to);
    for (uint64_t r = 0; r < rows && goes_on(c); r += most) {
        struct piece p = {.c = c,
                          .t = t,
                          .type = type,
                          .weight = weight_of(c, t),
                          .first = r,
                          .rows = rows - r < most ? rows - r : most,
                          .from_bytes = (size_t)from,
                          .to_bytes = (size_t)to,
                          .limit = limit_of(type)};
        tft_port_team(c->o->n_threads, encode, &p);
        if (atomic_load(&p.bad))
            fail_number(c, &p);
        else
            tft_gguf_put_data(c->w, c->data, (size_t)(p.rows * to));
        progress(c, p.rows * from);
    }
}

static void put_rounded(struct plain *c, const struct tft_tensor *t, enum tft_dtype type,
                        const unsigned char *blocks)
{
    uint64_t row = 0;
    tft_dtype_bytes(type, t->ne[0], &row);
    tft_gguf_put_data(c->w, blocks, (size_t)(row * t->ne[1] * t->ne[2] * t->ne[3]));
    progress(c, t->bytes);
}

static void put_data(struct plain *c)
{
    for (size_t i = 0; i < c->s->n_tensor && goes_on(c); i++) {
        const struct tft_tensor *t = &c->s->tensor[i];
        enum tft_dtype type = mix_type(c->o->mix, c->s, t);
        if (c->o->rounded && c->o->rounded[i]) {
            put_rounded(c, t, type, c->o->rounded[i]);
        } else if (type != t->type) {
            put_encoded(c, t, type);
        } else {
            tft_gguf_put_data(c->w, t->data, (size_t)t->bytes);
            progress(c, t->bytes);
        }
        tft_source_forget(c->s, t->data, t->bytes);
    }
}

static void put_descriptions(const struct plain *c)
{
    for (size_t i = 0; i < c->s->n_tensor; i++) {
        const struct tft_tensor *t = &c->s->tensor[i];
        tft_gguf_put_tensor(c->w, t->name, mix_type(c->o->mix, c->s, t), t->n_dims, t->ne);
    }
}

/* ---- the whole */

struct plain_made plain_plan(const struct tft_source *s, const struct mix *mix)
{
    struct plain_made made = {.n_tensor = s->n_tensor};
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        enum tft_dtype type = mix_type(mix, s, t);
        uint64_t row = 0;
        tft_dtype_bytes(type, t->ne[0], &row);
        row *= t->ne[1] * t->ne[2] * t->ne[3];
        made.bytes += row;
        made.blocks += tft_dtype_info(type)->block > 1 ? row : 0;
        made.tensors[type]++;
    }
    return made;
}

static bool alloc(struct plain *c)
{
    for (size_t i = 0; i < c->s->n_tensor; i++) {
        const struct tft_tensor *t = &c->s->tensor[i];
        c->widest = t->ne[0] > c->widest ? (size_t)t->ne[0] : c->widest;
        c->all += t->bytes;
    }
    c->x = calloc((size_t)c->o->n_threads, c->widest * sizeof *c->x);
    c->ones = malloc(c->widest * sizeof *c->ones);
    c->data = malloc((c->widest > PIECE ? c->widest : PIECE) * sizeof(float));
    for (size_t i = 0; c->ones && i < c->widest; i++)
        c->ones[i] = 1;
    return c->x && c->ones && c->data;
}

enum tft_status plain_write(const struct tft_source *s, const char *path,
                            const struct plain_opts *o, struct tft_new_file **temp, bool *stopped,
                            struct tft_error *err)
{
    struct plain c = {.s = s, .o = o, .err = err};
    *temp = NULL;
    c.status = alloc(&c) ? tft_gguf_create(&c.w, path, err)
                         : tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", s->name);
    if (c.status == TFT_OK) {
        put_values(&c);
        put_descriptions(&c);
        put_data(&c);
        if (c.status != TFT_OK || c.stopped)
            tft_gguf_close(c.w, false, NULL);
        else
            c.status = tft_gguf_complete(c.w, temp, err);
    }
    free(c.x);
    free(c.ones);
    free(c.data);
    *stopped = c.stopped;
    return c.status;
}
