/*
 * Adapters of PEFT: the matrices A and B of a module are base_model.model.MODULE.lora_A.weight and
 * .lora_B.weight.
 */
#include "import.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archs.h"
#include "config.h"
#include "file/file.h"
#include "names.h"
#include "peft_config.h"
#include "target.h"

#define PREFIX "base_model.model."

/* The adapter of one matrix. */
struct part {
    const struct safetensor *a, *b;
    struct import_target target; /* the rule, the layer and the name of the base model's matrix */
    double scale;                /* of B A x */
    double factor;               /* of B, so that the file's alpha gives the scale */
};

struct adapter {
    struct import im; /* of the base model: what the order of rows depends on */
    const struct import_opts *o;
    struct import_result *r;
    struct tft_source base;
    struct safetensors file;
    struct peft_config config;
    struct part *part; /* [n] */
    size_t n;
};

/* ------------------------------------------------------------------------------ the base model */

/* The number of a key; 0: there is none, or a list. */
static uint64_t number(struct adapter *z, const char *name)
{
    const struct tft_value *v = tft_source_value(&z->base, import_key(&z->im, name));
    uint64_t n = 0;
    return v && !v->is_array && tft_value_uint(v, 0, &n) && n <= INT32_MAX ? n : 0;
}

static void read_heads(struct adapter *z)
{
    struct import *im = &z->im;
    im->n_head = number(z, "attention.head_count");
    im->n_head_kv = number(z, "attention.head_count_kv");
    im->head_dim = number(z, "attention.key_length");
    if (!im->head_dim && im->n_head)
        im->head_dim = number(z, "embedding_length") / im->n_head;
}

/* Sets im->arch to the first of the architecture's rows. */
static void open_base(struct adapter *z, const char *path)
{
    struct tft_str name;
    size_t at = 0;
    struct import *im = &z->im;
    im->status = tft_source_open(&z->base, path, NULL, NULL, im->err);
    if (im->status != TFT_OK)
        return;
    const struct tft_value *v = tft_source_value(&z->base, "general.architecture");
    im->arch = v && tft_value_str(v, &name) ? import_next_arch(name, &at) : NULL;
    if (!im->arch)
        import_fail(im, TFT_ERR_UNSUPPORTED,
                    "%s: --base %s is no GGUF file of an architecture that import knows",
                    im->folder.path, path);
    else
        read_heads(z);
}

/* ---------------------------------------------------------------------------- names of modules */

/* Whether the name is that of pattern[n], in which %u stands for the layer. */
static bool is_name(const char *pattern, size_t n, const char *name, unsigned *layer)
{
    const char *mark = strstr(pattern, "%u");
    size_t head = mark && mark < pattern + n ? (size_t)(mark - pattern) : n;
    if (strncmp(pattern, name, head) != 0)
        return false;
    name += head;
    if (head == n)
        return !*name;
    size_t digits = strspn(name, "0123456789"), tail = n - head - 2;
    *layer = (unsigned)strtoul(name, NULL, 10);
    return digits && digits < 7 && strlen(name + digits) == tail &&
           memcmp(name + digits, mark + 2, tail) == 0;
}

static bool is_of(const struct import_tensor *rule, const char *name, unsigned *layer)
{
    for (const char *from = rule->from; *from;) {
        size_t n = strcspn(from, "|");
        if (is_name(from, n, name, layer))
            return true;
        from += n + (from[n] == '|');
    }
    return false;
}

static const struct import_tensor *rule_in(const struct import_arch *arch, const char *name,
                                           unsigned *layer)
{
    for (size_t i = 0; i < sizeof arch->tensors / sizeof *arch->tensors && arch->tensors[i]; i++)
        for (const struct import_tensor *rule = arch->tensors[i]; rule->from; rule++)
            if (is_of(rule, name, layer))
                return rule;
    return NULL;
}

/* Finds the rule of a module's weight, and sets im->arch to the row that has it. */
static const struct import_tensor *find_rule(struct adapter *z, const char *module, unsigned *layer)
{
    static const char *const prefixes[] = {"model.language_model.",
                                           "language_model.model.",
                                           "language_model.",
                                           "model.",
                                           "transformer.",
                                           "gpt_neox.",
                                           "backbone.",
                                           ""};
    const struct import_arch *first = z->im.arch, *arch;
    char name[IMPORT_MOST_NAME];
    struct tft_str of = {first->name, strlen(first->name)};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i]), at = 0;
        if (strncmp(module, prefixes[i], n) != 0)
            continue;
        snprintf(name, sizeof name, "%s.weight", module + n);
        while ((arch = import_next_arch(of, &at)) != NULL) {
            const struct import_tensor *rule = rule_in(arch, name, layer);
            if (rule)
                z->im.arch = arch;
            if (rule)
                return rule;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------ matrices */

static void wrong(struct adapter *z, const struct safetensor *t, const char *why)
{
    import_fail(&z->im, TFT_ERR_UNSUPPORTED, "%s: tensor \"%s\" %s", z->file.name, t->name, why);
}

/* Whether t is a lora_A, or a lora_B; its module goes to module[IMPORT_MOST_NAME]. Older versions
   wrote the adapter's name, too. */
static bool is_matrix(const struct safetensor *t, char letter, char *module)
{
    static const char *const ends[] = {".lora_%c.weight", ".lora_%c.default.weight"};
    size_t n = strlen(t->name), begin = strlen(PREFIX);
    char end[40];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = (size_t)snprintf(end, sizeof end, ends[i], letter);
        if (n <= begin + m || n - begin - m >= IMPORT_MOST_NAME / 2 ||
            strncmp(t->name, PREFIX, begin) != 0 || !import_ends(t->name, end))
            continue;
        snprintf(module, IMPORT_MOST_NAME, "%.*s", (int)(n - begin - m), t->name + begin);
        return true;
    }
    return false;
}

/* The lora_B of a module; NULL: there is none. */
static struct safetensor *find_b(const struct adapter *z, const char *module)
{
    char other[IMPORT_MOST_NAME];
    for (size_t i = 0; i < z->file.n; i++)
        if (is_matrix(&z->file.tensor[i], 'B', other) && strcmp(module, other) == 0)
            return &z->file.tensor[i];
    return NULL;
}

/* Of these rules B has the rows of the base model's matrix, in its order, and A its columns. */
static bool is_supported(const struct adapter *z, const struct import_tensor *rule)
{
    const unsigned may = IMPORT_MAY_MISS | IMPORT_HEAD | IMPORT_Q | IMPORT_K | IMPORT_TRANSPOSE |
                         IMPORT_QKV | IMPORT_ATTENDING | IMPORT_STATEFUL | IMPORT_DENSE |
                         IMPORT_OWN_KV | IMPORT_OWN_V;
    return !(rule->how & ~may) && !z->im.arch->factor && !z->im.arch->encoder &&
           strlen(rule->shape) == 2 && rule != z->im.arch->tensors[0];
}

/* Whether the heads divide the rows as their order needs it. */
static bool has_heads(const struct import *im, const struct import_target *t, uint64_t rows)
{
    bool qkv = t->rule->how & IMPORT_QKV;
    if (!import_moves_rows(im, t->rule))
        return true;
    if (!im->head_dim || im->head_dim % 2 || rows % im->head_dim)
        return false;
    return !qkv || (im->n_head_kv && im->n_head % im->n_head_kv == 0 &&
                    rows == (im->n_head + 2 * im->n_head_kv) * im->head_dim);
}

static void check_matrix(struct adapter *z, const struct safetensor *t, uint64_t rows,
                         uint64_t cols)
{
    if (t->n_dims != 2 || t->ne[0] != cols || t->ne[1] != rows)
        import_fail(&z->im, TFT_ERR_FORMAT, "%s: tensor \"%s\" is not [%llu, %llu]", z->file.name,
                    t->name, (unsigned long long)rows, (unsigned long long)cols);
    else if (!t->floats)
        wrong(z, t, "has no floats of 32 or 16 bits");
}

/* Checks the shapes by those of the base model. */
static void check_part(struct adapter *z, const struct part *p, const char *module)
{
    const struct tft_tensor *of = tft_source_tensor(&z->base, p->target.name);
    uint64_t rank = p->a->ne[1];
    if (!of || of->n_dims != 2) {
        import_fail(&z->im, TFT_ERR_FORMAT, "%s: tensor \"%s\": the base model has no matrix %s",
                    z->file.name, p->a->name, p->target.name);
        return;
    }
    check_matrix(z, p->a, rank, of->ne[0]);
    check_matrix(z, p->b, of->ne[1], rank);
    if (!has_heads(&z->im, &p->target, of->ne[1]))
        wrong(z, p->b, "does not fit the heads of the base model");
    if (!rank || rank > INT32_MAX)
        wrong(z, p->a, "has no rank");
    if (!peft_config_has_rank(&z->config, module, rank))
        wrong(z, p->a, "has another rank than adapter_config.json says");
}

/* a: the lora_A of the module. */
static void add_part(struct adapter *z, struct safetensor *a, const char *module)
{
    struct part *p = &z->part[z->n];
    unsigned layer = 0;
    struct safetensor *b = find_b(z, module);
    const struct import_tensor *rule = find_rule(z, module, &layer);
    if (!b || !rule || !is_supported(z, rule)) {
        wrong(z, a,
              !b      ? "has no lora_B beside it"
              : !rule ? "is of a module that the base model's architecture does not have"
                      : "is of a module for which adapters are not supported");
        return;
    }
    b->used = true;
    *p = (struct part){.a = a, .b = b, .target = {.rule = rule, .layer = layer}};
    snprintf(p->target.name, sizeof p->target.name, rule->to, layer);
    snprintf(p->target.from, sizeof p->target.from, "%s", b->name);
    check_part(z, p, module);
    double rank = (double)a->ne[1];
    p->scale = peft_config_alpha(&z->config, module) / (z->config.rslora ? sqrt(rank) : rank);
    z->n++;
}

static void find_parts(struct adapter *z)
{
    char module[IMPORT_MOST_NAME];
    z->part = calloc(z->file.n + 1, sizeof *z->part);
    if (!z->part)
        import_fail(&z->im, TFT_ERR_NOMEM, "%s: out of memory", z->im.folder.path);
    for (size_t i = 0; i < z->file.n && z->im.status == TFT_OK; i++) {
        struct safetensor *t = &z->file.tensor[i];
        if (is_matrix(t, 'A', module))
            add_part(z, t, module);
        else if (!is_matrix(t, 'B', module))
            wrong(z, t, "is not the lora_A or lora_B of a module: it is not supported");
    }
    for (size_t i = 0; i < z->file.n && z->im.status == TFT_OK; i++)
        if (is_matrix(&z->file.tensor[i], 'B', module) && !z->file.tensor[i].used)
            wrong(z, &z->file.tensor[i], "has no lora_A beside it");
    if (z->im.status == TFT_OK && !z->n)
        import_fail(&z->im, TFT_ERR_FORMAT, "%s: there are no tensors in it", z->file.name);
}

/* A file has one alpha, and the scale of a matrix is alpha / rank. Where that differs, B makes up
   for it. */
static double choose_alpha(struct adapter *z)
{
    double alpha = z->part[0].scale * (double)z->part[0].a->ne[1];
    for (struct part *p = z->part; p < z->part + z->n; p++)
        p->factor = p->scale * (double)p->a->ne[1] / alpha;
    return alpha;
}

/* ------------------------------------------------------------------------------------- writing */

static enum tft_dtype type_of(const struct adapter *z, const struct safetensor *t, double factor)
{
    static const enum tft_dtype types[] = {
        [IMPORT_F16] = TFT_F16, [IMPORT_BF16] = TFT_BF16, [IMPORT_F32] = TFT_F32};
    if (z->o->type != IMPORT_KEEP)
        return types[z->o->type];
    return factor == 1 ? t->type : TFT_F32;
}

static void describe(struct adapter *z, const struct part *p, const struct safetensor *t,
                     char letter)
{
    char name[sizeof p->target.name + 8];
    enum tft_dtype type = type_of(z, t, letter == 'b' ? p->factor : 1);
    uint64_t bytes = 0;
    int n = snprintf(name, sizeof name, "%s.lora_%c", p->target.name, letter);
    tft_gguf_put_tensor(z->im.gguf, (struct tft_str){name, (size_t)n}, type, 2, t->ne);
    tft_dtype_bytes(type, t->ne[0] * t->ne[1], &bytes);
    z->r->tensors++;
    z->r->bytes += bytes;
}

/* target: the order of the rows; NULL: as they are. */
static void write_matrix(struct adapter *z, const struct safetensor *t,
                         const struct import_target *target, double factor)
{
    const struct tft_dtype_info *info = tft_dtype_info(t->type);
    struct import_target to = {.type = type_of(z, t, factor), .cols = t->ne[0]};
    size_t cols = (size_t)t->ne[0];
    float *row = malloc(cols * sizeof *row + 1);
    uint16_t *half = malloc(cols * sizeof *half + 1);
    snprintf(to.from, sizeof to.from, "%s", t->name);
    if (!row || !half)
        import_fail(&z->im, TFT_ERR_NOMEM, "%s: out of memory", z->im.folder.path);
    for (uint64_t r = 0; r < t->ne[1] && import_goes_on(&z->im); r++) {
        uint64_t from = target ? import_source_row(&z->im, target, r) : r;
        info->to_f32(row, z->file.data + t->offset + from * cols * info->bytes, cols);
        for (size_t c = 0; c < cols; c++) {
            row[c] = factor == 1 ? row[c] : (float)((double)row[c] * factor);
            if (!isfinite(row[c]))
                wrong(z, t, "has NaN or infinity");
        }
        import_write_row(&z->im, &to, row, half);
    }
    free(row);
    free(half);
}

static void write_values(struct adapter *z, double alpha)
{
    struct tft_gguf_writer *w = z->im.gguf;
    static const char *const values[][2] = {{"general.type", "adapter"}, {"adapter.type", "lora"}};
    tft_gguf_put_str(w, "general.architecture",
                     (struct tft_str){z->im.arch->name, strlen(z->im.arch->name)});
    for (size_t i = 0; i < 2; i++)
        tft_gguf_put_str(w, values[i][0], (struct tft_str){values[i][1], strlen(values[i][1])});
    tft_gguf_put_f32(w, "adapter.lora.alpha", (float)alpha);
}

static void write_all(struct adapter *z)
{
    write_values(z, choose_alpha(z));
    for (const struct part *p = z->part; p < z->part + z->n; p++) {
        describe(z, p, p->a, 'a');
        describe(z, p, p->b, 'b');
    }
    if (z->o->begin)
        z->r->stopped = !z->o->begin(z->o->user, z->r->bytes);
    for (size_t i = 0; i < z->n && import_goes_on(&z->im) && !z->r->stopped; i++) {
        const struct part *p = &z->part[i];
        write_matrix(z, p->a, NULL, 1);
        write_matrix(z, p->b, &p->target, p->factor);
        if (z->o->progress)
            z->r->stopped = !z->o->progress(z->o->user, (double)(i + 1) / (double)z->n);
    }
}

static void open_file(struct adapter *z)
{
    char *path = import_path(z->im.folder.path, "adapter_model.safetensors");
    if (!path)
        import_fail(&z->im, TFT_ERR_NOMEM, "%s: out of memory", z->im.folder.path);
    else
        z->im.status = safetensors_open(&z->file, path, z->im.err);
    free(path);
}

enum tft_status import_adapter(const char *folder, const char *base, const char *path,
                               const struct import_opts *o, struct import_result *r,
                               struct tft_error *err)
{
    struct adapter z = {
        .im = {.folder.path = folder, .ignore = o->ignore_keys, .err = err}, .o = o, .r = r};
    struct import *im = &z.im;
    *r = (struct import_result){0};
    peft_config_read(im, &z.config);
    if (im->status == TFT_OK)
        open_base(&z, base);
    if (im->status == TFT_OK)
        open_file(&z);
    if (im->status == TFT_OK)
        find_parts(&z);
    if (im->status == TFT_OK)
        im->status = tft_gguf_create(&im->gguf, path, err);
    if (im->status == TFT_OK)
        write_all(&z);
    bool keep = im->status == TFT_OK && !r->stopped;
    enum tft_status closed = tft_gguf_close(im->gguf, keep, keep ? err : NULL);
    free(z.part);
    safetensors_close(&z.file);
    tft_source_close(&z.base);
    peft_config_free(&z.config);
    return keep ? closed : im->status;
}
