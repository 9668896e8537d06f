#include "weights.h"

#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "target.h"

/* ---------------------------------------------------------------------------------------- names */

/* Whether a text model does not need the tensor: it belongs to another modality, or to a block that
   predicts further tokens, or can be computed from config.json. */
static bool not_needed(const char *name)
{
    static const char *const ends_with[] = {"rotary_emb.inv_freq", ".attn.bias",
                                            ".attn.masked_bias", ".attention.bias",
                                            ".attention.masked_bias"},
                             *const parts[] = {"vision_tower.", "vision_model.", "visual.",
                                               "multi_modal_projector.", "mtp.",
                                               "audio_tower.", "embed_vision.", "embed_audio.",
                                               "vision_embedder."};
    for (size_t i = 0; i < sizeof ends_with / sizeof *ends_with; i++)
        if (import_ends(name, ends_with[i]))
            return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(name, parts[i], strlen(parts[i])) == 0 ||
            (strncmp(name, "model.", 6) == 0 &&
             strncmp(name + 6, parts[i], strlen(parts[i])) == 0))
            return true;
    return false;
}

/* --------------------------------------------------------------------------------------- shapes */

/* Fails unless the tensor has the rule's shape; for a stack, the shape after the first letter. */
static void check_shape(struct import *im, const struct safetensor *t,
                        const struct import_tensor *rule)
{
    const char *shape = rule->shape + (rule->how & IMPORT_STACK ? 1 : 0);
    size_t n = strlen(shape);
    bool fits = t->n_dims == n, turned = rule->how & IMPORT_TURNED;
    for (size_t i = 0; i < n && fits; i++) {
        char letter = turned && n == 3 && i ? shape[3 - i] : shape[i];
        uint64_t have = t->ne[n - 1 - i], want = import_dimension(im, letter);
        if (i + (turned ? 1 : 2) == n && rule->how & (IMPORT_GATE | IMPORT_UP))
            want *= 2;
        fits = have == want || (letter == 'V' && have > want);
        if (!fits)
            import_fail(im, TFT_ERR_FORMAT,
                        "%s: tensor \"%s\" has %llu numbers where config.json says %llu",
                        im->folder.path, t->name, (unsigned long long)have,
                        (unsigned long long)want);
    }
    if (!fits)
        import_fail(im, TFT_ERR_FORMAT, "%s: tensor \"%s\" has %u dimensions, not %zu",
                    im->folder.path, t->name, t->n_dims, n);
    if (!t->floats)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s: tensor \"%s\": dtype %s is not supported",
                    im->folder.path, t->name, t->dtype);
}

/* llama.cpp's converter also keeps these as f32. */
static bool stays_f32(const struct import_target *t)
{
    return t->n_dims == 1 || import_ends(t->name, "norm.weight") ||
           import_ends(t->name, "ffn_gate_inp.weight") || import_ends(t->name, "_exps.bias") ||
           import_ends(t->name, "shortconv.conv.weight") ||
           import_ends(t->name, "ssm_conv1d.weight") || t->rule->how & IMPORT_COLUMN ||
           strcmp(t->name, "position_embd.weight") == 0;
}

static void choose_type(const struct import_weights *w, struct import_target *t)
{
    static const enum tft_dtype types[] = {
        [IMPORT_F16] = TFT_F16, [IMPORT_BF16] = TFT_BF16, [IMPORT_F32] = TFT_F32};
    t->type = stays_f32(t)               ? TFT_F32
              : w->o->type == IMPORT_KEEP ? t->tensor->type
                                          : types[w->o->type];
}

static void set_shape(const struct import *im, struct import_target *t)
{
    const char *shape = t->rule->shape;
    t->n_dims = 0;
    for (size_t i = strlen(shape); i-- > 0;)
        if (shape[i] != '1')
            t->ne[t->n_dims++] = import_dimension(im, shape[i]);
    if (!t->n_dims)
        t->ne[t->n_dims++] = 1;
    if (t->rule->how & IMPORT_TRANSPOSE) {
        t->ne[0] = import_dimension(im, shape[0]);
        t->ne[1] = import_dimension(im, shape[1]);
    }
    if (t->rule->how & IMPORT_COLUMN) {
        t->ne[1] = t->ne[0];
        t->ne[0] = 1;
        t->n_dims = 2;
    }
    t->cols = t->ne[0];
    t->rows = 1;
    for (uint32_t d = 1; d < t->n_dims; d++)
        t->rows *= t->ne[d];
    if (t->n_dims == 1 && import_moves_rows(im, t->rule)) {
        t->rows = t->ne[0];
        t->cols = 1;
    }
}

/* --------------------------------------------------------------------------------------- passes */

/* Two passes over the tensors: the first describes them, the second writes their data. */

/* All tensors of a stack must be there. */
static void check_stack(struct import *im, const struct import_weights *w,
                        const struct import_target *t)
{
    char name[IMPORT_MOST_NAME];
    const unsigned char *data;
    for (uint64_t i = 0; i < import_dimension(im, t->rule->shape[0]) && im->status == TFT_OK; i++) {
        struct safetensor *one =
            import_find_rule(im, w->prefix, t->rule, t->layer, (unsigned)i, name, &data);
        if (!one) {
            import_fail(im, TFT_ERR_FORMAT, "%s: tensor \"%s\" is missing", im->folder.path, name);
            return;
        }
        one->used = true;
        check_shape(im, one, t->rule);
    }
}

static void note(struct import_weights *w, enum tft_dtype type, uint64_t n)
{
    w->r->tensors++;
    w->r->bytes += n * tft_dtype_info(type)->bytes;
}

static void describe(struct import *im, struct import_weights *w, const struct import_target *t)
{
    check_shape(im, t->tensor, t->rule);
    if (t->rule->how & IMPORT_STACK)
        check_stack(im, w, t);
    w->all += (double)t->tensor->bytes;
    note(w, t->type, t->rows * t->cols);
    if (im->status == TFT_OK)
        tft_gguf_put_tensor(im->gguf, (struct tft_str){t->name, strlen(t->name)}, t->type,
                            t->n_dims, t->ne);
}

static void write(struct import *im, struct import_weights *w, const struct import_target *t)
{
    import_write_data(im, w->prefix, t);
    w->done += (double)t->tensor->bytes;
}

/* Whether layers of this kind have the tensor. */
static bool has_tensor(const struct import *im, const struct import_tensor *rule, unsigned layer)
{
    bool attends = !im->kv_heads || im->kv_heads[layer], mixed = layer >= im->n_leading;
    return !((rule->how & IMPORT_ATTENDING && !attends) ||
             (rule->how & IMPORT_STATEFUL && attends) || (rule->how & IMPORT_DENSE && mixed) ||
             (rule->how & IMPORT_MIXED && !mixed) ||
             (rule->how & IMPORT_SHARED && !im->n_ff_shared) ||
             (rule->how & IMPORT_OWN_V && im->layers.keys_are_values) ||
             (rule->how & IMPORT_EMBEDDED && !im->layers.n_embed));
}

static const struct import_tensor *head_rule(const struct import *im)
{
    const struct import_tensor *rule = im->arch->tensors[0];
    while (!(rule->how & IMPORT_HEAD))
        rule++;
    return rule;
}

/* The tensor of a rule. A tied model may have its embedding under the name of the head alone. */
static struct safetensor *find_tensor(const struct import *im, const struct import_weights *w,
                                      const struct import_tensor *rule, unsigned layer,
                                      char name[IMPORT_MOST_NAME], const unsigned char **data)
{
    char other[IMPORT_MOST_NAME];
    struct safetensor *t = import_find_rule(im, w->prefix, rule, layer, 0, name, data);
    if (t || rule != im->arch->tensors[0] || !w->tied)
        return t;
    t = import_find_rule(im, w->prefix, head_rule(im), layer, 0, other, data);
    if (t)
        strcpy(name, other);
    return t;
}

/* One tensor of one layer: describes it, or writes its data. */
static void visit(struct import *im, struct import_weights *w, const struct import_tensor *rule,
                  unsigned layer)
{
    struct import_target t = {.rule = rule, .layer = layer};
    struct safetensor *found = find_tensor(im, w, rule, layer, t.from, &t.data);
    if (found)
        found->used = true;
    if ((rule->how & IMPORT_HEAD && w->tied) ||
        (rule->how & IMPORT_OWN_KV && im->layers.shares))
        return;
    if (!found) {
        if (!(rule->how & IMPORT_MAY_MISS))
            import_fail(im, TFT_ERR_FORMAT, "%s: tensor \"%s\" is missing", im->folder.path,
                        t.from);
        return;
    }
    snprintf(t.name, sizeof t.name, rule->to, layer);
    t.tensor = found;
    set_shape(im, &t);
    choose_type(w, &t);
    if (w->writing)
        write(im, w, &t);
    else
        describe(im, w, &t);
}

static bool is_of_layer(const struct import_tensor *rule)
{
    return strstr(rule->to, "%u");
}

/* Visits the tensors of `layer`; tensors of no layer come before layer 0. Returns false to stop. */
static bool visit_layer(struct import *im, struct import_weights *w, unsigned layer, bool of_layer)
{
    if (im->arch->layer)
        im->arch->layer(im, layer);
    for (const struct import_tensor *const *list = im->arch->tensors; *list; list++)
        for (const struct import_tensor *rule = *list; rule->from && import_goes_on(im); rule++)
            if (is_of_layer(rule) == of_layer && has_tensor(im, rule, layer))
                visit(im, w, rule, layer);
    if (!import_goes_on(im))
        return false;
    w->r->stopped =
        w->writing && w->o->progress && !w->o->progress(w->o->user, w->done / w->all);
    return !w->r->stopped;
}

/* Returns false after a failure, or if progress() does. */
static bool walk(struct import *im, struct import_weights *w)
{
    bool on = visit_layer(im, w, 0, false);
    for (uint64_t l = 0; l < im->n_layer && on; l++)
        on = visit_layer(im, w, (unsigned)l, true);
    return on;
}

void import_weights_begin(struct import *im, struct import_weights *w)
{
    static const char *const prefixes[] = {
        "model.",       "model.language_model.", "language_model.model.",
        "transformer.", "gpt_neox.",             ""};
    const struct import_tensor *embedding = im->arch->tensors[0];
    char name[IMPORT_MOST_NAME];
    const unsigned char *data;
    const struct safetensor *t = NULL;
    w->tied = import_flag(im, "tie_word_embeddings|tie_embedding", im->arch->tied);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !t; i++) {
        w->prefix = prefixes[i];
        t = import_find_name(im, w->prefix, embedding->from, 0, 0, name, &data);
    }
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !t; i++) {
        w->prefix = prefixes[i];
        if (import_find_name(im, w->prefix, embedding[1].from, 0, 0, name, &data))
            t = find_tensor(im, w, embedding, 0, name, &data);
    }
    if (!t)
        import_fail(im, TFT_ERR_FORMAT, "%s: tensor \"%s\" is missing", im->folder.path,
                    embedding->from);
    /* Checked here, since memory for a vocabulary of n_vocab tokens is taken before the other
       tensors are checked. */
    im->n_vocab = import_whole(im, "vocab_size", t ? (int64_t)t->ne[1] : 1);
    if (!im->n_vocab)
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"vocab_size\" is 0", im->folder.path);
    if (t)
        check_shape(im, t, embedding);
    if (im->arch->permuted && im->head_dim % 2)
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: heads of %llu numbers cannot be rotated",
                    im->folder.path, (unsigned long long)im->head_dim);
}

void import_weights_describe(struct import *im, struct import_weights *w)
{
    for (const struct import_factors *f = im->factors; f->v; f++) {
        tft_gguf_put_tensor(im->gguf, (struct tft_str){f->name, strlen(f->name)}, TFT_F32, 1,
                            (const uint64_t[]){f->n});
        note(w, TFT_F32, f->n);
    }
    if (!walk(im, w))
        return;
    const struct safetensor *unused = import_folder_unused(&im->folder, not_needed);
    if (unused)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s: tensor \"%s\" is not known in a model of %s",
                    im->folder.path, unused->name, im->arch->name);
}

void import_weights_write(struct import *im, struct import_weights *w)
{
    w->writing = true;
    for (const struct import_factors *f = im->factors; f->v; f++)
        tft_gguf_put_data(im->gguf, f->v, f->n * sizeof *f->v);
    walk(im, w);
}
