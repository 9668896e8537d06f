/* tuffet inspect: reads the command line; tools/inspect/ makes the reports. */
#include <inttypes.h>

#include "file/file.h"
#include "tools/commands/commands.h"
#include "tools/inspect/activations_report.h"
#include "tools/inspect/drawing.h"
#include "tools/inspect/facts.h"
#include "tools/inspect/tensors.h"
#include "tools/inspect/values.h"

static struct {
    bool values, tensors, verify, json;
    const char *activations, *svg;
    uint32_t tokens;
} opt = {.tokens = 512};

static const struct cli_option options[] = {
    {0, "values", CLI_FLAG, &opt.values, NULL,
     "list all keys and values; of an array, the first elements"},
    {0, "tensors", CLI_FLAG, &opt.tensors, NULL,
     "list all tensors: type, shape, bytes, offset in the file, name"},
    {0, "verify", CLI_FLAG, &opt.verify, NULL,
     "read the whole file, and fail if its checksum is wrong or missing"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "print everything as one JSON object"},
    {0},
};

static const struct cli_option activation_options[] = {
    {0, "activations", CLI_TEXT, &opt.activations, "FILE",
     "run the model over the text of FILE, and show outliers and attention"},
    {'n', "tokens", CLI_COUNT, &opt.tokens, "N", "use the first N tokens of the text"},
    {0, "svg", CLI_TEXT, &opt.svg, "PREFIX",
     "draw PREFIX-magnitudes.svg, PREFIX-tokens.svg and PREFIX-attention.svg too; without "
     "--activations PREFIX-bits.svg, the bits of the KV cache fisher"},
    {0},
};

/* Returns CLI_OK if the file has a checksum, and it is correct. */
static int verify(const struct tft_source *s)
{
    const struct tft_value *v = tft_source_value(s, TFT_CHECKSUM_KEY);
    uint64_t want;
    if (!v)
        return cli_fail("%s: the file has no checksum: --verify needs one, as in files that tuffet "
                        "quantize and tuffet pack wrote",
                        s->name);
    if (v->is_array || !tft_value_uint(v, 0, &want) || want > UINT32_MAX)
        return cli_fail("%s: byte %" PRIu64 ": " TFT_CHECKSUM_KEY " is not a 32-bit number",
                        s->name, v->offset);
    uint32_t got = tft_source_checksum(s);
    if (got != want)
        return cli_fail("%s: the file is damaged: the checksum of its data is %08" PRIx32
                        ", but should be %08" PRIx32,
                        s->name, got, (uint32_t)want);
    return CLI_OK;
}

static void print(const struct facts *f, const char *path)
{
    if (opt.json)
        facts_print_json(f, path);
    else if (!opt.values && !opt.tensors)
        facts_print(f, path);
    if (opt.values && !opt.json)
        values_print(&f->s);
    if (opt.tensors && !opt.json)
        tensors_print(&f->s);
}

/* Draws the bits of channels in the KV cache. */
static int draw(const struct facts *f, const char *path)
{
    struct drawing d = {0};
    char title[256];
    if (!f->runs)
        return cli_fail("%s", f->why_not.msg);
    if (!f->fisher.wanted)
        return cli_fail("%s: --svg draws the report of --activations FILE, or, with --kv fisher, "
                        "the bits of that KV cache",
                        path);
    if (!f->fisher.n)
        return cli_fail("%s: not calibrated for the KV cache fisher: make the file with tuffet "
                        "quantize --kv fisher",
                        path);
    snprintf(title, sizeof title, "Bits of channels in %.80s, %.80s", drawing_file_name(path),
             f->kv);
    int status = drawing_begin(&d, opt.svg, "-bits.svg");
    if (status == CLI_OK) {
        fisher_bits_draw(&f->fisher, title, d.file);
        status = drawing_finish(&d);
    }
    drawing_end(&d);
    return status;
}

static int inspect_file(const char *path)
{
    struct facts f = {.verified = opt.verify};
    struct tft_session_opts so = {
        .size = sizeof so, .capacity = cli_session_options.ctx, .kv = cli_session_options.kv};
    struct tft_error err;
    if (cli_check_model_path(path, false) != CLI_OK)
        return CLI_FAILED;
    if (tft_source_open(&f.s, path, cli_model_options.tokenizer, NULL, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    int status = opt.verify ? verify(&f.s) : CLI_OK;
    if (status == CLI_OK) {
        facts_read(&f, (enum tft_weights)cli_model_options.weights, &so);
        status = opt.svg ? draw(&f, path) : CLI_OK;
    }
    if (status == CLI_OK)
        print(&f, path);
    facts_close(&f);
    return status;
}

static int inspect(const char *path)
{
    const struct report_opts o = {opt.activations, opt.svg, opt.tokens, opt.json};
    if (cli_check_kv(cli_session_options.kv) != CLI_OK)
        return CLI_USAGE;
    if (opt.activations && (opt.values || opt.tensors || opt.verify))
        return cli_usage("--activations is a separate report: use it without --values, --tensors "
                         "and --verify");
    return opt.activations ? report_activations(path, &o) : inspect_file(path);
}

const struct cli_command command_inspect = {
    .name = "inspect",
    .operand = "MODEL",
    .summary = "show the contents of a model file, or activation outliers",
    .groups =
        (const struct cli_option_group[]){
            {"File and output", options},
            {"Activations", activation_options},
            {"Context", cli_session_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {0},
        },
    .notes =
        "Shapes are in the order of the file, row length first. Memory is the total of the model "
        "and a session of --ctx tokens. Characters that cannot be printed are shown as \\n, \\xHH "
        "or \\u{HHHH}.\n"
        "\n"
        "The object of --json, where null means unknown or absent:\n"
        "\n"
        "  file, format (\"gguf\" or \"llama2.c\"), version, bytes, name, architecture,\n"
        "  runs, why_not: whether tuffet can run the model, and why not\n"
        "  parameters, context, width, layers, heads, kv_heads, head, feed_forward:\n"
        "    numbers\n"
        "  bits: of the file for each parameter, with scales and padding, without the\n"
        "    prefix\n"
        "  w8a8: the settings of tuffet quantize, or null\n"
        "    weights: \"int8 per channel\" or \"int8 per tensor\"\n"
        "    prefix: {method, tokens, tuned: the loss that tuned it}\n"
        "    named: {name: tokens} of the named prefixes, after that one\n"
        "    rotation: {values, ffn_down: block lengths, 0 is none; residual: bool}\n"
        "    smooth: alpha of SmoothQuant\n"
        "    calibration: {method, tokens, window}\n"
        "    inputs: {static, token, tensor: inputs with each kind of range,\n"
        "      lossy: static inputs with an error over 1 %,\n"
        "      worst: the 8 worst of these at most, [{name, error, min, max}]}\n"
        "  packed: {TYPE: tensors that tuffet pack made of this type}, or null\n"
        "  memory: {weights: bytes beside the file, kv_per_token, context, session,\n"
        "    windows: layers with a window, fisher: {bits, layers, keys, values: by\n"
        "    layer the shares of channels with these bits}, or null}\n"
        "  tokenizer: {model, tokens, bos, eos}\n"
        "  verified: true, with --verify\n"
        "  chat_template: \"runs\", or why it cannot be run, or null\n"
        "  chat_template_tool_use: the same of the template for conversations with tools\n"
        "  chat_template_drops: roles of messages that the template drops or refuses\n"
        "  types: {TYPE: {tensors, bytes}}; \"int4 g64\": weights of 4 bits in groups of 64\n"
        "  values: {KEY: VALUE}\n"
        "  tensors: [{name, type, shape, bytes, offset; nats: the loss of its rounding\n"
        "    as the search of its bits has it}]\n"
        "\n"
        "--activations runs the model over the text in windows of --ctx tokens (default 512, or "
        "the model's context). It shows the magnitudes at the input of each block and linear "
        "layer: the three largest, the one that a tenth of all reach, and the median, averaged "
        "over the windows; where the largest is; and the share of attention that "
        "the prefix receives, or else the first token. A model with a prefix also runs without it; "
        "static ranges, which were chosen for the prefix, then become ranges for each token. The "
        "inputs of the linear layers of a W8A8 model are shown as quantized: clipped to their "
        "range, and rotated where the model rotates. A list has the share of numbers at the ends "
        "of static ranges, bytes 0 and 255, and at calibration: of the inputs with the largest "
        "shares, and of all above 0.1 % and ten times the share at calibration. The last table "
        "shows the effects of a quantized KV cache: the attention that the f16 tokens of a rule "
        "receive (the newest; all since the cache was last full; a log filter's; the tokens with "
        "the most attention so far, and now), and the error of attention with keys, or values, of "
        "2 bits.\n"
        "\n"
        "The object of --activations --json:\n"
        "\n"
        "  file, text, tokens, windows\n"
        "  runs: without the prefix, then with it, [{\n"
        "    prefix: tokens of the prefix, window: tokens of a window,\n"
        "    blocks: [{name, top: the three largest, top_10_percent, median,\n"
        "      largest: of all windows, window, position, channel, token, text: its\n"
        "      place, attention: average of the heads, heads: of each, kept: {RULE:\n"
        "      shares of attention that 48, 96 and 192 tokens receive},\n"
        "      keys_of_2_bits and values_of_2_bits: mean squared errors, and\n"
        "      output_sizes: shares of the errors of output that lie from 2^(-i/2)\n"
        "      to 2^((1-i)/2), i from 0}]; the last entry is the output norm, without\n"
        "      attention\n"
        "    inputs: [the same for linear layers, without attention; ends: share of the\n"
        "      numbers at the ends of a static range, calibrated_ends: at calibration],\n"
        "    worst: the block with the largest top, in the first run,\n"
        "    tokens: of the first window, [{token, text, top: its largest magnitude at\n"
        "      the input of that block, pivot: whether it stands out}]}]\n",
    .examples = "tuffet inspect model.gguf\n"
                "tuffet inspect model.gguf --tensors | grep attn_q\n"
                "tuffet inspect model.gguf --verify\n"
                "tuffet inspect model.gguf --json | python3 -m json.tool\n"
                "tuffet inspect model.w8a8.gguf --activations text.txt --svg outliers\n",
    .run = inspect,
};
