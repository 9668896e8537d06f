/* tuffet quantize: makes a W8A8 model from a float model. */
#include <stdlib.h>
#include <string.h>

#include "models/open.h"
#include "tools/chat/template.h"
#include "tools/commands/commands.h"
#include "tools/import/command.h"
#include "tools/quantize/command_bits.h"
#include "tools/quantize/command_check.h"
#include "tools/quantize/command_kv.h"
#include "tools/quantize/command_plan.h"
#include "tools/quantize/command_prefix.h"
#include "tools/quantize/command_ranges.h"
#include "tools/quantize/command_system.h"
#include "tools/quantize/command_text.h"
#include "tools/quantize/command_tune.h"
#include "tools/quantize/measure/worst_inputs.h"
#include "tools/quantize/quantize.h"

enum { ROTATE_AUTO }; /* then enum quantize_rotate */

static struct {
    const char *out, *kv, *bits;
    uint32_t group;
    int method, rotate, per_tensor, rounding;
    float percentile, smooth;
    bool json;
} opt = {.method = RANGE_MSE, .percentile = 99.99f, .group = 64};

static const struct cli_option options[] = {
    {'o', "output", CLI_TEXT, &opt.out, "FILE", "write the model to FILE"},
    {0, "range", CLI_WORD, &opt.method, "min-max|percentile|mse",
     "choose static ranges by all numbers, by a percentile, or by the least squared error"},
    {0, "percentile", CLI_REAL, &opt.percentile, "P",
     "cover P percent of the numbers, with --range percentile"},
    {0, "smooth", CLI_REAL, &opt.smooth, "A",
     "apply SmoothQuant with alpha A to the outputs of norms (default 0: off)"},
    {0, "rotate", CLI_WORD, &opt.rotate, "auto|none|o|o+down|all",
     "rotate attention's output (o), also ffn_down's input (o+down), also the residual stream "
     "(all), by Hadamard transforms"},
    {0, "weights", CLI_WORD, &opt.per_tensor, "per-channel|per-tensor",
     "give each row of a weight matrix a scale, or each matrix"},
    {0, "bits", CLI_TEXT, &opt.bits, "LIST",
     "bits per weight: 2, 3, 4 or 8 (default 8), with overrides by matrix or layer, like "
     "\"4,attn_v=8,0-3.ffn_down=8\""},
    {0, "group", CLI_COUNT, &opt.group, "N",
     "group size: 32, 64 or 128 weights of 2 to 4 bits share a scale"},
    {0, "rounding", CLI_WORD, &opt.rounding, "gptq|nearest|awq",
     "round weights of 2 to 4 bits so that each makes up for the errors of others (gptq), to "
     "nearest, or to nearest after scaling weights of large inputs (awq)"},
    {0, "kv", CLI_TEXT, &opt.kv, CLI_KV_ARG,
     "set the model's default KV cache, as --kv of tuffet run does (default f16)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: seconds, tokens, window, prefix, the prefixes that were tried, "
     "cushion, tune, system, kv_search, bits_search, dynamic, check, and inputs with their ranges"},
    {0},
};

/* ---- bits of the weights */

static bool is(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

/* Parses one item of --bits, the n bytes at p: "4", or layers, a matrix, or both with a dot
   between them, and then "=4". bits: [n_layer, LAYER_MATS], or NULL: any layers will do. */
static bool take_bits(uint8_t *bits, uint32_t n_layer, const char *p, size_t n)
{
    const char *end = p + n - 2;
    uint32_t from = 0, to = n_layer - 1;
    if (!n || !strchr("2348", p[n - 1]) || (n > 1 && (n < 3 || *end != '=')))
        return false;
    bool every = n == 1, layers = n > 1 && *p >= '0' && *p <= '9', found = false;
    if (layers && (!quantize_take_layers(&p, &from, &to) || to >= n_layer || (p != end && *p != '.')))
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
    struct command_text text;
    struct command_check check;
    struct command_ranges ranges;
    enum tft_range *range; /* [inputs] o.range */
    const struct command_prefix *prefix;
    uint32_t n_start; /* first tokens of the prefix that the float model has in the check */
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
    command_ranges_report(&run->ranges, &run->check, m);
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        if (o->range[i] == TFT_RANGE_STATIC)
            worst_inputs_add(&l, (struct input_error){i, result[i].error, result[i].affine});
    worst_inputs_print(stderr, &l, m->n_layer);
    check_print(stderr, run->check.loss, m->n_vocab);
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
    fputs(",\"dynamic\":", stdout);
    command_ranges_json(&run->ranges, m);
    fputs(",\"check\":", stdout);
    check_json(stdout, run->check.loss);
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

/* Measures the file, and chooses the inputs with per-token ranges. An interrupt leaves no file: its
   ranges are the last ones tried. */
static int choose_ranges(struct tft_model *m, struct quantize_run *run, const char *path)
{
    if (!command_check_has_text(&run->text))
        return CLI_OK;
    int status = command_check_open(&run->check, m, &run->text);
    if (status == CLI_OK)
        status = command_check_file(&run->check, path, "checking", run->o.n_threads);
    if (status == CLI_OK)
        status = command_ranges_choose(&run->ranges, &run->check, &run->text, path, run->range,
                                       run->o.n_threads);
    if (status == CLI_INTERRUPTED)
        remove(path);
    return status;
}

/* The loss of the finished file. path: of the measured file; later steps may have changed it */
static int check(struct quantize_run *run, const char *path)
{
    int status = CLI_OK;
    if (!command_check_has_text(&run->text))
        return CLI_OK;
    if (path != opt.out)
        status = command_check_file(&run->check, opt.out, "checking", run->o.n_threads);
    return status == CLI_OK ? command_check_store(&run->check, opt.out) : status;
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
        status = choose_ranges(m, run, path);
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
        status = check(run, path);
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

/* Makes a small model with each candidate prefix. The first is BOS, or no prefix: it may have
   per-token ranges too, and if they suffice, no other is tried. A prefix of words makes the model
   expect other text. *best: the prefix of the model nearest to the float model */
static int try_prefixes(struct tft_model *m, struct quantize_run *run,
                        struct command_prefix *prefix, uint32_t *best)
{
    char title[64], *trial = malloc(strlen(opt.out) + sizeof ".trial");
    enum tft_range *fixed = malloc(tft_model_inputs(m) * sizeof *fixed),
                   *chosen = malloc(tft_model_inputs(m) * sizeof *chosen);
    size_t bytes = tft_model_inputs(m) * sizeof *fixed;
    int status = trial && fixed && chosen ? CLI_OK : cli_fail("out of memory");
    if (status == CLI_OK) {
        strcat(strcpy(trial, opt.out), ".trial");
        memcpy(fixed, run->range, bytes);
    }
    *best = 0;
    for (uint32_t i = 0; i < prefix->n_choices && status == CLI_OK; i++) {
        struct check_prefix *p = &prefix->choice[i];
        snprintf(title, sizeof title, "trying prefix %u of %u", (unsigned)i + 1,
                 (unsigned)prefix->n_choices);
        status = command_check_try(&run->check, m, &run->text, &run->o, trial, p, run->n_start,
                                   title);
        if (status == CLI_OK && i == 0) {
            status = command_ranges_choose(&run->ranges, &run->check, &run->text, trial, run->range,
                                           run->o.n_threads);
            memcpy(chosen, run->range, bytes);
            memcpy(run->range, fixed, bytes);
        }
        remove(trial);
        p->nats = command_check_divergence(&run->check);
        if (p->nats < prefix->choice[*best].nats)
            *best = i;
        if (i == 0 && !prefix->searched && command_ranges_hold(&run->check))
            prefix->n_choices = 1;
    }
    if (status == CLI_OK && *best == 0)
        memcpy(run->range, chosen, bytes);
    else
        command_ranges_free(&run->ranges);
    free(trial);
    free(fixed);
    free(chosen);
    return status;
}

/* Finds the prefix, and takes the windows of the calibration text. */
static int find_prefix(struct tft_model *m, struct quantize_run *run,
                       struct command_prefix *prefix)
{
    struct quantize_opts *o = &run->o;
    struct command_text *t = &run->text;
    struct tft_error err;
    uint32_t best = 0;
    size_t n_first;
    int status = command_text_begin(t, prefix->ids, (uint32_t)prefix->n, prefix->n_text, 0);
    o->text = t->ids;
    o->n_text = t->n;
    o->window = t->window;
    if (status == CLI_OK && quantize_check(m, o, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    if (status == CLI_OK)
        status = command_prefix_look(prefix, m, t->ids, t->n, t->window);
    if (status == CLI_OK)
        status = command_prefix_search(prefix, m, opt.out, t->ids, t->n);
    const int32_t *first = command_text_first(t, &n_first);
    command_prefix_add_first(prefix, first, n_first);
    bool choice = prefix->n_choices > 1 && command_check_has_text(t);
    run->n_start = command_prefix_start(prefix, m);
    if (status == CLI_OK && choice)
        status = try_prefixes(m, run, prefix, &best);
    if (status == CLI_OK && choice)
        status = command_prefix_take(prefix, best);
    if (status == CLI_OK && choice && !opt.json)
        command_prefix_report_choice(prefix, m);
    if (status == CLI_OK)
        status = command_text_begin(t, prefix->ids, (uint32_t)prefix->n, prefix->n_text,
                                    run->n_start);
    if (status == CLI_OK)
        command_text_spread(t, 0);
    o->text = t->ids;
    o->n_text = t->n;
    o->prefix = prefix->ids;
    o->n_prefix = (uint32_t)prefix->n;
    o->n_prefix_text = t->n_prefix_text;
    o->pivots = prefix->pivots;
    o->cushion = prefix->searched ? &prefix->cushion : NULL;
    return status;
}

/* *runs: the float model, opened for computing; it is closed. NULL: the file of --calib has the
   text */
static int prepare(struct tft_model *m, struct tft_model **runs, struct command_text *text)
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
                               .text = *text,
                               .prefix = &prefix};
    *text = (struct command_text){0};
    struct quantize_opts *o = &run.o;
    enum tft_range *range = malloc(tft_model_inputs(m) * sizeof *range);
    run.matrix_bits = calloc(m->n_layer, LAYER_MATS);
    o->bits = run.matrix_bits;
    int status = range && o->bits ? command_ranges_take(m, range) : cli_fail("out of memory");
    if (status == CLI_OK)
        status = choose_bits(m, o, run.matrix_bits);
    if (status == CLI_OK)
        status = command_plan(m, o, opt.out, command_text_tokens(), opt.json);
    if (status == CLI_OK)
        status = command_prefix_choose(&prefix, m);
    if (status == CLI_OK)
        status = command_tune_look(m);
    o->range = run.range = range;
    if (status == CLI_OK)
        status = command_system_choose(&run.system, m, &prefix);
    if (status == CLI_OK)
        status = command_text_make(&run.text, m, *runs, command_prefix_most(&prefix));
    tft_model_close(*runs); /* and its memory is free */
    *runs = NULL;
    if (status == CLI_OK)
        status = find_prefix(m, &run, &prefix);
    if (status == CLI_OK)
        status = make(m, &run);
    command_system_free(&run.system);
    command_prefix_free(&prefix, status);
    command_check_free(&run.check);
    command_ranges_free(&run.ranges);
    free(range);
    command_text_free(&run.text);
    free(run.matrix_bits);
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

/* No file that is read is written. */
static int check_output(const char *path)
{
    int status = cli_check_model_path(path, true);
    if (status == CLI_OK)
        status = cli_check_output(opt.out, path);
    if (status == CLI_OK)
        status = cli_check_output(opt.out, cli_model_options.tokenizer);
    return status == CLI_OK ? cli_check_output(opt.out, command_text_path()) : status;
}

/* *m: to read its weights; *runs: to compute, if the model writes text. A folder can be read if the
   build has a library for JSON. */
static int open_floats(struct tft_model **m, struct tft_model **runs, const char *path)
{
    struct tft_model_opts o = {.size = sizeof o, .tokenizer = cli_model_options.tokenizer};
    bool write = command_text_wants_own();
#if TUFFET_JSON
    return import_open_unexpanded(m, write ? runs : NULL, path, opt.out, &o);
#else
    struct tft_error err;
    if (tft_model_open_unexpanded(m, path, &o, &err) != TFT_OK ||
        (write && tft_model_open(runs, path, &o, &err) != TFT_OK))
        return cli_fail("%s", err.msg);
    return CLI_OK;
#endif
}

static int run_quantize(const char *path)
{
    struct tft_model *m = NULL, *runs = NULL;
    struct command_text text = {0};
    int status = check_options();
    if (status == CLI_OK)
        status = check_output(path);
    if (status == CLI_OK)
        status = command_text_check();
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
    if (status == CLI_OK)
        status = command_text_read(&text);
    if (status == CLI_OK) {
        cli_catch_interrupts();
        status = open_floats(&m, &runs, path);
    }
    if (status == CLI_OK)
        status = prepare(m, &runs, &text);
    command_text_free(&text);
    tft_model_close(runs);
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
            {"Calibration text", command_text_option_list},
            {"Ranges of activations", command_ranges_option_list},
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
    .first = (const char *const[]){"output", "calib", "bits", "bits-search", "kv", "threads", NULL},
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
        "with ranges, and the calibration of --kv, after that prefix, unless --bits is below 8.\n"
        "\n"
        "--kv with reorder=calibrated or clip=calibrated, such as skvq, calibrates OUTPUT for "
        "that KV cache: the order of channels, and the part of their range that codes cover "
        "(SKVQ, section 3.1). OUTPUT works with other caches too.\n"
        "\n"
        "--kv-search measures how far few bits for a layer's keys or values move the next token's "
        "distribution from that with an f16 cache, and gives more bits to layers that lose more. "
        "If this is no better on held-out text, all layers get the same bits. With a depth, as in "
        "2.5@8192, it first tries other values of clip, retain, group and the axis of v, each at "
        "the same bytes, and prints the loss of each.\n",
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
