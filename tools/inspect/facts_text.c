/* The facts as text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "facts.h"
#include "tensors.h"
#include "tools/cli/cli.h"
#include "tools/quantize/inside.h"
#include "values.h"

/* In decimal units. */
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
    cli_put_escaped(stdout, s.p, s.n);
    putchar('\n');
}

static void show_text(const char *label, const char *text)
{
    show_str(label, (struct tft_str){text, strlen(text)});
}

static void show_dimensions(const struct facts *f)
{
    const struct {
        const char *before;
        uint64_t n;
        const char *after;
    } all[] = {{"", f->layers, " layers"},   {"width ", f->width, ""},
               {"", f->heads, " heads"},     {"", f->kv_heads, " KV heads"},
               {"head width ", f->head, ""}, {"feed-forward width ", f->feed_forward, ""}};
    bool begun = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].n) {
            if (!begun)
                put_label("dimensions");
            printf("%s%s%" PRIu64 "%s", begun ? ", " : "", all[i].before, all[i].n, all[i].after);
            begun = true;
        }
    if (begun)
        putchar('\n');
    if (f->context) {
        put_label("context");
        printf("%" PRIu64 " tokens\n", f->context);
    }
}

static void show_tensors(const struct facts *f)
{
    struct tensor_total total[TENSOR_TYPES];
    size_t n = tensors_by_type(&f->s, total);
    put_label("tensors");
    printf("%zu", f->s.n_tensor);
    for (size_t i = 0; i < n; i++) {
        printf("%s %zu %s (", i ? "," : ":", total[i].tensors, total[i].type);
        put_bytes(total[i].bytes);
        putchar(')');
    }
    putchar('\n');
    if (f->parameters) {
        put_label("parameters");
        printf("%" PRIu64, f->parameters);
        if (f->bits > 0)
            printf(", %.2f bits each", f->bits);
        putchar('\n');
    }
}

static void show_packed(const struct facts *f)
{
    const char *separator = "packed: ";
    put_label("weights");
    for (uint32_t type = 0; type < TENSOR_TYPES; type++)
        if (facts_packed(f, type)) {
            printf("%s%zu %s", separator, facts_packed(f, type), tft_dtype_name(type));
            separator = ", ";
        }
    putchar('\n');
}

/* Of all layers together. */
static void show_bits(const struct fisher_bits *b, enum tft_kv_which which)
{
    put_label(which == TFT_KV_K ? "  keys" : "  values");
    printf("%.2f bits a channel:", fisher_bits_mean(b, which));
    for (size_t i = 0; i < TFT_FISHER_CHOICES; i++) {
        double sum = 0;
        for (size_t l = 0; l < b->n; l++)
            sum += b->share[which][l * TFT_FISHER_CHOICES + i] / b->n;
        if (sum > 0)
            printf("%s %.0f %% have %u", i ? "," : "", 100 * sum, tft_fisher_choices[i]);
    }
    putchar('\n');
}

static void show_cache(const struct facts *f)
{
    put_label("KV cache");
    printf("%s, %zu bytes a token", f->kv, f->kv_per_token);
    if (f->windows)
        printf("; %" PRIu32 " of %" PRIu32 " layers have windows, in floats", f->windows,
               f->cached);
    putchar('\n');
    for (enum tft_kv_which which = TFT_KV_K; f->fisher.n && which < TFT_KV_SIDES; which++)
        show_bits(&f->fisher, which);
}

static void show_memory(const struct facts *f)
{
    if (!f->encoder)
        show_cache(f);
    put_label("memory");
    put_bytes(f->weights);
    fputs(" for weights", stdout);
    if (f->encoder && f->session) {
        fputs(", ", stdout);
        put_bytes(f->session);
        fputs(" to embed texts", stdout);
    } else if (f->session) {
        fputs(", ", stdout);
        put_bytes(f->session);
        printf(" for a session of %" PRIu32 " tokens", f->session_context);
    } else {
        printf("; a session of %" PRIu32 " tokens is not possible", f->session_context);
    }
    putchar('\n');
}

static void show_rotation(const struct facts *f)
{
    const char *separator = "";
    put_label("rotation");
    if (f->rotate_values) {
        printf("values in blocks of %" PRIu64, f->rotate_values);
        separator = ", ";
    }
    if (f->rotate_down) {
        printf("%sthe input of ffn_down in blocks of %" PRIu64, separator, f->rotate_down);
        separator = ", ";
    }
    if (f->rotate_residual)
        printf("%sthe residual stream", separator);
    puts(f->rotate_values || f->rotate_down || f->rotate_residual ? "" : "none");
}

enum { NATS_SHOWN = 4 };

/* The tensor with the largest loss after tensor `last`, of equal ones the first; n_tensor: none. */
static size_t next_loss(const struct tft_source *s, size_t last)
{
    size_t n = s->n_tensor, next = n;
    double below = last < n ? tensors_nats(s, last) : (double)INFINITY;
    for (size_t i = 0; i < n; i++) {
        double nats = tensors_nats(s, i);
        bool after = nats < below || (nats == below && i > last);
        if (nats > 0 && after && (next == n || nats > tensors_nats(s, next)))
            next = i;
    }
    return next;
}

/* What the search for bits measured. */
static void show_rounding(const struct facts *f)
{
    size_t n = f->s.n_tensor, at = next_loss(&f->s, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += tensors_nats(&f->s, i);
    if (at == n)
        return;
    put_label("rounding");
    printf("%.2g nats expected:", sum);
    for (int i = 0; i < NATS_SHOWN && at < n; i++, at = next_loss(&f->s, at)) {
        struct tft_str name = f->s.tensor[at].name;
        fputs(i ? ", " : " ", stdout);
        cli_put_escaped(stdout, name.p, name.n);
        printf(" %.2g", tensors_nats(&f->s, at));
    }
    puts(at < n ? ", ..." : "");
}

static void show_quantized(const struct facts *f)
{
    if (f->weights_are.n)
        show_str("weights", f->weights_are);
    show_rounding(f);
    put_label("inputs");
    printf("%" PRIu64 " static, %" PRIu64 " per token\n", f->inputs[TFT_RANGE_STATIC],
           f->inputs[TFT_RANGE_TOKEN]);
    show_rotation(f);
    if (f->smooth > 0) {
        put_label("smoothing");
        printf("alpha %g\n", f->smooth);
    }
    put_label("prefix");
    if (f->prefix) {
        cli_put_escaped(stdout, f->prefix_method.p, f->prefix_method.n);
        printf("%s%" PRIu64 " token%s: ", f->prefix_method.n ? ", " : "", f->prefix->n,
               f->prefix->n > 1 ? "s" : "");
        values_print_elements(f->prefix, 8, false);
        if (f->prefix_loss.n)
            fputs("; tuned by ", stdout);
        cli_put_escaped(stdout, f->prefix_loss.p, f->prefix_loss.n);
        putchar('\n');
    } else {
        puts("none");
    }
    const unsigned char *name_at = f->names ? f->names->data : NULL;
    for (uint64_t i = 0; f->names && i < f->names->n; i++) {
        struct tft_str name = tft_value_next_str(&name_at);
        put_label(i ? "" : "with names");
        cli_put_escaped(stdout, name.p, name.n);
        printf(": %" PRIu64 " tokens after it\n", facts_named_tokens(f, name));
    }
    if (f->calibration_method.n) {
        put_label("calibration");
        cli_put_escaped(stdout, f->calibration_method.p, f->calibration_method.n);
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
    cli_put_escaped(stdout, f->vocab.p, f->vocab.n);
    if (f->tokenizer) {
        printf(", %" PRIu32 " tokens", tft_tokenizer_size(f->tokenizer));
        show_token(f, "BOS", tft_tokenizer_bos(f->tokenizer));
        show_token(f, "EOS", tft_tokenizer_eos(f->tokenizer));
    }
    putchar('\n');
}

static void show_templates(const struct facts *f)
{
    const char *plain = f->chat_template ? f->chat_template : "none";
    put_label("chat template");
    cli_put_escaped(stdout, plain, strlen(plain));
    for (size_t i = 0; i < f->n_chat_drops; i++)
        printf("%s%s", i ? ", " : "; drops messages of: ", f->chat_drops[i]);
    fputs("\n", stdout);
    if (f->tool_template)
        show_text("with tools", f->tool_template);
}

void facts_print(const struct facts *f, const char *path)
{
    show_text("file", path);
    put_label("format");
    printf(f->s.version ? "GGUF version %" PRIu32 ", " : "llama2.c, ", f->s.version);
    put_bytes(tft_source_bytes(&f->s));
    putchar('\n');
    if (f->name.n)
        show_str("name", f->name);
    show_str("architecture", f->arch.n ? f->arch : (struct tft_str){"unknown", 7});
    show_dimensions(f);
    show_tensors(f);
    if (f->quantized)
        show_quantized(f);
    if (f->packed)
        show_packed(f);
    if (f->runs)
        show_memory(f);
    show_tokenizer(f);
    show_templates(f);
    if (f->verified)
        show_text("checksum", "correct");
    put_label("runs");
    printf(f->runs ? "yes\n" : "no: %s\n", f->why_not.msg);
    worst_inputs_print(&(struct sink){.f = stdout}, &f->worst_inputs, (uint32_t)f->layers);
    if (f->checked)
        check_print(&(struct sink){.f = stdout}, f->held_out, 0);
}
