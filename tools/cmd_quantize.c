/* tuffet quantize: floats to W8A8. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "quantize.h"

static struct {
    const char *out, *calib, *intact, *intact_text, *intact_tokens, *dynamic;
    uint32_t tokens, window;
    int method, rotate, per_tensor, dynamic_per;
    float percentile, smooth;
    bool json;
} opt = {.tokens = 8192, .percentile = 99.99f, .rotate = QUANTIZE_ROTATE_O_DOWN};

static const struct cli_option options[] = {
    {'o', "output", CLI_TEXT, &opt.out, "FILE", "the file to write"},
    {0, "calib", CLI_TEXT, &opt.calib, "FILE", "text to take ranges from; not the text that the result is judged by"},
    {0, "calib-tokens", CLI_COUNT, &opt.tokens, "N", "how many tokens of it, in windows spread evenly over it (8192)"},
    {0, "calib-window", CLI_COUNT, &opt.window, "N", "tokens that are read as one sequence (512, or what the context has room for)"},
    {0, "range", CLI_WORD, &opt.method, "min-max|percentile|mse", "how the range of an input is chosen (min-max)"},
    {0, "percentile", CLI_REAL, &opt.percentile, "P", "percent of the numbers that --range percentile keeps (99.99)"},
    {0, "smooth", CLI_REAL, &opt.smooth, "A", "SmoothQuant with this alpha, for what comes out of norms; 0: without (0)"},
    {0, "rotate", CLI_WORD, &opt.rotate, "none|o|o+down", "Hadamard transforms of attention's output, and of ffn_down's input (o+down)"},
    {0, "weights", CLI_WORD, &opt.per_tensor, "per-channel|per-tensor", "what has a scale (per-channel)"},
    {0, "intact", CLI_TEXT, &opt.intact, "none|bos", "keep BOS' keys and values as a prefix (bos where the model begins with BOS)"},
    {0, "intact-text", CLI_TEXT, &opt.intact_text, "TEXT", "keep BOS and this text, a system prompt perhaps"},
    {0, "intact-tokens", CLI_TEXT, &opt.intact_tokens, "IDS", "keep these tokens, \"1,13\""},
    {0, "dynamic", CLI_TEXT, &opt.dynamic, "LIST", "inputs that are not static: all, or layers and parts, \"0-3,ffn_down,5.attn_q,output\""},
    {0, "dynamic-per", CLI_WORD, &opt.dynamic_per, "token|tensor", "what has a range then: a token, or all tokens of a pass (token)"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "one JSON object: inputs with scale, zero, range, error"},
    {0},
};

static const struct cli_command command = {
    "quantize", "MODEL", "make a W8A8 model: int8 weights, static per-tensor int8 activations",
    (const struct cli_option *const[]){options, cli_thread_option_list, cli_tokenizer_option_list, NULL},
    "MODEL is one of floats, or of quantized weights, which are expanded a layer at a time. The parts of a layer are attn_q (with attn_k and\n"
    "attn_v), attn_output, ffn_up (with ffn_gate) and ffn_down; output is the head.\n\n"
    "  tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt\n"
    "  tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --intact-tokens 1,13 --range mse\n",
};

/* ---- lists */

static int find_part(const char *p, size_t n)
{
    static const char *const part[] = {"attn_q", "attn_output", "ffn_up", "ffn_down"};
    for (int i = 0; i < TFT_LAYER_INPUTS; i++)
        if (strlen(part[i]) == n && memcmp(part[i], p, n) == 0)
            return i;
    return -1;
}

static void set_range(const struct tft_model *m, enum tft_range *range, uint32_t from, uint32_t to, int part)
{
    for (uint32_t l = from; l <= to && l < m->n_layer; l++)
        for (int i = 0; i < TFT_LAYER_INPUTS; i++)
            if (part < 0 || part == i)
                range[l * TFT_LAYER_INPUTS + (uint32_t)i] = opt.dynamic_per ? TFT_RANGE_TENSOR : TFT_RANGE_TOKEN;
}

/* "all", "output", "PART", or "L", "L-L" and perhaps ".PART". */
static bool take_item(const struct tft_model *m, enum tft_range *range, const char *p, size_t n)
{
    uint32_t last = m->n_layer - 1;
    bool all = n == 3 && memcmp(p, "all", 3) == 0;
    if (all || (n == 6 && memcmp(p, "output", 6) == 0))
        range[m->n_layer * TFT_LAYER_INPUTS] = opt.dynamic_per ? TFT_RANGE_TENSOR : TFT_RANGE_TOKEN;
    if (all || find_part(p, n) >= 0)
        set_range(m, range, 0, last, find_part(p, n));
    if (all || find_part(p, n) >= 0 || (n == 6 && memcmp(p, "output", 6) == 0))
        return true;

    char *end;
    unsigned long from = strtoul(p, &end, 10), to = from;
    int part = -1;
    if (end == p || *p == '-' || *p == '+')
        return false;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        to = strtoul(end + 1, &end, 10);
    if (*end == '.') {
        part = find_part(end + 1, (size_t)(p + n - end - 1));
        end = part < 0 ? end : (char *)(uintptr_t)(p + n);
    }
    if (end != p + n || from > to || to > last)
        return false;
    set_range(m, range, (uint32_t)from, (uint32_t)to, part);
    return true;
}

static int take_dynamic(const struct tft_model *m, enum tft_range *range)
{
    for (uint32_t i = 0; i < quantize_inputs(m); i++)
        range[i] = TFT_RANGE_STATIC;
    for (const char *p = opt.dynamic; p && *p;) {
        size_t n = strcspn(p, ",");
        if (!take_item(m, range, p, n))
            return cli_usage("--dynamic: \"%.*s\" is no layer or part of this model", (int)n, p);
        p += n + (p[n] == ',');
    }
    return CLI_OK;
}

/* The prefix's tokens, to be freed. */
static int32_t *intact_tokens(const struct tft_model *m, size_t *n)
{
    if (opt.intact_text)
        return cli_tokenize(m, opt.intact_text, strlen(opt.intact_text), TFT_ADD_BOS, n);
    if (!opt.intact_tokens) {
        int32_t *ids = cli_tokenize(m, "", 0, TFT_ADD_BOS, n);
        if (ids && opt.intact && strcmp(opt.intact, "none") == 0)
            *n = 0;
        if (ids && !*n && opt.intact && strcmp(opt.intact, "bos") == 0) {
            ids[0] = tft_token_bos(m);
            *n = 1;
        }
        return ids;
    }
    int32_t *ids = malloc((strlen(opt.intact_tokens) + 1) * sizeof *ids);
    *n = 0;
    for (const char *p = opt.intact_tokens; ids && *p; ++*n) {
        char *end;
        long id = strtol(p, &end, 10);
        ids[*n] = end == p || id < 0 || id > INT32_MAX || (*end && *end != ',') ? -1 : (int32_t)id;
        p = *end ? end + 1 : end;
        if (ids[*n] < 0)
            break;
    }
    return ids;
}

static int check_tokens(const struct tft_model *m, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= m->n_vocab)
            return cli_usage("--intact: not a list of tokens of this model's %u", m->n_vocab);
    size_t room = n < m->n_ctx ? m->n_ctx - n : 0;
    if (!room || opt.window > room)
        return cli_fail("%s: a prefix of %zu tokens and a window of %u are more than its context of %u", m->source.name, n, opt.window,
                        m->n_ctx);
    if (!opt.window)
        opt.window = room < 512 ? (uint32_t)room : 512;
    return CLI_OK;
}

/* ---- the report */

static int by_error(const void *a, const void *b)
{
    const struct quantize_input *const *x = a, *const *y = b;
    return ((*x)->error < (*y)->error) - ((*x)->error > (*y)->error);
}

/* An eighth bit's worth of noise is (range / 255)^2 / 12: for a uniform signal -59 dB, for real ones -40 to -30 dB. Above this share of the
   signal's power, an input is worth a name. */
static const double LARGE_ERROR = 0.01;

static void report_people(const struct tft_model *m, const struct quantize_input *result, const enum tft_range *range)
{
    enum { MOST = 8 };
    uint32_t n = quantize_inputs(m), large = 0;
    const struct quantize_input **order = malloc(n * sizeof *order);
    for (uint32_t i = 0; order && i < n; i++) {
        order[i] = &result[i];
        large += range[i] == TFT_RANGE_STATIC && result[i].error > LARGE_ERROR;
    }
    if (order && large) {
        qsort(order, n, sizeof *order, by_error);
        fprintf(stderr, "%u of %u inputs lose more than %.0f %% of their power to 8 static bits:\n", large, n, 100 * LARGE_ERROR);
        for (uint32_t i = 0, shown = 0; i < n && shown < MOST && order[i]->error > LARGE_ERROR; i++) {
            uint32_t index = (uint32_t)(order[i] - result);
            char name[64];
            if (range[index] != TFT_RANGE_STATIC)
                continue;
            fprintf(stderr, "  %-22s %5.1f %%   range %.4g .. %.4g\n", quantize_input_name(m, index, name), 100 * order[i]->error,
                    (double)order[i]->min, (double)order[i]->max);
            shown++;
        }
    }
    free(order);
}

static void report_json(const struct tft_model *m, const struct quantize_input *result, const enum tft_range *range, double seconds)
{
    static const char *const kinds[] = {"float", "static", "token", "tensor"};
    printf("{\"seconds\":%.3f,\"inputs\":[", seconds);
    for (uint32_t i = 0; i < quantize_inputs(m); i++) {
        char name[64];
        const struct quantize_input *r = &result[i];
        printf("%s{\"name\":\"%s\",\"range\":\"%s\",\"scale\":%.9g,\"zero\":%d,\"min\":%.6g,\"max\":%.6g,\"error\":%.6g}", i ? "," : "",
               quantize_input_name(m, i, name), kinds[range[i]], (double)r->affine.scale, (int)r->affine.zero, (double)r->min,
               (double)r->max, r->error);
    }
    puts("]}");
}

/* ---- the whole */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static int convert(struct tft_model *m, struct quantize_opts *o)
{
    struct cli_progress bar;
    struct tft_error err;
    bool stopped;
    uint64_t start = cli_ns();
    struct quantize_input *result = malloc(quantize_inputs(m) * sizeof *result);
    if (!result)
        return cli_fail("no memory");
    o->progress = progress;
    o->user = &bar;
    cli_progress_begin(&bar, "quantizing");
    enum tft_status status = quantize(m, opt.out, o, result, &stopped, &err);
    cli_progress_end(&bar);
    if (status == TFT_OK && !stopped) {
        if (opt.json)
            report_json(m, result, o->range, (double)(cli_ns() - start) / 1e9);
        else
            report_people(m, result, o->range);
    }
    free(result);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

/* Leaves about opt.tokens of n, in whole windows that are as far apart as the text allows. How many there are then. */
static size_t spread_windows(int32_t *ids, size_t n)
{
    size_t have = n / opt.window, wanted = opt.tokens / opt.window;
    if (wanted < 1)
        wanted = 1;
    if (have <= wanted)
        return n;
    for (size_t i = 0; i < wanted; i++)
        memmove(ids + i * opt.window, ids + i * have / wanted * opt.window, opt.window * sizeof *ids);
    return wanted * opt.window;
}

static int prepare(struct tft_model *m, const char *text, size_t len)
{
    size_t n_text = 0, n_prefix = 0;
    int32_t *ids = cli_tokenize(m, text, len, 0, &n_text), *prefix = ids ? intact_tokens(m, &n_prefix) : NULL;
    enum tft_range *range = malloc(quantize_inputs(m) * sizeof *range);
    int status = ids && prefix && range ? take_dynamic(m, range) : CLI_FAILED;
    if (status == CLI_OK)
        status = check_tokens(m, prefix, n_prefix);
    if (status == CLI_OK) {
        struct quantize_opts o = {
            .text = ids,
            .n_text = spread_windows(ids, n_text),
            .window = opt.window,
            .method = (enum stats_method)opt.method,
            .param = (double)opt.percentile,
            .smooth = opt.smooth,
            .rotate = (enum quantize_rotate)opt.rotate,
            .per_tensor = opt.per_tensor,
            .prefix = prefix,
            .n_prefix = (uint32_t)n_prefix,
            .range = range,
            .n_threads = (int)cli_model_options.threads,
        };
        status = convert(m, &o);
    }
    free(range);
    free(prefix);
    free(ids);
    return status;
}

int cmd_quantize(int argc, char **argv)
{
    const char *path;
    struct tft_model *m = NULL;
    struct tft_error err;
    size_t len;
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (!opt.out || !opt.calib)
        return cli_usage(opt.out ? "a calibration text is missing: --calib FILE" : "a file to write is missing: -o FILE");
    if (opt.intact && strcmp(opt.intact, "none") != 0 && strcmp(opt.intact, "bos") != 0)
        return cli_usage("--intact is one of none|bos, not \"%s\"", opt.intact);
    if (!!opt.intact + !!opt.intact_text + !!opt.intact_tokens > 1)
        return cli_usage("--intact, --intact-text and --intact-tokens are three prefixes");
    if (opt.smooth > 1 || opt.percentile > 100 || opt.percentile == 0)
        return cli_usage(opt.smooth > 1 ? "--smooth is within 0 .. 1" : "--percentile is above 0 and at most 100");

    char *text = cli_read(opt.calib, &len);
    cli_catch_interrupts();
    struct tft_model_opts mo = {.size = sizeof mo, .tokenizer = cli_model_options.tokenizer};
    status = text ? CLI_OK : CLI_FAILED;
    if (text && tft_model_open_unexpanded(&m, path, &mo, &err) != TFT_OK)
        status = cli_fail("%s", err.msg);
    if (status == CLI_OK)
        status = prepare(m, text, len);
    free(text);
    tft_model_close(m);
    return status;
}
