#include "weights.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "matrix.h"
#include "names.h"
#include "quantized_config.h"
#include "target.h"
#include "w8a8.h"

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
        if (letter == 'P')
            want += im->encoder.skipped;
        if (i == 0 && rule->how & IMPORT_QKVZ)
            want = import_dimension(im, 'C') + import_dimension(im, 'Z');
        fits = have == want || (letter == 'V' && have > want) ||
               (letter == 'V' && have && rule->how & IMPORT_PADDED && !t->matrix);
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
           import_ends(t->name, "ssm_conv1d.weight") ||
           t->rule->how & (IMPORT_COLUMN | IMPORT_LERPS) ||
           strcmp(t->name, "position_embd.weight") == 0 ||
           strcmp(t->name, "token_types.weight") == 0;
}

/* The type that is asked for, or else the folder's. */
static enum tft_dtype plain_type(const struct import_weights *w, const struct import_target *t)
{
    static const enum tft_dtype types[] = {
        [IMPORT_F16] = TFT_F16, [IMPORT_BF16] = TFT_BF16, [IMPORT_F32] = TFT_F32};
    if (stays_f32(t))
        return TFT_F32;
    return w->o->type == IMPORT_KEEP ? t->tensor->type : types[w->o->type];
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
    if (t->rule->how & IMPORT_GROUPED && im->mamba.groups > 1) {
        t->ne[0] /= im->mamba.groups;
        t->ne[1] = im->mamba.groups;
        t->n_dims = 2;
    }
    if (t->rule->how & IMPORT_FLAT) {
        t->ne[0] *= t->ne[1];
        t->n_dims = 1;
    }
    if (t->rule->how & IMPORT_LERPS) {
        t->ne[3] = t->ne[1];
        t->ne[1] = t->ne[2] = 1;
        t->n_dims = 4;
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

/* Three passes over the tensors: the first chooses their types, the second describes them, the
   third writes their data. */

static void tell(const struct import_weights *w, const char *fmt, ...) TFT_PRINTF(2, 3);
static void tell(const struct import_weights *w, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (w->o->warn)
        w->o->warn(w->o->user, text);
}

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

/* Codes are not read down their columns, nor made ternary, nor multiplied. */
static void check_codes(struct import *im, const struct import_target *t)
{
    bool ternary = t->rule->how & IMPORT_TERNARY && im->is_ternary;
    if (t->tensor->matrix &&
        (ternary || t->rule->how & IMPORT_TRANSPOSE || im->arch->factor))
        import_fail(im, TFT_ERR_UNSUPPORTED,
                    "%s: quantized matrices of %s are not read: import the folder of floats that "
                    "they come from",
                    im->folder.path, im->arch->name);
}

/* Whether the folder has codes for the target, or for a part of its stack. */
static bool is_coded(const struct import *im, const struct import_weights *w,
                     const struct import_target *t)
{
    char name[IMPORT_MOST_NAME];
    const unsigned char *data;
    uint64_t n = t->rule->how & IMPORT_STACK ? import_dimension(im, t->rule->shape[0]) : 1;
    bool coded = t->tensor->matrix;
    for (uint64_t i = 1; i < n && !coded; i++)
        coded =
            import_find_rule(im, w->prefix, t->rule, t->layer, (unsigned)i, name, &data)->matrix;
    return coded;
}

static struct import_plan *new_plan(struct import *im, struct import_weights *w)
{
    struct import_plan *more = NULL;
    size_t room = w->n_plan & (w->n_plan - 1) ? 0 : w->n_plan ? 2 * w->n_plan : 1;
    if (room)
        more = realloc(w->plan, room * sizeof *more);
    if (room && !more) {
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
        return NULL;
    }
    w->plan = room ? more : w->plan;
    return &w->plan[w->n_plan++];
}

/* The factor of a matrix that may be NVFP4; 0: it may not. Only plain matrices of products have a
   factor in a GGUF file, and not beside a bias. */
static float factor_of(const struct import *im, const struct import_target *t)
{
    const struct import_matrix *m = t->tensor->matrix;
    const unsigned char *data;
    char bias[IMPORT_MOST_NAME];
    float factor = m ? import_matrix_factor(m) : 0;
    int stem = (int)(strlen(t->from) - strlen("weight"));
    snprintf(bias, sizeof bias, "%.*sbias", stem, t->from);
    bool plain = import_w8a8_fits(im) && strcmp(t->name, "token_embd.weight") != 0 &&
                 import_ends(t->from, ".weight") && !import_folder_find(&im->folder, bias, &data);
    return plain && factor >= FLT_MIN && factor < 1e30f ? factor : 0;
}

/* Chooses the type of a quantized matrix. */
static void plan_codes(struct import *im, const struct import_weights *w, struct import_plan *p,
                       const struct import_target *t)
{
    struct import_target with = *t;
    with.factor = factor_of(im, t);
    p->type = import_type_of_codes(im, w->prefix, &with);
    p->factor = p->type == TFT_NVFP4 ? with.factor : 0;
}

/* Chooses the target's type. */
static void plan(struct import *im, struct import_weights *w, const struct import_target *t)
{
    check_shape(im, t->tensor, t->rule);
    if (t->rule->how & IMPORT_STACK)
        check_stack(im, w, t);
    check_codes(im, t);
    struct import_plan *p = im->status == TFT_OK ? new_plan(im, w) : NULL;
    if (!p)
        return;
    *p = (struct import_plan){
        .type = plain_type(w, t), .coded = !stays_f32(t) && is_coded(im, w, t), .cols = t->cols};
    if (im->input && import_w8a8_is_matrix(t))
        p->bits = (uint8_t)import_w8a8_plan(im, w->prefix, t);
    else if (p->coded && w->o->type == IMPORT_KEEP)
        plan_codes(im, w, p, t);
    if (t->tensor->matrix)
        import_forget_source(im, w->prefix, t);
}

static uint64_t bytes_of(enum tft_dtype type, uint64_t n)
{
    uint64_t bytes = 0;
    tft_dtype_bytes(type, n, &bytes);
    return bytes;
}

static void note(struct import_weights *w, size_t tensors, uint64_t bytes)
{
    w->r->tensors += tensors;
    w->r->bytes += bytes;
}

static void describe(struct import *im, struct import_weights *w, const struct import_target *t)
{
    w->all += (double)t->tensor->bytes;
    if (t->bits) {
        note(w, 3, import_w8a8_describe(im, t));
        return;
    }
    note(w, 1, bytes_of(t->type, t->rows * t->cols));
    tft_gguf_put_tensor(im->gguf, (struct tft_str){t->name, strlen(t->name)}, t->type, t->n_dims,
                        t->ne);
    if (t->factor != 0) {
        char name[sizeof t->name];
        int stem = (int)(strlen(t->name) - strlen("weight"));
        int n = snprintf(name, sizeof name, "%.*sscale", stem, t->name);
        tft_gguf_put_tensor(im->gguf, (struct tft_str){name, (size_t)n}, TFT_F32, 1,
                            (const uint64_t[]){1});
        note(w, 1, sizeof t->factor);
    }
}

/* Says how much a matrix that had no codes of int8 has changed. */
static void tell_loss(struct import *im, struct import_weights *w, const struct import_target *t,
                      const struct import_loss *loss)
{
    w->ends += loss->ends;
    w->with_ends += loss->ends != 0;
    if (loss->ends && !loss->codes)
        w->ends_rms = fmax(w->ends_rms, sqrt(loss->error / loss->all));
    if (loss->codes)
        tell(w,
             "%s: %s is rounded to 8 bits: the largest error is %.2g of its row's largest number, "
             "the error's rms %.2g of the numbers'",
             im->folder.path, t->from, loss->largest, sqrt(loss->error / loss->all));
}

static void write(struct import *im, struct import_weights *w, const struct import_target *t)
{
    struct import_loss loss;
    if (t->bits) {
        import_w8a8_write(im, w->prefix, t, &loss);
        tell_loss(im, w, t, &loss);
    } else {
        import_write_data(im, w->prefix, t);
        if (t->factor != 0)
            tft_gguf_put_data(im->gguf, &t->factor, sizeof t->factor);
    }
    w->done += (double)t->tensor->bytes;
}

/* Whether layers of this kind have the tensor. */
static bool has_tensor(const struct import *im, const struct import_tensor *rule, unsigned layer)
{
    bool predicts = layer >= im->n_layer,
         attends = predicts || !im->kv_heads || im->kv_heads[layer], mixed = layer >= im->n_leading,
         ff = predicts || !im->ffs || im->ffs[layer], state = !attends && !(im->ffs && ff);
    return !((rule->how & IMPORT_PREDICTING && !predicts) ||
             (rule->how & IMPORT_ATTENDING && !attends) ||
             (rule->how & IMPORT_STATEFUL && !state) ||
             (rule->how & IMPORT_DENSE && (mixed || !ff)) ||
             (rule->how & IMPORT_MIXED && (!mixed || !ff)) ||
             (rule->how & IMPORT_SHARED && !im->n_ff_shared) ||
             (rule->how & IMPORT_OWN_V && im->layers.keys_are_values) ||
             (rule->how & IMPORT_EMBEDDED && !im->layers.n_embed) ||
             (rule->how & IMPORT_RANKING && !im->encoder.labels));
}

/* NULL: it has none. */
static const struct import_tensor *head_rule(const struct import *im)
{
    const struct import_tensor *rule = im->arch->tensors[0];
    while (rule->from && !(rule->how & IMPORT_HEAD))
        rule++;
    return rule->from ? rule : NULL;
}

/* The tensor of a rule. A tied model may have its embedding under the name of the head alone. */
static struct safetensor *find_tensor(const struct import *im, const struct import_weights *w,
                                      const struct import_tensor *rule, unsigned layer,
                                      char name[IMPORT_MOST_NAME], const unsigned char **data)
{
    char other[IMPORT_MOST_NAME];
    struct safetensor *t = import_find_rule(im, w->prefix, rule, layer, 0, name, data);
    const struct import_tensor *head = head_rule(im);
    if (t || rule != im->arch->tensors[0] || !w->tied || !head)
        return t;
    t = import_find_rule(im, w->prefix, head, layer, 0, other, data);
    if (t)
        strcpy(name, other);
    return t;
}

/* One tensor of one layer, in one pass. */
static void visit(struct import *im, struct import_weights *w, const struct import_tensor *rule,
                  unsigned layer)
{
    struct import_target t = {.rule = rule, .layer = layer - w->first};
    struct safetensor *found = find_tensor(im, w, rule, t.layer, t.from, &t.data);
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
    if (w->pass == IMPORT_PLAN) {
        plan(im, w, &t);
        return;
    }
    const struct import_plan *p = &w->plan[w->at++];
    t.type = p->type;
    t.bits = p->bits;
    t.factor = p->factor;
    (w->pass == IMPORT_WRITE ? write : describe)(im, w, &t);
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
    bool reads = w->pass == IMPORT_WRITE || (w->pass == IMPORT_PLAN && im->folder.n_matrix);
    if (reads && w->o->progress)
        w->r->stopped =
            !w->o->progress(w->o->user, w->pass == IMPORT_WRITE ? w->done / w->all : 0);
    return !w->r->stopped;
}

/* Returns false after a failure, or if progress() does. */
static bool walk(struct import *im, struct import_weights *w)
{
    const char *prefix = w->prefix;
    bool on = visit_layer(im, w, 0, false);
    for (uint64_t l = 0; l < im->n_layer && on; l++)
        on = visit_layer(im, w, (unsigned)l, true);
    w->prefix = "mtp.";
    w->first = (unsigned)im->n_layer;
    for (uint64_t i = 0; i < im->n_predict && on; i++)
        on = visit_layer(im, w, (unsigned)(im->n_layer + i), true);
    w->prefix = prefix;
    w->first = 0;
    return on;
}

void import_weights_begin(struct import *im, struct import_weights *w)
{
    static const char *const prefixes[] = {
        "model.",       "model.language_model.", "language_model.model.",
        "transformer.", "gpt_neox.",             "backbone.",
        "bert.",        "roberta.",              "distilbert.", ""};
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

/* ----------------------------------------------------------------------------------------- plan */

/* The file is W8A8 if the folder's inputs are int8, and nothing else is asked for. */
static void begin_w8a8(struct import *im, const struct import_weights *w)
{
    if (w->o->type != IMPORT_KEEP || !import_quantized_inputs(&im->folder))
        return;
    if (w->o->no_ranges || !import_w8a8_fits(im))
        tell(w, "%s: the ranges of inputs are left out%s", im->folder.path,
             w->o->no_ranges ? "" : ": this architecture's matrices are not one for one");
    else
        import_w8a8_begin(im);
}

/* One line about the matrices that had codes: how many have which type. */
static void tell_types(const struct import *im, const struct import_weights *w)
{
    static const enum tft_dtype types[] = {TFT_Q2_0, TFT_Q4_0, TFT_MXFP4, TFT_NVFP4, TFT_Q4_1,
                                           TFT_Q8_0, TFT_BF16, TFT_F16,   TFT_F32};
    char text[300];
    int n = 0;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        size_t count = 0;
        for (size_t i = 0; i < w->n_plan; i++)
            count += w->plan[i].coded && !w->plan[i].bits && w->plan[i].type == types[k];
        if (count)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%zu %s", n ? ", " : "", count,
                          tft_dtype_name(types[k]));
    }
    if (n)
        tell(w, "%s: quantized matrices become, %s: %s", im->folder.path,
             w->o->type == IMPORT_KEEP ? "without loss" : "as asked for", text);
}

static void tell_ranges(const struct import *im, const struct import_weights *w)
{
    size_t fixed = 0, mixed = 0;
    for (size_t i = 0; i < im->n_inputs && im->input; i++) {
        fixed += im->input[i].is_static;
        mixed += im->input[i].mixed;
    }
    if (im->input)
        tell(w,
             "%s: a W8A8 file: %zu of %zu inputs have the folder's ranges, the others each "
             "token's own",
             im->folder.path, fixed, im->n_inputs);
    if (mixed)
        tell(w, "%s: %zu inputs have different ranges for their matrices: the widest is taken",
             im->folder.path, mixed);
    if (json_is_object(json_object_get(import_quantization(&im->folder), "kv_cache_scheme")))
        tell(w, "%s: kv_cache_scheme is not applied: the cache is floats, or 8 bits with --kv i8",
             im->folder.path);
}

void import_weights_plan(struct import *im, struct import_weights *w)
{
    begin_w8a8(im, w);
    if (im->status == TFT_OK && walk(im, w)) {
        tell_types(im, w);
        tell_ranges(im, w);
    }
}

void import_weights_end(struct import_weights *w)
{
    free(w->plan);
    w->plan = NULL;
}

static size_t count_factors(const struct import *im)
{
    size_t n = 0;
    while (im->factors[n].v)
        n++;
    return n;
}

void import_weights_values(struct import *im, const struct import_weights *w)
{
    size_t factors = count_factors(im), n = factors;
    int32_t *codes = im->input ? calloc(factors + 3 * w->n_plan + 1, sizeof *codes) : NULL;
    if (!im->input)
        return;
    if (!codes) {
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
        return;
    }
    for (size_t i = 0; i < w->n_plan; i++) {
        const struct import_plan *p = &w->plan[i];
        if (p->bits && p->bits < 8)
            codes[n] = (int32_t)(p->bits + 256 * import_w8a8_group(p->cols));
        n += p->bits ? 3 : 1;
    }
    import_w8a8_values(im, codes, n);
    free(codes);
}

/* ------------------------------------------------------------------------- description, writing */

/* For import_folder_unused: also layers that predict further tokens, which come last. */
static bool not_needed(const void *user, const char *name)
{
    const struct import *im = user;
    unsigned layer;
    return import_not_needed(name) || (im->arch->encoder && import_not_needed_to_embed(name)) ||
           (json_number_value(import_find(im, "num_nextn_predict_layers")) > 0 &&
            sscanf(name, "model.layers.%u.", &layer) == 1 && layer >= im->n_layer);
}

void import_weights_describe(struct import *im, struct import_weights *w)
{
    w->pass = IMPORT_DESCRIBE;
    w->at = 0;
    for (const struct import_factors *f = im->factors; f->v; f++) {
        tft_gguf_put_tensor(im->gguf, (struct tft_str){f->name, strlen(f->name)}, TFT_F32, 1,
                            (const uint64_t[]){f->n});
        note(w, 1, f->n * sizeof *f->v);
    }
    if (!walk(im, w))
        return;
    const struct safetensor *unused = import_folder_unused(&im->folder, not_needed, im);
    if (unused)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s: tensor \"%s\" is not known in a model of %s",
                    im->folder.path, unused->name, im->arch->name);
}

void import_weights_write(struct import *im, struct import_weights *w)
{
    w->pass = IMPORT_WRITE;
    w->at = 0;
    for (const struct import_factors *f = im->factors; f->v; f++)
        tft_gguf_put_data(im->gguf, f->v, f->n * sizeof *f->v);
    if (walk(im, w) && w->ends)
        tell(w,
             "%s: %llu weights of -128 in %zu matrices become -127, since panels have no -128: an "
             "error of 1/128 of the row's largest number, its rms at most %.2g of the rows'",
             im->folder.path, (unsigned long long)w->ends, w->with_ends, w->ends_rms);
}
