#include "model/convert.h"

#include "base/error.h"
#include "port/port.h"

/* The first factor that cannot be packed. */
struct bad_factor {
    const struct tft_tensor *tensor; /* NULL: there is none */
    uint64_t at;                     /* byte of the tensor */
};

struct convert_job {
    const struct tft_kernels *kern;
    const struct tft_source *source;
    const struct tft_conversion *list;
    size_t n;
    uint64_t total; /* bytes in the list */
    const struct tft_model_opts *opts;
    struct bad_factor *bad; /* [threads] */
};

static uint64_t row_bytes(const struct tft_tensor *t)
{
    const struct tft_dtype_info *type = tft_dtype_info(t->type);
    return t->ne[0] / type->block * type->bytes;
}

/* Numbers [begin, end) of the part, both multiples of the type's block. */
static void expand(const struct convert_job *job, const struct tft_conversion *c, uint64_t begin,
                   uint64_t end)
{
    enum { CHUNK = 4096 }; /* a multiple of every block, small enough for the stack */
    float chunk[CHUNK];
    const struct tft_dtype_info *type = tft_dtype_info(c->tensor->type);
    const unsigned char *data = c->tensor->data + c->first * row_bytes(c->tensor);
    for (uint64_t i = begin; i < end; i += CHUNK) {
        size_t n = end - i < CHUNK ? (size_t)(end - i) : CHUNK;
        const unsigned char *from = data + i / type->block * type->bytes;
        char *to = (char *)c->to + i * tft_num_bytes(c->num);
        if (c->num == TFT_NUM_F32) {
            type->to_f32((float *)(void *)to, from, n);
        } else {
            type->to_f32(chunk, from, n);
            job->kern->narrow[c->num](to, chunk, n);
        }
    }
}

/* Panels [begin, end) of the part. Returns false at a bad factor. */
static bool pack(const struct tft_conversion *c, uint64_t begin, uint64_t end,
                 struct bad_factor *bad)
{
    uint32_t cols = (uint32_t)c->tensor->ne[0];
    uint64_t bytes = row_bytes(c->tensor), panel = tft_packed_bytes(c->packed, TFT_PANEL, cols);
    for (uint64_t i = begin; i < end; i++) {
        uint64_t row = i * TFT_PANEL, left = c->rows - row, at;
        if (!tft_pack_panel((char *)c->to + i * panel, c->packed,
                            c->tensor->data + (c->first + row) * bytes,
                            left < TFT_PANEL ? (uint32_t)left : TFT_PANEL, cols, &at)) {
            *bad = (struct bad_factor){c->tensor, (c->first + row) * bytes + at};
            return false;
        }
    }
    return true;
}

/* The share of thread tid of n units. */
static void share(uint64_t n, int tid, int n_threads, uint64_t *begin, uint64_t *end)
{
    *begin = n * (uint64_t)tid / (uint64_t)n_threads;
    *end = n * ((uint64_t)tid + 1) / (uint64_t)n_threads;
}

/* A thread's share of one part: whole panels, or whole blocks. Returns false at a bad factor. */
static bool convert_part(const struct convert_job *job, const struct tft_conversion *c, int tid,
                         int n_threads)
{
    uint64_t begin, end;
    if (c->packed) {
        share((c->rows + TFT_PANEL - 1) / TFT_PANEL, tid, n_threads, &begin, &end);
        return pack(c, begin, end, &job->bad[tid]);
    }
    uint64_t block = tft_dtype_info(c->tensor->type)->block;
    share(c->rows * (c->tensor->ne[0] / block), tid, n_threads, &begin, &end);
    expand(job, c, begin * block, end * block);
    return true;
}

static void convert_share(void *arg, int tid, int n_threads)
{
    const struct convert_job *job = arg;
    uint64_t done = 0;
    for (size_t i = 0; i < job->n; i++) {
        const struct tft_conversion *c = &job->list[i];
        uint64_t bytes = c->rows * row_bytes(c->tensor), from, to;
        if (!convert_part(job, c, tid, n_threads))
            return;
        share(bytes, tid, n_threads, &from, &to);
        tft_source_forget(job->source, c->tensor->data + c->first * row_bytes(c->tensor) + from,
                          to - from);
        done += bytes;
        if (tid == 0 && job->opts->progress)
            job->opts->progress(job->opts->progress_user, (double)done / (double)job->total);
    }
}

enum tft_status tft_convert(const struct tft_kernels *kern, const struct tft_source *s,
                            const struct tft_conversion *list, size_t n,
                            const struct tft_model_opts *opts, struct tft_error *err)
{
    struct bad_factor bad[TFT_PORT_THREADS] = {{0}};
    struct convert_job job = {
        .kern = kern, .source = s, .list = list, .n = n, .opts = opts, .bad = bad};
    for (size_t i = 0; i < n; i++)
        job.total += list[i].rows * row_bytes(list[i].tensor);
    if (n)
        tft_port_team(opts->n_threads ? opts->n_threads : tft_port_cpus(), convert_share, &job);
    for (size_t i = 0; i < TFT_PORT_THREADS; i++)
        if (bad[i].tensor)
            return tft_fail_at(err, TFT_ERR_FORMAT, tft_source_file(s, bad[i].tensor->data),
                               tft_source_offset(s, bad[i].tensor->data) + bad[i].at,
                               "the tensor %.*s has a scale of NaN or infinity",
                               TFT_STR_ARG(bad[i].tensor->name));
    return TFT_OK;
}
