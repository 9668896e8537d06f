/* The facts as one JSON object. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "facts.h"
#include "tensors.h"
#include "tools/cli/cli.h"
#include "tools/quantize/inside.h"
#include "values.h"

static void json_key(const char *key)
{
    printf(",\"%s\":", key);
}

/* null where s.p is NULL. */
static void json_str(const char *key, struct tft_str s)
{
    json_key(key);
    if (s.p)
        cli_json_string(stdout, s.p, s.n);
    else
        fputs("null", stdout);
}

/* null where text is NULL. */
static void json_text(const char *key, const char *text)
{
    json_str(key, (struct tft_str){text, text ? strlen(text) : 0});
}

static void json_number(const char *key, uint64_t n, bool known)
{
    json_key(key);
    if (known)
        printf("%" PRIu64, n);
    else
        fputs("null", stdout);
}

static void json_shares(const struct fisher_bits *b, enum tft_kv_which which)
{
    for (size_t l = 0; l < b->n; l++)
        for (size_t i = 0; i < TFT_FISHER_CHOICES; i++)
            printf("%s%.6g", i ? "," : l ? "],[" : "[[",
                   b->share[which][l * TFT_FISHER_CHOICES + i]);
    fputs("]]", stdout);
}

static void json_bits(const struct fisher_bits *b)
{
    json_key("fisher");
    if (!b->n) {
        fputs("null", stdout);
        return;
    }
    for (size_t i = 0; i < TFT_FISHER_CHOICES; i++)
        printf("%s%u", i ? "," : "{\"bits\":[", tft_fisher_choices[i]);
    for (size_t l = 0; l < b->n; l++)
        printf("%s%" PRIu32, l ? "," : "],\"layers\":[", b->layer[l]);
    fputs("],\"keys\":", stdout);
    json_shares(b, TFT_KV_K);
    fputs(",\"values\":", stdout);
    json_shares(b, TFT_KV_V);
    putchar('}');
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
    json_number("windows", f->windows, true);
    json_number("context", f->session_context, true);
    json_number("session", f->session, f->session > 0);
    json_bits(&f->fisher);
    putchar('}');
}

static void json_inputs(const struct facts *f)
{
    char name[64];
    printf(",\"inputs\":{\"static\":%" PRIu64 ",\"token\":%" PRIu64 ",\"lossy\":%" PRIu32
           ",\"worst\":[",
           f->inputs[TFT_RANGE_STATIC], f->inputs[TFT_RANGE_TOKEN], f->worst_inputs.n);
    for (uint32_t i = 0; i < worst_inputs_shown(&f->worst_inputs); i++) {
        const struct input_error *input = &f->worst_inputs.worst[i];
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
        values_print_elements(f->prefix, UINT64_MAX, true);
        putchar(']');
        json_str("tuned", f->prefix_loss);
        putchar('}');
    } else {
        fputs("null", stdout);
    }
    json_key("named");
    putchar('{');
    const unsigned char *name_at = f->names ? f->names->data : NULL;
    for (uint64_t i = 0; f->names && i < f->names->n; i++) {
        struct tft_str name = tft_value_next_str(&name_at);
        fputs(i ? "," : "", stdout);
        cli_json_string(stdout, name.p, name.n);
        printf(":%" PRIu64, facts_named_tokens(f, name));
    }
    putchar('}');
    printf(",\"rotation\":{\"values\":%" PRIu64 ",\"ffn_down\":%" PRIu64
           ",\"residual\":%s},\"smooth\":%.6g,\"calibration\":{\"method\":",
           f->rotate_values, f->rotate_down, f->rotate_residual ? "true" : "false",
           isfinite(f->smooth) ? f->smooth : 0);
    cli_json_string(stdout, f->calibration_method.p, f->calibration_method.n);
    json_number("tokens", f->calibration_tokens, true);
    json_number("window", f->calibration_window, true);
    putchar('}');
    json_key("check");
    check_json(&(struct sink){.f = stdout}, f->held_out);
    json_inputs(f);
    putchar('}');
}

static void json_packed(const struct facts *f)
{
    char separator = '{';
    json_key("packed");
    for (uint32_t type = 0; f->packed && type < TENSOR_TYPES; type++)
        if (facts_packed(f, type)) {
            printf("%c\"%s\":%zu", separator, tft_dtype_name(type), facts_packed(f, type));
            separator = ',';
        }
    fputs(!f->packed ? "null" : separator == '{' ? "{}" : "}", stdout);
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

static void json_types(const struct tft_source *s)
{
    struct tensor_total total[TENSOR_TYPES];
    size_t n = tensors_by_type(s, total);
    json_key("types");
    putchar('{');
    for (size_t i = 0; i < n; i++)
        printf("%s\"%s\":{\"tensors\":%zu,\"bytes\":%" PRIu64 "}", i ? "," : "", total[i].type,
               total[i].tensors, total[i].bytes);
    putchar('}');
}

void facts_print_json(const struct facts *f, const char *path)
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
    fputs("{\"file\":", stdout);
    cli_json_string(stdout, path, strlen(path));
    printf(",\"format\":\"%s\"", f->s.version ? "gguf" : "llama2.c");
    json_number("version", f->s.version, true);
    json_number("bytes", tft_source_bytes(&f->s), true);
    json_str("name", f->name);
    json_str("architecture", f->arch);
    json_key("runs");
    fputs(f->runs ? "true" : "false", stdout);
    json_str("why_not", f->runs ? (struct tft_str){0}
                                : (struct tft_str){f->why_not.msg, strlen(f->why_not.msg)});
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_number(numbers[i].key, numbers[i].n, numbers[i].n > 0);
    json_key("bits");
    if (f->bits > 0)
        printf("%.6g", f->bits);
    else
        fputs("null", stdout);
    json_quantized(f);
    json_packed(f);
    json_memory(f);
    json_tokenizer(f);
    if (f->verified) {
        json_key("verified");
        fputs("true", stdout);
    }
    json_text("chat_template", f->chat_template);
    json_text("chat_template_tool_use", f->tool_template);
    json_key("chat_template_drops");
    for (size_t i = 0; i < f->n_chat_drops; i++)
        printf("%s\"%s\"", i ? "," : "[", f->chat_drops[i]);
    fputs(f->n_chat_drops ? "]" : "[]", stdout);
    json_types(&f->s);
    json_key("values");
    values_print_json(&f->s);
    json_key("tensors");
    tensors_print_json(&f->s);
    puts("}");
}
