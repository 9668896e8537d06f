#include "tools/quantize/write/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "file/file.h"

struct writing {
    const struct merge *g;
    struct tft_gguf_writer *w;
    float *row;
    double *sum; /* [cols] of the longest row */
    bool stopped;
};

/* The part of an adapter for a tensor; NULL: it leaves the tensor as it is. */
static const struct tft_lora_part *part_of(const struct merge *g, size_t i,
                                           const struct tft_tensor *t)
{
    const struct tft_lora_part *part = &g->use[i].lora->part[t - g->m->source.tensor];
    return part->rank && g->use[i].scale != 0 ? part : NULL;
}

static bool is_adapted(const struct merge *g, const struct tft_tensor *t)
{
    for (size_t i = 0; i < g->n; i++)
        if (part_of(g, i, t))
            return true;
    return false;
}

static bool is_float(enum tft_dtype type)
{
    return type == TFT_F32 || type == TFT_F16 || type == TFT_BF16;
}

enum tft_status merge_check(const struct merge *g, uint64_t *bytes, struct tft_error *err)
{
    const struct tft_source *s = &g->m->source;
    *bytes = 0;
    if (!s->version)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: adapters are merged with a GGUF file or a folder", s->name);
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        bool adapted = is_adapted(g, t);
        if (adapted && !is_float(t->type))
            return tft_fail(err, TFT_ERR_UNSUPPORTED,
                            "%s: the tensor %.*s is %s: adapters are merged with the float model",
                            tft_source_file(s, t->data), TFT_STR_ARG(t->name),
                            tft_dtype_name(t->type));
        *bytes += adapted ? t->ne[0] * t->ne[1] * sizeof(float) : t->bytes;
    }
    return TFT_OK;
}

/* ---- writing */

/* Keys about the old file itself. */
static bool describes_file(struct tft_str key)
{
    return tft_str_is(key, TFT_CHECKSUM_KEY) || (key.n > 6 && memcmp(key.p, "split.", 6) == 0);
}

static void put_head(struct writing *z)
{
    const struct tft_source *s = &z->g->m->source;
    for (size_t i = 0; i < s->n_value; i++)
        if (!s->value[i].ignored && !describes_file(s->value[i].key))
            tft_gguf_put_value(z->w, &s->value[i]);
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        tft_gguf_put_tensor(z->w, t->name, is_adapted(z->g, t) ? TFT_F32 : t->type, t->n_dims,
                            t->ne);
    }
}

/* Adds row r of the product of an adapter. */
static void add(double *sum, const struct tft_lora_part *part, double scale, uint64_t r)
{
    const float *b = part->b + r * part->rank;
    for (uint32_t k = 0; k < part->rank; k++) {
        const float *a = part->a + (size_t)k * part->cols;
        double by = scale * (double)b[k];
        for (uint32_t c = 0; c < part->cols; c++)
            sum[c] += by * (double)a[c];
    }
}

/* Row r of the tensor with all adapters, to z->row. */
static void merge_row(struct writing *z, const struct tft_tensor *t, uint64_t r)
{
    const struct tft_dtype_info *type = tft_dtype_info(t->type);
    size_t cols = (size_t)t->ne[0];
    type->to_f32(z->row, t->data + r * cols * type->bytes, cols);
    for (size_t c = 0; c < cols; c++)
        z->sum[c] = (double)z->row[c];
    for (size_t i = 0; i < z->g->n; i++) {
        const struct tft_lora_part *part = part_of(z->g, i, t);
        if (part && r < part->rows)
            add(z->sum, part, (double)z->g->use[i].scale * (double)part->scale, r);
    }
    for (size_t c = 0; c < cols; c++)
        z->row[c] = (float)z->sum[c];
}

static bool is_finite(const float *row, size_t n)
{
    for (size_t c = 0; c < n; c++)
        if (!isfinite(row[c]))
            return false;
    return true;
}

static enum tft_status put_merged(struct writing *z, const struct tft_tensor *t,
                                  struct tft_error *err)
{
    size_t cols = (size_t)t->ne[0];
    for (uint64_t r = 0; r < t->ne[1] && !tft_gguf_failed(z->w); r++) {
        merge_row(z, t, r);
        if (!is_finite(z->row, cols))
            return tft_fail(err, TFT_ERR_UNSUPPORTED,
                            "%s: the tensor %.*s has NaN or infinity with the adapters",
                            tft_source_file(&z->g->m->source, t->data), TFT_STR_ARG(t->name));
        tft_gguf_put_data(z->w, z->row, cols * sizeof *z->row);
    }
    return TFT_OK;
}

static enum tft_status put_data(struct writing *z, uint64_t bytes, struct tft_error *err)
{
    const struct tft_source *s = &z->g->m->source;
    enum tft_status status = TFT_OK;
    double done = 0;
    for (size_t i = 0; i < s->n_tensor && status == TFT_OK && !z->stopped; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        if (is_adapted(z->g, t))
            status = put_merged(z, t, err);
        else
            tft_gguf_put_data(z->w, t->data, (size_t)t->bytes);
        tft_source_forget(s, t->data, t->bytes);
        done += (double)t->bytes;
        if (z->g->progress)
            z->stopped = !z->g->progress(z->g->user, fmin(done / (double)(bytes + 1), 1));
    }
    return status;
}

static enum tft_status write_all(struct writing *z, const char *path, uint64_t bytes,
                                 struct tft_new_file **temp, struct tft_error *err)
{
    enum tft_status status = tft_gguf_create(&z->w, path, err);
    if (status != TFT_OK)
        return status;
    put_head(z);
    status = put_data(z, bytes, err);
    if (status == TFT_OK && !z->stopped)
        return tft_gguf_complete(z->w, temp, err);
    tft_gguf_close(z->w, false, NULL);
    return status;
}

enum tft_status merge_temp(const struct merge *g, const char *path, struct tft_new_file **temp,
                           bool *stopped, struct tft_error *err)
{
    const struct tft_source *s = &g->m->source;
    struct writing z = {.g = g};
    uint64_t cols = 1, bytes;
    *temp = NULL;
    *stopped = false;
    enum tft_status status = merge_check(g, &bytes, err);
    for (size_t i = 0; i < s->n_tensor; i++)
        cols = s->tensor[i].ne[0] > cols ? s->tensor[i].ne[0] : cols;
    z.row = malloc((size_t)cols * sizeof *z.row);
    z.sum = malloc((size_t)cols * sizeof *z.sum);
    if (status == TFT_OK)
        status = z.row && z.sum ? write_all(&z, path, bytes, temp, err)
                                : tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    *stopped = z.stopped;
    free(z.row);
    free(z.sum);
    return status;
}
