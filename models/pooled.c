#include "models/pooled.h"

#include "model/load.h"

enum { MOST_ROWS = 1 << 16 };

/* NAME.weight [rows, cols] as f32, where the file has it; `rows` 0: as many as it has. */
static struct tft_mat matrix(struct tft_load *ld, const char *name, uint32_t rows, uint32_t cols)
{
    const struct tft_tensor *t = tft_source_tensor(ld->s, name);
    if (!t)
        return (struct tft_mat){0};
    if (!rows && (t->ne[1] < 1 || t->ne[1] > MOST_ROWS))
        tft_load_fail(ld, TFT_ERR_FORMAT, "the tensor %s has %llu rows", name,
                      (unsigned long long)t->ne[1]);
    return tft_load_table(ld, name, rows ? rows : (uint32_t)t->ne[1], cols);
}

static const float *bias(struct tft_load *ld, const char *name, uint32_t rows)
{
    return rows && tft_source_tensor(ld->s, name) ? tft_load_vector(ld, name, 0, rows) : NULL;
}

/* Sizes that the file may have for it must be those of the tensors. */
static void check_size(struct tft_load *ld, const char *key, uint32_t n)
{
    if (tft_load_has(ld, key) && tft_load_dim(ld, key, 0, MOST_ROWS) != n)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s.%s is not %u", ld->m->arch->name, key, n);
}

static void load_dense(struct tft_load *ld, struct tft_pooled *x)
{
    static const struct {
        const char *name, *in, *out;
    } rows[TFT_DENSE] = {{"dense_2.weight", "dense_2_feat_in", "dense_2_feat_out"},
                         {"dense_3.weight", "dense_3_feat_in", "dense_3_feat_out"}};
    uint32_t width = ld->m->n_embd;
    for (int i = 0; i < TFT_DENSE; i++) {
        x->dense[i] = matrix(ld, rows[i].name, 0, width);
        if (!x->dense[i].rows)
            continue;
        check_size(ld, rows[i].in, width);
        width = x->dense[i].rows;
        check_size(ld, rows[i].out, width);
    }
}

/* A file without names has as many scores as rows. */
static void check_labels(struct tft_load *ld, uint32_t n)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, "classifier.output_labels", full);
    if (v && (!v->is_array || v->n != n))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s does not name the %u scores of the classifier", full,
                      n);
}

static void load_classifier(struct tft_load *ld, struct tft_pooled *x)
{
    uint32_t d = ld->m->n_embd;
    bool has_out = tft_source_tensor(ld->s, "cls.output.weight");
    x->cls = matrix(ld, "cls.weight", has_out ? d : 0, d);
    x->cls_bias = bias(ld, "cls.bias", x->cls.rows);
    if (x->cls.rows && has_out && tft_source_tensor(ld->s, "cls.norm.weight")) {
        x->cls_norm = tft_load_norm(ld, "cls.norm", 0, d, false);
        x->cls_norm.b = tft_load_equal(ld, d, 0);
    }
    x->out = matrix(ld, "cls.output.weight", 0, d);
    x->out_bias = bias(ld, "cls.output.bias", x->out.rows);
    x->n_labels = has_out ? x->out.rows : x->cls.rows;
    if (x->n_labels)
        check_labels(ld, x->n_labels);
}

void tft_pooled_load(struct tft_load *ld, struct tft_pooled how)
{
    load_dense(ld, &how);
    load_classifier(ld, &how);
    ld->m->pooled = how;
}
