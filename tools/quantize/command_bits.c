#include "tools/quantize/command_bits.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantize/quantize.h"

static struct {
    const char *budget;
    double bits;
    uint64_t bytes;
} opt;

const struct cli_option command_bits_option_list[] = {
    {0, "bits-search", CLI_TEXT, &opt.budget, "BUDGET",
     "choose 2, 3, 4 or 8 bits for each matrix of the layers within BUDGET: \"4.25\" bits per "
     "weight, overhead included, or \"700MB\" in all"},
    {0},
};

int command_bits_check(void)
{
    const char *p = opt.budget;
    size_t digits = p ? strspn(p, "0123456789.") : 0;
    char *end = NULL;
    double number = digits && digits < 20 ? strtod(p, &end) : 0;
    if (!p)
        return CLI_OK;
    bool bytes = end == p + digits && strcmp(end, "MB") == 0;
    if (bytes && number > 0 && number < 1e9)
        opt.bytes = (uint64_t)(number * 1e6);
    else if (end == p + digits && !*end && number > 0 && number <= 8)
        opt.bits = number;
    else
        return cli_usage("--bits-search takes bits per weight up to 8, or the size of the file "
                         "like 700MB, not \"%s\"", p);
    return CLI_OK;
}

bool command_bits_wanted(void)
{
    return opt.budget;
}

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

/* The model with 8 bits. */
static int make_draft(struct tft_model *m, const struct quantize_opts *from, const char *path)
{
    struct quantize_opts o = *from;
    struct quantize_input *result = malloc(tft_model_inputs(m) * sizeof *result);
    struct cli_progress bar;
    struct tft_error err;
    bool stopped;
    if (!result)
        return cli_fail("out of memory");
    o.bits = NULL;
    o.kv = NULL;
    o.outputs = NULL;
    o.progress = progress;
    o.user = &bar;
    cli_progress_begin(&bar, "quantizing to 8 bits");
    enum tft_status status = quantize(m, path, &o, result, &stopped, &err);
    cli_progress_end(&bar);
    free(result);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

static struct bits_search_opts search_opts(const struct quantize_opts *o)
{
    return (struct bits_search_opts){.text = o->text,
                                     .n_windows = (uint32_t)(o->n_text / o->window),
                                     .window = o->window,
                                     .group = o->group,
                                     .bits = opt.bits,
                                     .bytes = opt.bytes,
                                     .n_threads = o->n_threads,
                                     .progress = progress};
}

static int search(const struct quantize_opts *from, const char *path, struct bits_search *r)
{
    struct cli_progress bar;
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    struct tft_model_opts mo = {.size = sizeof mo};
    struct bits_search_opts o = search_opts(from);
    o.user = &bar;
    if (tft_model_open(&m, path, &mo, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    remove(path); /* it stays mapped, and nothing is left if the process is killed */
    cli_progress_begin(&bar, "searching bits");
    enum tft_status status = bits_search(m, &o, r, &stopped, &err);
    cli_progress_end(&bar);
    tft_model_close(m);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

int command_bits_run(struct tft_model *m, const struct quantize_opts *o, const char *path,
                     uint8_t *bits, struct bits_search *r)
{
    static const char suffix[] = ".8bits";
    struct bits_search_opts so = search_opts(o);
    struct tft_error err;
    if (bits_search_check(m, &so, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    char *draft = malloc(strlen(path) + sizeof suffix);
    if (!draft)
        return cli_fail("out of memory");
    strcpy(draft, path);
    strcat(draft, suffix);
    int status = make_draft(m, o, draft);
    if (status == CLI_OK)
        status = search(o, draft, r);
    remove(draft);
    free(draft);
    for (size_t i = 0; status == CLI_OK && i < (size_t)r->n_layer * LAYER_MATS; i++)
        bits[i] = r->matrix[i].bits;
    return status;
}

/* ---- the report */

/* [n_layer, LAYER_MATS] items like ",10-12.attn_output=8" */
static char *text_of(const struct bits_search *r)
{
    size_t size = (size_t)r->n_layer * LAYER_MATS * 32 + 8;
    char *text = malloc(size);
    if (text && !bits_search_text(r, text, size))
        *text = 0;
    return text;
}

void command_bits_report(const struct bits_search *r)
{
    char *text = r->matrix ? text_of(r) : NULL;
    if (text)
        fprintf(stderr, "weights: %.4g bits each in the layers: --bits %s\n", r->bits, text);
    free(text);
}

void command_bits_json(const struct bits_search *r)
{
    char *text = r->matrix ? text_of(r) : NULL;
    if (!text) {
        fputs("null", stdout);
        return;
    }
    printf("{\"bits\":%.6g,\"floor\":%.6g,\"as\":\"%s\",\"matrices\":[", r->bits, r->floor, text);
    free(text);
    for (uint32_t i = 0, listed = 0; i < r->n_layer * LAYER_MATS; i++)
        if (r->matrix[i].there)
            printf("%s{\"name\":\"blk.%u.%s\",\"loss\":%.6g,\"bits\":%u}", listed++ ? "," : "",
                   i / LAYER_MATS, quantize_matrix_name((int)(i % LAYER_MATS)), r->matrix[i].loss,
                   r->matrix[i].bits);
    fputs("]}", stdout);
}
