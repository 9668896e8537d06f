#include "tools/quantize/job/bits.h"

#include <stdlib.h>
#include <string.h>

#include "simd/low_panel.h"
#include "tools/quantize/job/made.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/quantize.h"
#include "weights/format.h"

/* ---- given bits */

static bool is_group(uint32_t group) { return group == 32 || group == 64 || group == 128; }

/* Parses the n bytes at p: "8", "4", or with a group, "4g32". *group: 0 without one. */
static bool take_bits(const char *p, size_t n, uint32_t *bits, uint32_t *group)
{
    const char *end = p + n;
    *group = 0;
    if (!n || !strchr("2348", *p))
        return false;
    *bits = (uint32_t)(*p++ - '0');
    if (p == end)
        return true;
    if (*p++ != 'g' || *bits == 8 || !job_take_number(&p, group))
        return false;
    return p == end && is_group(*group);
}

static size_t panel_bytes(const struct tft_mat *w, uint32_t bits, uint32_t group)
{
    return tft_low_panel(tft_format_low(bits, group)->low, tft_panel_cols(w->cols));
}

/* Groups of 32 in place of 64 where they take no more bytes: rows of 288 are five groups of 64 with
   padding, and nine of 32. */
static void choose_groups(const struct tft_model *m, struct job_bits b)
{
    for (uint32_t i = 0; i < m->n_layer * LAYER_MATS; i++) {
        struct tft_layer *of = &m->layer[i / LAYER_MATS];
        const struct tft_linear *l = layers_linear(of, (int)(i % LAYER_MATS));
        if (l && b.bits[i] < 8 && !b.groups[i])
            b.groups[i] = panel_bytes(&l->w, b.bits[i], 32) <= panel_bytes(&l->w, b.bits[i], 64)
                              ? 32
                              : 64;
    }
}

/* Parses one item of the list, the n bytes at p: "4", or layers, a matrix, or both with a dot
   between them, and then "=4". b: NULL: any layers will do. */
static bool take_item(const struct job_bits *b, uint32_t n_layer, const char *p, size_t n)
{
    const char *sign = memchr(p, '=', n), *end = sign ? sign : p, *value = sign ? sign + 1 : p;
    uint32_t from = 0, to = n_layer - 1, bits, group;
    if (!take_bits(value, (size_t)(p + n - value), &bits, &group))
        return false;
    bool every = !sign, layers = sign && *p >= '0' && *p <= '9', found = false;
    if (layers && (!job_take_layers(&p, &from, &to) || to >= n_layer || (p != end && *p != '.')))
        return false;
    every |= layers && p == end;
    p += layers && p != end;
    for (int i = 0; i < LAYER_MATS; i++)
        if (every || job_is(p, (size_t)(end - p), quantize_matrix_name(i))) {
            found = true;
            for (uint32_t l = from; b && l <= to; l++) {
                b->bits[l * LAYER_MATS + (uint32_t)i] = (uint8_t)bits;
                if (group)
                    b->groups[l * LAYER_MATS + (uint32_t)i] = (uint8_t)group;
            }
        }
    return found;
}

static enum tft_status take_list(struct job *j, const struct job_bits *b, uint32_t n_layer)
{
    for (const char *p = j->o->bits, *next; p; p = next) {
        size_t n = strcspn(p, ",");
        if (!take_item(b, n_layer, p, n))
            return job_misuse(j,
                              "--bits: \"%.*s\" is neither 2, 3, 4 or 8 nor a matrix, or layers, "
                              "with these, like ffn_down=8 or 0-3.attn_v=8; or with a group, like "
                              "4g32",
                              (int)n, p);
        next = p[n] ? p + n + 1 : NULL;
    }
    return TFT_OK;
}

enum tft_status job_bits_choose(struct job *j, const struct quantize_opts *o, struct job_bits b)
{
    uint32_t n_layer = j->m->n_layer, own = j->m->n_round ? j->m->n_round : n_layer;
    memset(b.bits, 8, (size_t)n_layer * LAYER_MATS);
    memset(b.groups, (int)o->group, (size_t)n_layer * LAYER_MATS);
    enum tft_status status = take_list(j, &b, own);
    for (size_t i = (size_t)own * LAYER_MATS; i < (size_t)n_layer * LAYER_MATS; i++) {
        b.bits[i] = b.bits[i - (size_t)own * LAYER_MATS]; /* later rounds have the same weights */
        b.groups[i] = b.groups[i - (size_t)own * LAYER_MATS];
    }
    if (status == TFT_OK)
        choose_groups(j->m, b);
    bool few = j->o->bits_search || quantize_low_bits(o, 0, n_layer);
    if (status == TFT_OK && o->per_tensor && few)
        return job_misuse(
            j, "--bits below 8 has a scale for each row: leave out --weights per-tensor");
    return status;
}

/* ---- the search */

/* Sets the budget of the options in *to. */
static enum tft_status take_budget(struct job *j, struct bits_search_opts *to)
{
    const char *p = j->o->bits_search;
    size_t digits = strspn(p, "0123456789.");
    char *end = NULL;
    double number = digits && digits < 20 ? strtod(p, &end) : 0;
    bool bytes = end == p + digits && strcmp(end, "MB") == 0;
    if (bytes && number > 0 && number < 1e9)
        to->bytes = (uint64_t)(number * 1e6);
    else if (end == p + digits && !*end && number > 0 && number <= 8)
        to->bits = number;
    else
        return job_misuse(j,
                          "--bits-search takes bits per weight up to 8, or the size of the file "
                          "like 700MB, not \"%s\"",
                          p);
    return TFT_OK;
}

enum tft_status job_bits_check(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    struct bits_search_opts budget;
    if (o->group && !is_group(o->group))
        return job_misuse(j, "--group must be 32, 64 or 128");
    if (o->bits && o->bits_search)
        return job_misuse(j, "--bits and --bits-search exclude each other");
    enum tft_status status = take_list(j, NULL, UINT32_MAX);
    return status == TFT_OK && o->bits_search ? take_budget(j, &budget) : status;
}

/* The model with 8 bits. */
static enum tft_status make_eight(struct job_made *made, const struct quantize_opts *from)
{
    struct job *j = made->j;
    struct quantize_opts o = *from;
    struct quantize_input *result = malloc(tft_model_inputs(j->m) * sizeof *result);
    bool stopped;
    o.bits = NULL;
    o.kv = quantize_float_cache(from->kv);
    o.outputs = NULL;
    enum tft_status status = result ? job_begin(j, "quantizing to 8 bits", 0.1) : job_no_memory(j);
    if (status == TFT_OK)
        status = quantize_temp(j->m, j->out, &o, result, &made->temp, &stopped, j->err);
    if (status == TFT_OK)
        status = job_end(j, status, stopped);
    free(result);
    return status;
}

static struct bits_search_opts search_opts(struct job *j, const struct quantize_opts *o)
{
    return (struct bits_search_opts){.text = o->text,
                                     .n_windows = (uint32_t)(o->n_text / o->window),
                                     .window = o->window,
                                     .group = j->o->group,
                                     .n_threads = o->n_threads,
                                     .progress = job_progress,
                                     .user = j};
}

static enum tft_status search(struct job_made *made, const struct bits_search_opts *o,
                              struct bits_search *r)
{
    struct job *j = made->j;
    bool stopped;
    enum tft_status status = job_made_open(made);
    if (status == TFT_OK)
        status = job_begin(j, "searching bits", 1);
    if (status != TFT_OK)
        return status;
    status = bits_search(made->model, o, r, &stopped, j->err);
    return job_end(j, status, stopped);
}

enum tft_status job_bits_run(struct job *j, const struct quantize_opts *o, struct job_bits b,
                             struct bits_search *r)
{
    struct bits_search_opts so = search_opts(j, o);
    struct job_made made = {.j = j};
    if (!j->o->bits_search)
        return TFT_OK;
    enum tft_status status = take_budget(j, &so);
    if (status == TFT_OK)
        status = bits_search_check(j->m, &so, j->err);
    if (status == TFT_OK)
        status = make_eight(&made, o);
    if (status == TFT_OK)
        status = search(&made, &so, r);
    job_made_drop(&made);
    for (size_t i = 0; status == TFT_OK && i < (size_t)r->n_layer * LAYER_MATS; i++) {
        b.bits[i] = r->matrix[i].bits;
        b.groups[i] = r->matrix[i].group;
        b.nats[i] = (float)r->matrix[i].cost;
    }
    return status;
}

char *job_bits_text(const struct bits_search *r)
{
    size_t size = (size_t)r->n_layer * LAYER_MATS * 32 + 8;
    char *text = r->matrix ? malloc(size) : NULL;
    if (text && !bits_search_text(r, text, size))
        *text = 0;
    return text;
}
