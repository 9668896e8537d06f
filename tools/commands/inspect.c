/* tuffet inspect: what is in a file. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/activations_report.h"
#include "tools/cli/cli.h"
#include "tools/inspect/facts.h"
#include "file/file.h"
#include "tools/quantize/inputs.h"
#include "tools/chat/template.h"

static struct {
    bool values, tensors, verify, json;
    const char *activations, *svg;
    uint32_t tokens;
} opt = {.tokens = 512};

static const struct cli_option options[] = {
    {0, "values", CLI_FLAG, &opt.values, NULL, "list all keys and values; of arrays the beginning"},
    {0, "tensors", CLI_FLAG, &opt.tensors, NULL,
     "list all tensors: name, type, shape, bytes, offset in the file"},
    {0, "verify", CLI_FLAG, &opt.verify, NULL,
     "read it all, and fail if its checksum does not match"},
    {0, "activations", CLI_TEXT, &opt.activations, "FILE",
     "instead: outliers and attention while it reads the text of FILE"},
    {'n', "tokens", CLI_COUNT, &opt.tokens, "N",
     "how many tokens of that text, from its beginning (512)"},
    {0, "svg", CLI_TEXT, &opt.svg, "PREFIX",
     "draw them too: PREFIX-magnitudes.svg, PREFIX-tokens.svg, PREFIX-attention.svg"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "everything as one JSON object"},
    {0},
};

static const struct cli_command command = {
    "inspect",
    "MODEL",
    "what is in a file, and the outliers of what goes through it",
    (const struct cli_option *const[]){options, cli_session_option_list, cli_thread_option_list,
                                       cli_model_option_list, NULL},
    "Shapes are as the file has them, the row length first. Memory is for a session of --ctx "
    "tokens, the model's context if not given.\n"
    "What does not print is escaped: \\n, \\xHH, \\u{HHHH}.\n\n"
    "The object of --json (null: unknown, or not there):\n"
    "  file, format (\"gguf\" or \"llama2.c\"), version, bytes, name, architecture, runs, "
    "why_not,\n"
    "  parameters, context, width, layers, heads, kv_heads, head, feed_forward: numbers\n"
    "  memory: {weights, kv_per_token, context, session}: bytes; weights are those that are "
    "expanded, the rest stays in the file\n"
    "  tokenizer: {model, tokens, bos, eos}, chat_template: the name of its format or \"unknown\"\n"
    "  w8a8: {weights, prefix: {method, tokens, tuned: the loss that it was tuned by}, rotation: "
    "{values, ffn_down: blocks of the\n"
    "         transforms, 0 without, residual: bool}, smooth,\n"
    "         calibration: {method, tokens, window}, inputs: {static, token, tensor, lossy: how "
    "many static ones lose more than 1 %,\n"
    "         worst: at most 8 of those [{name, error, min, max}]}}; null if it is none\n"
    "  types: {TYPE: {tensors, bytes}}, values: {KEY: VALUE}, tensors: [{name, type, shape, bytes, "
    "offset}]\n\n"
    "--activations runs the model over the text, in windows of --ctx tokens (512, or what there is "
    "room for), and tells how large the\n"
    "numbers are that go into its blocks and linear layers: the three largest, the magnitude that "
    "a tenth of them reach, the median,\n"
    "averages of the windows; where the largest of all is; and the share of attention that falls "
    "on the prefix, or without one on the\n"
    "first token. A model with a prefix runs without it too. A W8A8 model's numbers are rotated "
    "where it is; what its linear layers take\n"
    "are bytes, cut off at their range; without the prefix, which ranges were made for, each token "
    "has its own.\n"
    "The object of --json is then:\n"
    "  file, text, tokens, windows, runs: the one without the prefix, then the one with it: "
    "[{prefix: tokens of it, window: tokens of one,\n"
    "    blocks: [{name, top: the three, top_10_percent, median, largest: of all windows, and "
    "where: window, position, channel, token, text,\n"
    "              attention: average of the heads, heads: of each}], the last norm at the end, "
    "without attention,\n"
    "    inputs: [the same of linear layers], worst: the block with the largest three, of the "
    "first run,\n"
    "    tokens: [{token, text, top: its largest number there, pivot: whether it stands out}] of "
    "the first window}]\n\n"
    "  tuffet inspect model.gguf\n"
    "  tuffet inspect model.gguf --tensors | grep attn_q\n"
    "  tuffet inspect model.gguf --verify\n"
    "  tuffet inspect model.gguf --json | python3 -m json.tool\n"
    "  tuffet inspect model.w8a8.gguf --activations text.txt --svg outliers\n",
};

/* The name of its format, "unknown", or NULL if there is none. */
static const char *chat_format(const struct facts *f)
{
    if (!f->jinja.n)
        return NULL;
    char *jinja = strndup(f->jinja.p, f->jinja.n);
    const struct template_format *format = jinja ? template_recognize(jinja) : NULL;
    free(jinja);
    return format ? template_name(format) : "unknown";
}

/* ---- the checksum */

/* CLI_OK only if there is one and it is right: who asks wants no maybe. */
static int verify(const struct tft_source *s)
{
    const struct tft_value *v = tft_source_value(s, TFT_CHECKSUM_KEY);
    uint64_t want;
    if (!v)
        return cli_fail("%s: there is no checksum in it", s->name);
    if (v->is_array || !tft_value_uint(v, 0, &want) || want > UINT32_MAX)
        return cli_fail("%s: byte %" PRIu64 ": " TFT_CHECKSUM_KEY " is no checksum", s->name,
                        v->offset);
    uint32_t got = tft_source_checksum(s);
    if (got != want)
        return cli_fail("%s: damaged: the checksum of its data is %08" PRIx32
                        ", and should be %08" PRIx32,
                        s->name, got, (uint32_t)want);
    return CLI_OK;
}

/* ---- values */

static void put_number(const struct tft_value *v, uint64_t i, bool json)
{
    uint64_t u;
    int64_t n;
    double x = 0;
    if (v->type == TFT_VALUE_BOOL && tft_value_uint(v, i, &u))
        fputs(u ? "true" : "false", stdout);
    else if (tft_value_uint(v, i, &u))
        printf("%" PRIu64, u);
    else if (tft_value_int(v, i, &n))
        printf("%" PRId64, n);
    else if (tft_value_real(v, i, &x) && json && !isfinite(x))
        fputs("null", stdout);
    else
        printf("%.*g", !json ? 6 : v->type == TFT_VALUE_F32 ? 9 : 17, x);
}

static void put_str(struct tft_str s, bool json, bool quoted)
{
    if (json) {
        cli_json_string(stdout, s.p, s.n);
        return;
    }
    fputs(quoted ? "\"" : "", stdout);
    cli_put_escaped(stdout, s.p, s.n);
    fputs(quoted ? "\"" : "", stdout);
}

/* The first `most` elements. */
static void put_elements(const struct tft_value *v, uint64_t most, bool json)
{
    const unsigned char *at = v->data;
    for (uint64_t i = 0; i < v->n && i < most; i++) {
        fputs(!i ? "" : json ? "," : ", ", stdout);
        if (v->type == TFT_VALUE_STRING)
            put_str(tft_value_next_str(&at), json, v->is_array);
        else
            put_number(v, i, json);
    }
    if (v->n > most)
        fputs(", ...", stdout);
}

static void list_values(const struct tft_source *s)
{
    enum { BEGINNING = 8 };
    for (size_t i = 0; i < s->n_value; i++) {
        const struct tft_value *v = &s->value[i];
        char type[40];
        snprintf(type, sizeof type, v->is_array ? "%s[%" PRIu64 "]" : "%s",
                 tft_value_type_name(v->type), v->n);
        printf("%-15s ", type);
        cli_put_escaped(stdout, v->key.p, v->key.n);
        fputs(" = ", stdout);
        put_elements(v, BEGINNING, false);
        putchar('\n');
    }
}

/* ---- tensors */

static uint64_t offset(const struct tft_source *s, const struct tft_tensor *t)
{
    return (uint64_t)(t->data - s->data);
}

static void list_tensors(const struct tft_source *s)
{
    printf("%-8s %-24s %12s %14s  %s\n", "type", "shape", "bytes", "offset", "name");
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        char shape[96] = "";
        for (uint32_t d = 0; d < t->n_dims; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape),
                     d ? " x %" PRIu64 : "%" PRIu64, t->ne[d]);
        printf("%-8s %-24s %12" PRIu64 " %14" PRIu64 "  ", tft_dtype_name(t->type), shape, t->bytes,
               offset(s, t));
        cli_put_escaped(stdout, t->name.p, t->name.n);
        putchar('\n');
    }
}

enum { TYPES = 64 }; /* above every number of a type */

struct share {
    size_t tensors;
    uint64_t bytes;
};

static void count_types(const struct tft_source *s, struct share share[TYPES])
{
    memset(share, 0, TYPES * sizeof *share);
    for (size_t i = 0; i < s->n_tensor; i++) {
        share[s->tensor[i].type].tensors++;
        share[s->tensor[i].type].bytes += s->tensor[i].bytes;
    }
}

/* ---- for people */

static void put_bytes(uint64_t n)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double x = (double)n;
    int unit = 0;
    for (; x >= 1000 && unit < 4; unit++)
        x /= 1000;
    printf(unit ? "%.1f %s" : "%.0f %s", x, units[unit]);
}

static void put_label(const char *label)
{
    printf("%-14s ", label);
}

static void show_str(const char *label, struct tft_str s)
{
    put_label(label);
    put_str(s, false, false);
    putchar('\n');
}

static void show_dimensions(const struct facts *f)
{
    const struct {
        uint64_t n;
        const char *what;
    } all[] = {{f->layers, "layers"},       {f->width, "wide"},
               {f->heads, "heads"},         {f->kv_heads, "heads of keys and values"},
               {f->head, "numbers a head"}, {f->feed_forward, "in the feed-forward"}};
    bool any = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].n) {
            if (!any)
                put_label("dimensions");
            printf("%s%" PRIu64 " %s", any ? ", " : "", all[i].n, all[i].what);
            any = true;
        }
    if (any)
        putchar('\n');
    if (f->context) {
        put_label("context");
        printf("%" PRIu64 " tokens\n", f->context);
    }
}

static void show_tensors(const struct facts *f)
{
    struct share share[TYPES];
    count_types(&f->s, share);
    put_label("tensors");
    printf("%zu", f->s.n_tensor);
    for (uint32_t type = 0, any = 0; type < TYPES; type++)
        if (share[type].tensors) {
            printf("%s %zu %s (", any++ ? "," : ":", share[type].tensors, tft_dtype_name(type));
            put_bytes(share[type].bytes);
            putchar(')');
        }
    putchar('\n');
    if (f->parameters) {
        put_label("parameters");
        printf("%" PRIu64 "\n", f->parameters);
    }
}

static void show_memory(const struct facts *f)
{
    put_label("KV cache");
    printf("%zu bytes a token, as %s\n", f->kv_per_token, f->kv);
    put_label("memory");
    put_bytes(f->weights);
    fputs(" for weights that cannot stay in the file as they are", stdout);
    if (f->session) {
        fputs(", ", stdout);
        put_bytes(f->session);
        printf(" for a session of %" PRIu32 " tokens", f->session_context);
    } else {
        printf("; a session cannot have %" PRIu32 " tokens", f->session_context);
    }
    putchar('\n');
}

static void show_quantized(const struct facts *f)
{
    if (f->weights_are.n)
        show_str("weights", f->weights_are);
    put_label("inputs");
    printf("%" PRIu64 " static, %" PRIu64 " per token, %" PRIu64 " per pass\n",
           f->inputs[TFT_RANGE_STATIC], f->inputs[TFT_RANGE_TOKEN], f->inputs[TFT_RANGE_TENSOR]);
    put_label("rotation");
    printf(f->rotate_values ? "values by %" PRIu64 : "values not", f->rotate_values);
    printf(f->rotate_down ? ", ffn_down's input by %" PRIu64 : ", ffn_down's input not",
           f->rotate_down);
    puts(f->rotate_residual ? ", the residual stream" : ", the residual stream not");
    if (f->smooth > 0) {
        put_label("smoothing");
        printf("alpha %g\n", f->smooth);
    }
    put_label("prefix");
    if (f->prefix) {
        put_str(f->prefix_method, false, false);
        printf("%s%" PRIu64 " token%s: ", f->prefix_method.n ? ", " : "", f->prefix->n,
               f->prefix->n > 1 ? "s" : "");
        put_elements(f->prefix, 8, false);
        if (f->prefix_loss.n)
            fputs("; tuned by ", stdout);
        put_str(f->prefix_loss, false, false);
        putchar('\n');
    } else {
        puts("none");
    }
    if (f->calibration_method.n) {
        put_label("calibration");
        put_str(f->calibration_method, false, false);
        printf(", %" PRIu64 " tokens in windows of %" PRIu64 "\n", f->calibration_tokens,
               f->calibration_window);
    }
}

static void show_token(const struct facts *f, const char *what, int32_t id)
{
    if (id < 0)
        return;
    size_t n;
    const char *p = tft_tokenizer_text(f->tokenizer, id, true, &n);
    printf(", %s %" PRId32 " \"", what, id);
    cli_put_escaped(stdout, p, n);
    putchar('"');
}

static void show_tokenizer(const struct facts *f)
{
    put_label("tokenizer");
    if (!f->vocab.n) {
        puts("none");
        return;
    }
    put_str(f->vocab, false, false);
    if (f->tokenizer) {
        printf(", %" PRIu32 " tokens", tft_tokenizer_size(f->tokenizer));
        show_token(f, "BOS", tft_tokenizer_bos(f->tokenizer));
        show_token(f, "EOS", tft_tokenizer_eos(f->tokenizer));
    }
    putchar('\n');
}

static void show(const struct facts *f, const char *path)
{
    show_str("file", (struct tft_str){path, strlen(path)});
    put_label("format");
    printf(f->s.version ? "GGUF version %" PRIu32 ", " : "llama2.c, ", f->s.version);
    put_bytes(f->s.size);
    putchar('\n');
    if (f->name.n)
        show_str("name", f->name);
    show_str("architecture", f->arch.n ? f->arch : (struct tft_str){"not named", 9});
    show_dimensions(f);
    show_tensors(f);
    if (f->quantized)
        show_quantized(f);
    if (f->runs)
        show_memory(f);
    show_tokenizer(f);
    const char *format = chat_format(f);
    show_str("chat template",
             format ? (struct tft_str){format, strlen(format)} : (struct tft_str){"none", 4});
    if (opt.verify)
        show_str("checksum", (struct tft_str){"right", 5});
    put_label("runs");
    printf(f->runs ? "yes\n" : "no: %s\n", f->why_not.msg);
    worst_inputs_print(stdout, &f->lossy, (uint32_t)f->layers);
}

/* ---- for programs */

static void json_key(const char *key)
{
    printf(",\"%s\":", key);
}

/* An optional string. */
static void json_str(const char *key, struct tft_str s)
{
    json_key(key);
    if (s.p)
        cli_json_string(stdout, s.p, s.n);
    else
        fputs("null", stdout);
}

static void json_number(const char *key, uint64_t n, bool known)
{
    json_key(key);
    if (known)
        printf("%" PRIu64, n);
    else
        fputs("null", stdout);
}

static void json_memory(const struct facts *f)
{
    json_key("memory");
    if (!f->runs) {
        fputs("null", stdout);
        return;
    }
    printf("{\"weights\":%zu", f->weights);
    json_number("kv_per_token", f->kv_per_token, true);
    json_number("context", f->session_context, true);
    json_number("session", f->session, f->session > 0);
    putchar('}');
}

static void json_inputs(const struct facts *f)
{
    char name[64];
    printf(",\"inputs\":{\"static\":%" PRIu64 ",\"token\":%" PRIu64 ",\"tensor\":%" PRIu64
           ",\"lossy\":%" PRIu32 ",\"worst\":[",
           f->inputs[TFT_RANGE_STATIC], f->inputs[TFT_RANGE_TOKEN], f->inputs[TFT_RANGE_TENSOR],
           f->lossy.n);
    for (uint32_t i = 0; i < worst_inputs_shown(&f->lossy); i++) {
        const struct input_error *input = &f->lossy.worst[i];
        printf("%s{\"name\":\"%s\",\"error\":%.6g,\"min\":%.6g,\"max\":%.6g}", i ? "," : "",
               quantize_input_name((uint32_t)f->layers, input->index, name), input->error,
               input_error_min(input), input_error_max(input));
    }
    fputs("]}", stdout);
}

static void json_quantized(const struct facts *f)
{
    json_key("w8a8");
    if (!f->quantized) {
        fputs("null", stdout);
        return;
    }
    fputs("{\"weights\":", stdout);
    cli_json_string(stdout, f->weights_are.p, f->weights_are.n);
    json_key("prefix");
    if (f->prefix) {
        fputs("{\"method\":", stdout);
        cli_json_string(stdout, f->prefix_method.p, f->prefix_method.n);
        fputs(",\"tokens\":[", stdout);
        put_elements(f->prefix, UINT64_MAX, true);
        putchar(']');
        json_str("tuned", f->prefix_loss);
        putchar('}');
    } else {
        fputs("null", stdout);
    }
    printf(",\"rotation\":{\"values\":%" PRIu64 ",\"ffn_down\":%" PRIu64
           ",\"residual\":%s},\"smooth\":%.6g,\"calibration\":{\"method\":",
           f->rotate_values, f->rotate_down, f->rotate_residual ? "true" : "false",
           isfinite(f->smooth) ? f->smooth : 0);
    cli_json_string(stdout, f->calibration_method.p, f->calibration_method.n);
    json_number("tokens", f->calibration_tokens, true);
    json_number("window", f->calibration_window, true);
    putchar('}');
    json_inputs(f);
    putchar('}');
}

static void json_tokenizer(const struct facts *f)
{
    json_key("tokenizer");
    if (!f->vocab.n) {
        fputs("null", stdout);
        return;
    }
    const struct tft_tokenizer *t = f->tokenizer;
    const struct tft_value *tokens = tft_source_value(&f->s, "tokenizer.ggml.tokens");
    int64_t bos = t ? tft_tokenizer_bos(t) : -1, eos = t ? tft_tokenizer_eos(t) : -1;
    fputs("{\"model\":", stdout);
    cli_json_string(stdout, f->vocab.p, f->vocab.n);
    json_number("tokens", tokens ? tokens->n : 0, tokens);
    json_number("bos", (uint64_t)bos, bos >= 0);
    json_number("eos", (uint64_t)eos, eos >= 0);
    putchar('}');
}

static void json_lists(const struct tft_source *s)
{
    struct share share[TYPES];
    count_types(s, share);
    json_key("types");
    for (uint32_t type = 0, any = 0; type < TYPES; type++)
        if (share[type].tensors)
            printf("%s\"%s\":{\"tensors\":%zu,\"bytes\":%" PRIu64 "}", any++ ? "," : "{",
                   tft_dtype_name(type), share[type].tensors, share[type].bytes);
    fputs(s->n_tensor ? "}" : "{}", stdout);

    json_key("values");
    for (size_t i = 0; i < s->n_value; i++) {
        const struct tft_value *v = &s->value[i];
        putchar(i ? ',' : '{');
        cli_json_string(stdout, v->key.p, v->key.n);
        fputs(v->is_array ? ":[" : ":", stdout);
        put_elements(v, UINT64_MAX, true);
        fputs(v->is_array ? "]" : "", stdout);
    }
    fputs(s->n_value ? "}" : "{}", stdout);

    json_key("tensors");
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        fputs(i ? ",{\"name\":" : "[{\"name\":", stdout);
        cli_json_string(stdout, t->name.p, t->name.n);
        printf(",\"type\":\"%s\",\"shape\":", tft_dtype_name(t->type));
        for (uint32_t d = 0; d < t->n_dims; d++)
            printf("%c%" PRIu64, d ? ',' : '[', t->ne[d]);
        printf("],\"bytes\":%" PRIu64 ",\"offset\":%" PRIu64 "}", t->bytes, offset(s, t));
    }
    fputs(s->n_tensor ? "]" : "[]", stdout);
}

static void show_json(const struct facts *f, const char *path)
{
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {{"parameters", f->parameters},
                   {"context", f->context},
                   {"width", f->width},
                   {"layers", f->layers},
                   {"heads", f->heads},
                   {"kv_heads", f->kv_heads},
                   {"head", f->head},
                   {"feed_forward", f->feed_forward}};
    const char *format = chat_format(f);
    fputs("{\"file\":", stdout);
    cli_json_string(stdout, path, strlen(path));
    printf(",\"format\":\"%s\"", f->s.version ? "gguf" : "llama2.c");
    json_number("version", f->s.version, true);
    json_number("bytes", f->s.size, true);
    json_str("name", f->name);
    json_str("architecture", f->arch);
    json_key("runs");
    fputs(f->runs ? "true" : "false", stdout);
    json_str("why_not", f->runs ? (struct tft_str){0}
                                : (struct tft_str){f->why_not.msg, strlen(f->why_not.msg)});
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_number(numbers[i].key, numbers[i].n, numbers[i].n > 0);
    json_quantized(f);
    json_memory(f);
    json_tokenizer(f);
    if (opt.verify) {
        json_key("verified");
        fputs("true", stdout);
    }
    json_str("chat_template",
             format ? (struct tft_str){format, strlen(format)} : (struct tft_str){0});
    json_lists(&f->s);
    puts("}");
}

int cmd_inspect(int argc, char **argv)
{
    const char *path;
    struct facts f = {0};
    struct tft_error err;
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (cli_check_session() != CLI_OK)
        return CLI_USAGE;
    if (opt.activations && (opt.values || opt.tensors || opt.verify))
        return cli_usage(
            "--activations is a report of its own, without --values, --tensors and --verify");
    if (opt.activations)
        return activations_report(path, &(struct activations_report_opts){opt.activations, opt.svg,
                                                                          opt.tokens, opt.json});
    if (opt.svg)
        return cli_usage("--svg draws what --activations FILE shows");
    if (tft_source_open(&f.s, path, cli_model_options.tokenizer, NULL, &err) != TFT_OK)
        return cli_fail("%s", err.msg);

    if (opt.verify)
        status = verify(&f.s);
    if (status != CLI_OK) {
        tft_source_close(&f.s);
        return status;
    }
    struct tft_session_opts so = {
        .size = sizeof so, .capacity = cli_session_options.ctx, .kv = cli_session_options.kv};
    facts_read(&f, (enum tft_weights)cli_model_options.weights, &so);
    if (opt.json) {
        show_json(&f, path);
    } else if (opt.values || opt.tensors) {
        if (opt.values)
            list_values(&f.s);
        if (opt.tensors)
            list_tensors(&f.s);
    } else {
        show(&f, path);
    }
    facts_close(&f);
    return CLI_OK;
}
