#include "model/flaws.h"

#include "base/error.h"
#include "port/port.h"

/* Matrices of a block: the mixer's `reads`, then those of after[] below; the matrices of each
   expert come last. */
enum { DENSE_MATS = TFT_READS + 5, EXPERT_MATS = 3 };

static size_t block_mats(const struct tft_model *m)
{
    return DENSE_MATS + (size_t)EXPERT_MATS * m->n_expert;
}

struct flaw {
    const char *why; /* NULL: none was found */
    size_t matrix, row;
};

struct job {
    const struct tft_model *m;
    struct flaw *first; /* [threads] */
};

static size_t matrices(const struct tft_model *m)
{
    return 2 + m->n_layer * block_mats(m);
}

/* Matrix i. One that the architecture lacks, or that is the embedding again, has no rows. */
static struct tft_mat matrix(const struct tft_model *m, size_t i)
{
    if (i == 0)
        return m->embed;
    if (i == 1)
        return m->output.w.data == m->embed.data ? (struct tft_mat){0} : m->output.w;
    const struct tft_layer *b = &m->layer[(i - 2) / block_mats(m)];
    const struct tft_experts *x = &b->experts;
    const struct tft_linear *after[] = {&b->o, &b->gate, &b->up, &b->down, &b->side_out},
                            *of_expert[EXPERT_MATS] = {&x->gate, &x->up, &x->down};
    size_t at = (i - 2) % block_mats(m);
    if (at < TFT_READS)
        return at < tft_layer_reads(b) ? b->reads[at].w : (struct tft_mat){0};
    if (at < DENSE_MATS)
        return after[at - TFT_READS]->w;
    at -= DENSE_MATS;
    const struct tft_mat *w = &of_expert[at % EXPERT_MATS]->w;
    if (!tft_layer_has_experts(b) || !w->rows) /* experts may have no gate */
        return (struct tft_mat){0};
    return tft_mat_expert(w, (uint32_t)(at / EXPERT_MATS));
}

/* Stops at the first flaw in the thread's share of each matrix. */
static void look(void *arg, int tid, int n_threads)
{
    const struct job *job = arg;
    struct flaw f = {0};
    for (size_t i = 0; i < matrices(job->m) && !f.why; i++) {
        struct tft_mat w = matrix(job->m, i);
        uint64_t panels = tft_panel_rows(w.rows) / TFT_PANEL,
                 begin = panels * (uint64_t)tid / (uint64_t)n_threads * TFT_PANEL,
                 end = panels * ((uint64_t)tid + 1) / (uint64_t)n_threads * TFT_PANEL;
        f.matrix = i;
        if (begin < end)
            f.why = w.format->flaw(&job->m->kern, &w, (size_t)begin, (size_t)end, &f.row);
    }
    job->first[tid] = f;
}

enum tft_status tft_flaws_refuse(const struct tft_model *m, int threads, struct tft_error *err)
{
    struct flaw first[TFT_PORT_THREADS] = {{0}}, least = {0};
    struct job job = {m, first};
    tft_port_team(threads ? threads : tft_port_cpus(), look, &job);
    for (const struct flaw *f = first; f < first + TFT_PORT_THREADS; f++)
        if (f->why && (!least.why || f->matrix < least.matrix ||
                       (f->matrix == least.matrix && f->row < least.row)))
            least = *f;
    if (!least.why)
        return TFT_OK;
    const struct tft_tensor *t = matrix(m, least.matrix).tensor;
    return tft_fail_at(err, TFT_ERR_FORMAT, tft_source_file(&m->source, t->data),
                       tft_source_offset(&m->source, t->data),
                       "row %zu of the tensor %.*s %s: the file is damaged, quantize it again",
                       least.row, TFT_STR_ARG(t->name), least.why);
}
