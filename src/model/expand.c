#include "model/expand.h"

#include "port/port.h"

struct expand_job {
    const struct tft_kernels *kern;
    const struct tft_expansion *list;
    size_t n;
    uint64_t total; /* numbers in the list */
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
    float chunk[CHUNK];
    const struct tft_dtype_info *type = tft_dtype_info(x->tensor->type);
    for (uint64_t i = begin; i < end; i += CHUNK) {
        size_t n = end - i < CHUNK ? (size_t)(end - i) : CHUNK;
        const unsigned char *from = x->tensor->data + i / type->block * type->bytes;
        char *to = (char *)x->to + i * tft_num_bytes(x->num);
        if (x->num == TFT_NUM_F32) {
            type->to_f32((float *)(void *)to, from, n);
        } else {
            type->to_f32(chunk, from, n);
            kern->narrow[x->num](to, chunk, n);
        }
    }
}

static void expand_share(void *arg, int tid, int n_threads)
{
    const struct expand_job *job = arg;
    uint64_t done = 0;
    for (size_t i = 0; i < job->n; i++) {
        const struct tft_expansion *x = &job->list[i];
        uint64_t block = tft_dtype_info(x->tensor->type)->block, n = count(x->tensor),
                 blocks = n / block;
        uint64_t begin = blocks * (uint64_t)tid / (uint64_t)n_threads,
                 end = blocks * ((uint64_t)tid + 1) / (uint64_t)n_threads;
        expand_range(job->kern, x, begin * block, end * block);
        done += n;
        if (tid == 0 && job->opts->progress)
            job->opts->progress(job->opts->progress_user, (double)done / (double)job->total);
    }
}

void tft_expand(const struct tft_kernels *kern, const struct tft_expansion *list, size_t n,
                const struct tft_model_opts *opts)
{
    struct expand_job job = {.kern = kern, .list = list, .n = n, .opts = opts};
    for (size_t i = 0; i < n; i++)
        job.total += count(list[i].tensor);
    if (n)
        tft_port_team(opts->n_threads ? opts->n_threads : tft_port_cpus(), expand_share, &job);
}
