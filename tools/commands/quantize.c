/* tuffet quantize: makes a W8A8 model from a float model. */
#include <stdlib.h>
#include <string.h>

#include "models/open.h"
#include "tools/chat/template.h"
#include "tools/commands/commands.h"
#include "tools/import/command.h"
#include "tools/quantize/calibration_text.h"
#include "tools/quantize/command_bits.h"
#include "tools/quantize/command_check.h"
#include "tools/quantize/command_kv.h"
#include "tools/quantize/command_prefix.h"
#include "tools/quantize/command_system.h"
#include "tools/quantize/command_tune.h"
#include "tools/quantize/measure/worst_inputs.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/windows.h"

enum { ROTATE_AUTO }; /* then enum quantize_rotate */

static struct {
    const char *out, *calib, *dynamic, *kv, *bits;
    uint32_t tokens, window, group;
    int method, rotate, per_tensor, dynamic_per, rounding;
    float percentile, smooth;
    bool json;
} opt = {.tokens = 8192, .method = RANGE_MSE, .percentile = 99.99f, .group = 64};

static const struct cli_option options[] = {
    {'o', "output", CLI_TEXT, &opt.out, "FILE", "write the model to FILE"},
    {0, "calib", CLI_TEXT, &opt.calib, "FILE",
     "calibrate on the text in FILE (default: one that the program contains); do not evaluate the "
     "model on it"},
    {0, "calib-tokens", CLI_COUNT, &opt.tokens, "N",
     "use N tokens of the calibration text, in windows spread evenly over it"},
    {0, "calib-window", CLI_COUNT, &opt.window, "N",
     "compute windows of N tokens, each as one sequence (default 512, or what fits the context)"},
    {0, "range", CLI_WORD, &opt.method, "min-max|percentile|mse",
     "choose the range of a static input: all numbers, a percentile, or least squared error"},
    {0, "percentile", CLI_REAL, &opt.percentile, "P",
     "cover P percent of the numbers, with --range percentile"},
    {0, "smooth", CLI_REAL, &opt.smooth, "A",
     "apply SmoothQuant with alpha A to the outputs of norms (default 0: off)"},
    {0, "rotate", CLI_WORD, &opt.rotate, "auto|none|o|o+down|all",
     "rotate attention's output (o), also ffn_down's input (o+down), also the residual stream "
     "(all), by Hadamard transforms"},
    {0, "weights", CLI_WORD, &opt.per_tensor, "per-channel|per-tensor",
     "use one scale for each row of a weight matrix, or one for the matrix"},
    {0, "bits", CLI_TEXT, &opt.bits, "LIST",
     "round weights to 2, 3, 4 or 8 bits (default 8); those of some matrices or layers otherwise, "
     "like \"4,attn_v=8,0-3.ffn_down=8\""},
    {0, "group", CLI_COUNT, &opt.group, "N",
     "give N = 32, 64 or 128 weights of 2 to 4 bits a scale of their own"},
    {0, "rounding", CLI_WORD, &opt.rounding, "gptq|nearest|awq",
     "round weights of 2 to 4 bits so that each makes up for the errors of others, to nearest, or "
     "to nearest after scaling those that read large inputs"},
    {0, "dynamic", CLI_TEXT, &opt.dynamic, "LIST",
     "measure the range of these inputs at run time: all, or layers and parts like "
     "\"0-3,ffn_down,5.attn_q,output\""},
    {0, "dynamic-per", CLI_WORD, &opt.dynamic_per, "token|tensor",
     "measure that range for each token, or for all tokens of a pass"},
    {0, "kv", CLI_TEXT, &opt.kv, CLI_KV_ARG,
     "set the model's default KV cache, like --kv of tuffet run (default f16)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: seconds, tokens, window, prefix, the prefixes that were tried, "
     "cushion, tune, system, kv_search, bits_search, check, and inputs with their ranges"},
    {0},
};

/* ---- which inputs are dynamic */

static enum tft_range dynamic_range(void)
{
    return opt.dynamic_per ? TFT_RANGE_TENSOR : TFT_RANGE_TOKEN;
}

/* Parses "3" or "0-3" at *p. */
static bool take_layers(const char **p, uint32_t *from, uint32_t *to)
{
    if (!quantize_take_number(p, from))
        return false;
    *to = *from;
    if (**p != '-')
        return true;
    ++*p;
    return quantize_take_number(p, to) && *from <= *to;
}

static bool is(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

/* Parses one item of --dynamic, the n bytes at p: "all", "output", layers, a part, or layers, a dot
   and a part. */
static bool take_item(const struct tft_model *m, enum tft_range *range, const char *p, size_t n)
{
    const char *end = p + n;
    uint32_t from = 0, to = m->n_layer - 1, head = m->n_layer * TFT_LAYER_INPUTS;
    bool every = is(p, n, "all"), found = every;
    if (every || is(p, n, "output"))
        range[head] = dynamic_range();
    if (is(p, n, "output"))
        return true;
    if (*p >= '0' && *p <= '9') {
        if (!take_layers(&p, &from, &to) || to >= m->n_layer || (p != end && *p != '.'))
            return false;
        every = found = p == end;
        p += p != end;
    }
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
        if (tft_model_has_input(m, i) &&
            (every || is(p, (size_t)(end - p), quantize_part_name(i)))) {
            found = true;
            for (uint32_t l = from; l <= to; l++)
                range[tft_input_index(m, l, i)] = dynamic_range();
        }
    return found;
}

static int take_dynamic(const struct tft_model *m, enum tft_range *range)
{
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        range[i] = TFT_RANGE_STATIC;
    for (const char *p = opt.dynamic, *next; p; p = next) {
        size_t n = strcspn(p, ",");
        if (!take_item(m, range, p, n))
            return cli_usage("--dynamic: \"%.*s\" is not an input of a model of %u layers", (int)n,
                             p, m->n_layer);
        next = p[n] ? p + n + 1 : NULL;
    }
    return CLI_OK;
}

/* ---- bits of the weights */

/* Parses one item of --bits, the n bytes at p: "4", or layers, a matrix, or both with a dot
   between them, and then "=4". bits: [n_layer, LAYER_MATS], or NULL: any layers will do. */
static bool take_bits(uint8_t *bits, uint32_t n_layer, const char *p, size_t n)
{
    const char *end = p + n - 2;
    uint32_t from = 0, to = n_layer - 1;
    if (!n || !strchr("2348", p[n - 1]) || (n > 1 && (n < 3 || *end != '=')))
        return false;
    bool every = n == 1, layers = n > 1 && *p >= '0' && *p <= '9', found = false;
    if (layers && (!take_layers(&p, &from, &to) || to >= n_layer || (p != end && *p != '.')))
        return false;
    every |= layers && p == end;
    p += layers && p != end;
    for (int i = 0; i < LAYER_MATS; i++)
        if (every || is(p, (size_t)(end - p), quantize_matrix_name(i))) {
            found = true;
            for (uint32_t l = from; bits && l <= to; l++)
                bits[l * LAYER_MATS + (uint32_t)i] = (uint8_t)(end[1] - '0');
        }
    return found;
}

static int take_all_bits(uint8_t *bits, uint32_t n_layer)
{
    for (const char *p = opt.bits, *next; p; p = next) {
        size_t n = strcspn(p, ",");
        if (!take_bits(bits, n_layer, p, n))
            return cli_usage("--bits: \"%.*s\" is neither 2, 3, 4 or 8 nor a matrix, or layers, "
                             "with these, like ffn_down=8 or 0-3.attn_v=8", (int)n, p);
        next = p[n] ? p + n + 1 : NULL;
    }
    return CLI_OK;
}

static int choose_bits(const struct tft_model *m, const struct quantize_opts *o, uint8_t *bits)
{
    memset(bits, 8, (size_t)m->n_layer * LAYER_MATS);
    int status = take_all_bits(bits, m->n_layer);
    bool few = command_bits_wanted() || quantize_low_bits(o, 0, m->n_layer);
    if (status == CLI_OK && o->per_tensor && few)
        return cli_usage("--bits below 8 has a scale for each row: leave out --weights per-tensor");
    return status;
}

/* ---- the report */

/* The options of a run, and its results. */
struct quantize_run {
    struct quantize_opts o;
    struct quantize_input *result; /* [inputs] */
    uint8_t *matrix_bits;          /* [n_layer, LAYER_MATS] o.bits */
    struct command_tune tune;
    struct command_system system;
    struct command_kv kv;
    struct bits_search bits;
    struct command_check check;
    const struct command_prefix *prefix;
    uint32_t n_start; /* first tokens of the prefix that the model of floats has in the check */
    uint64_t start;
};

static void report_people(const struct tft_model *m, const struct quantize_run *run)
{
    struct worst_inputs l = {0};
    const struct quantize_opts *o = &run->o;
    const struct quantize_input *result = run->result;
    if (o->cushion)
        command_prefix_report(m, o->cushion);
    command_tune_report(&run->tune);
    command_system_report(&run->system);
    command_bits_report(&run->bits);
    command_kv_report(&run->kv);
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        if (o->range[i] == TFT_RANGE_STATIC)
            worst_inputs_add(&l, (struct input_error){i, result[i].error, result[i].affine});
    worst_inputs_print(stderr, &l, m->n_layer);
    command_check_report(&run->check);
}

static void report_json(const struct tft_model *m, const struct quantize_run *run)
{
    const struct quantize_opts *o = &run->o;
    double seconds = (double)(cli_ns() - run->start) / 1e9;
    static const char *const kinds[] = {"float", "static", "token", "tensor"};
    char name[64];
    printf("{\"seconds\":%.3f,\"tokens\":%zu,\"window\":%u,\"prefix\":[", seconds,
           o->n_text / o->window * o->window, o->window);
    for (uint32_t i = 0; i < o->n_prefix; i++)
        printf(i ? ",%d" : "%d", (int)o->prefix[i]);
    fputs("],\"tried\":", stdout);
    command_prefix_json_choice(run->prefix);
    fputs(",\"cushion\":", stdout);
    command_prefix_json(o->cushion);
    fputs(",\"tune\":", stdout);
    command_tune_json(&run->tune);
    fputs(",\"system\":", stdout);
    command_system_json(&run->system);
    fputs(",\"kv_search\":", stdout);
    command_kv_json(&run->kv);
    fputs(",\"bits_search\":", stdout);
    command_bits_json(&run->bits);
    fputs(",\"check\":", stdout);
    command_check_json(&run->check);
    fputs(",\"inputs\":[", stdout);
    for (uint32_t i = 0; i < tft_model_inputs(m); i++) {
        const struct quantize_input *r = &run->result[i];
        printf("%s{\"name\":\"%s\",\"range\":\"%s\",\"scale\":%.9g,\"zero\":%d,\"min\":%.6g,"
               "\"max\":%.6g,\"error\":%.6g}",
               i ? "," : "", quantize_input_name(m->n_layer, i, name), kinds[o->range[i]],
               (double)r->affine.scale, (int)r->affine.zero, (double)r->min, (double)r->max,
               r->error);
    }
    puts("]}");
}

/* ---- the whole */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static int convert(struct tft_model *m, struct quantize_run *run, const char *path)
{
    struct cli_progress bar;
    struct tft_error err;
    bool stopped;
    run->o.progress = progress;
    run->o.user = &bar;
    cli_progress_begin(&bar, run->o.rows_k ? "quantizing again" : "quantizing");
    enum tft_status status = quantize(m, path, &run->o, run->result, &stopped, &err);
    cli_progress_end(&bar);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

static int make(struct tft_model *m, struct quantize_run *run)
{
    const char *path = opt.out;
    bool again;
    run->start = cli_ns();
    run->result = malloc(tft_model_inputs(m) * sizeof *run->result);
    int status =
        run->result ? command_kv_begin(&run->kv, m, &run->o, &path) : cli_fail("out of memory");
    const char *named = path;
    if (status == CLI_OK)
        status = command_system_begin(&run->system, &run->o, &path);
    const char *tuned = path;
    if (status == CLI_OK)
        status = command_tune_begin(&run->tune, m, &run->o, &path);
    if (status == CLI_OK && command_bits_wanted())
        status = command_bits_run(m, &run->o, opt.out, run->matrix_bits, &run->bits);
    if (status == CLI_OK)
        status = convert(m, run, path);
    if (status == CLI_OK)
        status = command_tune_run(&run->tune, &run->o, &again);
    if (status == CLI_OK && again)
        status = convert(m, run, path);
    if (status == CLI_OK)
        status = command_tune_finish(&run->tune, tuned);
    if (status == CLI_OK)
        status = command_system_finish(&run->system, named);
    if (status == CLI_OK)
        status = command_kv_finish(&run->kv, opt.out);
    if (status == CLI_OK)
        status = command_check_finish(&run->check, m, run->o.prefix, run->n_start, opt.out,
                                      run->o.n_threads);
    if (status == CLI_OK && opt.json)
        report_json(m, run);
    else if (status == CLI_OK)
        report_people(m, run);
    bits_search_free(&run->bits);
    command_kv_free(&run->kv);
    command_tune_free(&run->tune);
    free(run->result);
    return status;
}

/* Makes each window begin with BOS, like sequences at run time, if the model was trained with BOS
   and the prefix does not contain it. */
static void begin_windows(const struct tft_model *m, const struct quantize_opts *o, int32_t *ids,
                          struct command_check *check)
{
    size_t with_bos = 0;
    int32_t bos = tft_token_bos(m);
    bool given = tft_tokenize(m, "", 0, TFT_ADD_BOS, NULL, 0, &with_bos) != TFT_OK || !with_bos;
    for (uint32_t i = 0; i < o->n_prefix; i++)
        given |= o->prefix[i] == bos;
    for (size_t i = 0; !given && i + o->window <= o->n_text; i += o->window)
        ids[i] = bos;
    if (!given)
        command_check_begin_windows(check, bos);
}

/* Sets the window. Fails unless prefix, window and text fit the model and each other. n_prefix: the
   most that the prefix may have */
static int choose_window(const struct tft_model *m, struct quantize_opts *o, uint32_t n_prefix)
{
    uint32_t room = n_prefix < m->n_ctx ? m->n_ctx - n_prefix : 0;
    o->window = opt.window ? opt.window : room < 512 ? room : 512;
    if (!o->window || o->window > room)
        return cli_fail("%s: the context of %u has no room for a window of %u after a prefix of %u",
                        m->source.name, m->n_ctx, o->window ? o->window : 1, n_prefix);
    if (o->window > opt.tokens)
        return cli_usage("--calib-tokens %u is less than the window of %u", opt.tokens, o->window);
    if (o->n_text < o->window)
        return cli_fail("%s: a text of %zu tokens is too short for a window of %u",
                        opt.calib ? opt.calib : "the calibration text", o->n_text, o->window);
    return CLI_OK;
}

/* Finds the prefix, and takes the windows of the text ids that the model is calibrated with. */
static int find_prefix(struct tft_model *m, struct quantize_run *run,
                       struct command_prefix *prefix, int32_t *ids)
{
    struct quantize_opts *o = &run->o;
    struct tft_error err;
    uint32_t best = 0;
    if (quantize_check(m, o, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    int status = command_prefix_look(prefix, m, ids, o->n_text, o->window);
    if (status == CLI_OK)
        status = command_prefix_search(prefix, m, opt.out, ids, o->n_text);
    if (status != CLI_OK)
        return status;
    o->prefix = prefix->ids;
    o->n_prefix = (uint32_t)prefix->n;
    o->n_text = quantize_spread_windows(ids, o->n_text, o->window, opt.tokens / o->window);
    begin_windows(m, o, ids, &run->check);
    bool choice = prefix->n_choices > 1 && run->check.text.n_windows;
    if (choice)
        status = command_check_choose(&run->check, m, o, opt.out, prefix->choice,
                                      prefix->n_choices, &best);
    if (status == CLI_OK && choice)
        status = command_prefix_take(prefix, best);
    if (status == CLI_OK && choice && !opt.json)
        command_prefix_report_choice(prefix, m);
    o->prefix = prefix->ids;
    o->n_prefix = (uint32_t)prefix->n;
    o->n_prefix_text = prefix->n_text;
    o->pivots = prefix->pivots;
    o->cushion = prefix->searched ? &prefix->cushion : NULL;
    run->n_start = command_prefix_start(prefix, m);
    return status;
}

static int prepare(struct tft_model *m, const char *text, size_t len)
{
    struct command_prefix prefix = {0};
    struct quantize_run run = {.o = {
                                   .method = (enum range_method)opt.method,
                                   .param = (double)opt.percentile,
                                   .smooth = opt.smooth,
                                   .rotate = opt.rotate == ROTATE_AUTO
                                                 ? quantize_rotate_auto(m)
                                                 : (enum quantize_rotate)(opt.rotate - 1),
                                   .per_tensor = opt.per_tensor,
                                   .prefix_type = command_prefix_type(),
                                   .group = opt.group,
                                   .rounding = (enum quantize_rounding)opt.rounding,
                                   .kv = opt.kv,
                                   .n_threads = (int)cli_model_options.threads,
                               },
                               .prefix = &prefix};
    struct quantize_opts *o = &run.o;
    enum tft_range *range = malloc(tft_model_inputs(m) * sizeof *range);
    int32_t *ids = NULL;
    run.matrix_bits = calloc(m->n_layer, LAYER_MATS);
    o->bits = run.matrix_bits;
    int status = range && o->bits ? take_dynamic(m, range) : cli_fail("out of memory");
    if (status == CLI_OK)
        status = choose_bits(m, o, run.matrix_bits);
    if (status == CLI_OK)
        status = command_prefix_choose(&prefix, m);
    if (status == CLI_OK)
        status = command_tune_look(m);
    if (status == CLI_OK) {
        ids = cli_tokenize(m, text, len, 0, &o->n_text);
        status = ids ? CLI_OK : CLI_FAILED;
    }
    o->text = ids;
    o->range = range;
    if (status == CLI_OK)
        status = choose_window(m, o, command_prefix_most(&prefix));
    if (status == CLI_OK)
        status = command_system_choose(&run.system, m, command_prefix_most(&prefix));
    if (status == CLI_OK)
        status = command_check_keep_out(&run.check, ids, &o->n_text, o->window, opt.tokens);
    if (status == CLI_OK)
        status = find_prefix(m, &run, &prefix, ids);
    if (status == CLI_OK)
        status = make(m, &run);
    command_system_free(&run.system);
    command_prefix_free(&prefix, status);
    command_check_free(&run.check);
    free(range);
    free(run.matrix_bits);
    free(ids);
    return status;
}

static int check_options(void)
{
    if (!opt.out)
        return cli_usage("give the file to write: -o FILE");
    if (opt.smooth > 1)
        return cli_usage("--smooth must be within 0 .. 1");
    if (opt.smooth > 0 && opt.rounding == QUANTIZE_AWQ)
        return cli_usage("--smooth and --rounding awq scale the same inputs: choose one");
    if (opt.percentile > 100 || opt.percentile == 0)
        return cli_usage("--percentile must be above 0 and at most 100");
    if (opt.group != 32 && opt.group != 64 && opt.group != 128)
        return cli_usage("--group must be 32, 64 or 128");
    if (opt.bits && command_bits_wanted())
        return cli_usage("--bits and --bits-search exclude each other");
    if (take_all_bits(NULL, UINT32_MAX) != CLI_OK)
        return CLI_USAGE;
    return cli_check_kv(opt.kv);
}

/* A folder is read where there is a library for JSON. */
static int open_floats(struct tft_model **m, const char *path, const struct tft_model_opts *o)
{
#if TUFFET_JSON
    return import_open_unexpanded(m, path, opt.out, o);
#else
    struct tft_error err;
    return tft_model_open_unexpanded(m, path, o, &err) == TFT_OK ? CLI_OK
                                                                 : cli_fail("%s", err.msg);
#endif
}

static int run_quantize(const char *path)
{
    struct tft_model *m = NULL;
    size_t len;
    int status = check_options();
    if (status == CLI_OK)
        status = command_prefix_check();
    if (status == CLI_OK)
        status = command_system_check();
    if (status == CLI_OK)
        status = command_tune_check();
    if (status == CLI_OK)
        status = command_kv_check();
    if (status == CLI_OK)
        status = command_bits_check();
    if (status == CLI_OK)
        status = cli_limit_cpu();
    if (status != CLI_OK)
        return status;

    char *given = opt.calib ? cli_read(opt.calib, &len) : NULL;
    cli_catch_interrupts();
    struct tft_model_opts mo = {.size = sizeof mo, .tokenizer = cli_model_options.tokenizer};
    status = given || !opt.calib ? CLI_OK : CLI_FAILED;
    if (status == CLI_OK)
        status = open_floats(&m, path, &mo);
    if (status == CLI_OK)
        status = given ? prepare(m, given, len)
                       : prepare(m, (const char *)quantize_calibration_text,
                                 quantize_calibration_bytes);
    free(given);
    tft_model_close(m);
    return status;
}

const struct cli_command command_quantize = {
    .name = "quantize",
    .operand = "MODEL",
    .summary = "convert a model to int8 weights and activations (W8A8)",
    .groups =
        (const struct cli_option_group[]){
            {"Quantization and output", options},
            {"Prefix", command_prefix_option_list},
            {NULL, command_system_option_list},
            {NULL, template_option_list},
            {"Tuning of the prefix", command_tune_option_list},
            {"Bits of the weights", command_bits_option_list},
            {"Bits of the KV cache", command_kv_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_cpu_option_list},
            {NULL, cli_thread_option_list},
            {0},
        },
    .notes =
        "MODEL is a float model, or one with quantized weights, which are expanded one layer at "
        "a time. It may be a folder of Hugging Face, as tuffet import takes: the GGUF file that it "
        "becomes lies beside OUTPUT meanwhile, and needs as much disk space as the folder.\n"
        "\n"
        "Inputs of linear layers, for --dynamic: the parts of a layer are attn_q (shared with "
        "attn_k and attn_v), attn_output, ffn_up (shared with ffn_gate), ffn_down, and where there "
        "is a shared expert ffn_down_shexp (in gemma4, for the feed-forward beside experts, "
        "also ffn_up_shexp); output is the head.\n"
        "\n"
        "--rotate all costs no time at run time, but gives a tied head weights of its own. It "
        "needs RMSNorm, so gpt2 cannot have it. auto means all; o+down for models with "
        "LayerNorm or a tied head.\n"
        "\n"
        "--intact auto looks for the text's outliers, and tries prefixes that take them. A part of "
        "the text is kept out of calibration. The prefix that predicts this part best is kept.\n"
        "\n"
        "--cushion searches all tokens (CushionCache). auto tries each on little text, in int8 "
        "and in a few layers, and the best in the whole float model: minutes per token for a "
        "model of 1 B parameters. A token is accepted, before the last one found or at the end "
        "of the prefix, if it meets --cushion-tau and --cushion-cost. paper is algorithm 1 to the "
        "letter: from BOS, every token on the whole of one sample, at the end, by --cushion-tau "
        "alone. A stopped search leaves "
        "OUTPUT.cushion, and the same command resumes from it.\n"
        "\n"
        "--tune and --calibrate train on four windows of text in five, through the KV cache of "
        "--kv, and keep the prefix that does best on the others. Then the model is made again, "
        "with ranges, and the calibration of --kv, behind that prefix, unless --bits is below 8.\n"
        "\n"
        "--kv with reorder=calibrated or clip=calibrated, such as skvq, calibrates OUTPUT for "
        "that KV cache: the order of channels, and the part of their range that codes cover "
        "(SKVQ, section 3.1). OUTPUT works with other caches too.\n"
        "\n"
        "--kv-search measures how far few bits for a layer's keys or values move the next "
        "token's distribution from that with an f16 cache, and gives more bits to layers that "
        "lose more. If this is no better on held-out text, all layers get the same bits. With a "
        "depth, as in 2.5@8192, it first tries other values of clip, retain, group and the axis of "
        "v, each at the same bytes, and prints what they lose.\n",
    .examples =
        "tuffet quantize model.gguf -o model.w8a8.gguf\n"
        "tuffet quantize SmolLM2-135M-Instruct -o model.w8a8.gguf\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --intact-tokens 1,13\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --cushion auto\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --cushion auto --tune\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --kv-search 2.5\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --kv-search 2.5@8192\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --kv skvq:v=1.5\n",
    .run = run_quantize,
};
