#include "oracle/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool oracle_is(const struct oracle *o, const char *arch) { return strcmp(o->arch, arch) == 0; }

bool oracle_is_one(const struct oracle *o, const char *names)
{
    char name[24];
    snprintf(name, sizeof name, " %s ", o->arch);
    return strstr(names, name);
}

double oracle_number(const struct oracle *o, const char *key, double missing)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    double x;
    return v && tft_value_real(v, 0, &x) ? x : missing;
}

bool oracle_flag(const struct oracle *o, const char *key)
{
    char full[96];
    uint64_t is = 0;
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    return v && tft_value_uint(v, 0, &is) && is;
}

bool oracle_text_is(const struct oracle *o, const char *key, const char *text)
{
    char full[96];
    struct tft_str s;
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    return v && tft_value_str(v, &s) && tft_str_is(s, text);
}

double oracle_element(const struct oracle *o, const char *key, size_t l)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    double x = 0;
    tft_value_real(v, v->is_array ? l : 0, &x);
    return x;
}

bool oracle_has_array(const struct oracle *o, const char *key)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    return v && v->is_array;
}

struct matrix oracle_tensor(const struct oracle *o, const char *name)
{
    const struct tft_tensor *t = tft_source_tensor(o->s, name);
    struct matrix m = {0};
    if (!t)
        return m;
    m.cols = (size_t)t->ne[0];
    m.rows = (size_t)(t->ne[1] * t->ne[2] * t->ne[3]);
    size_t n = m.rows * m.cols;
    float *f = malloc(n * sizeof *f);
    m.w = malloc(n * sizeof *m.w);
    tft_dtype_info(t->type)->to_f32(f, t->data, n);
    for (size_t i = 0; i < n; i++)
        m.w[i] = (double)f[i];
    free(f);
    return m;
}

size_t oracle_window_of(const struct oracle *o, size_t l)
{
    if (oracle_is_one(o, " granite_swa mellum mimo2 spark2_5 ") &&
        oracle_has_array(o, "attention.sliding_window_pattern"))
        return oracle_element(o, "attention.sliding_window_pattern", l) != 0
                   ? (size_t)oracle_number(o, "attention.sliding_window", 0)
                   : 0;
    if (oracle_is_one(o, " llama phi3 qwen2 starcoder2 ")) { /* all layers, or none */
        double size = oracle_number(o, "attention.sliding_window", 0);
        return size < oracle_number(o, "context_length", 0) ? (size_t)size : 0;
    }
    if (oracle_is(o, "smallthinker"))
        return l % 4 != 0 ? (size_t)oracle_number(o, "attention.sliding_window", 0) : 0;
    if (oracle_is_one(o, " gemma4 gemma3n "))
        return oracle_element(o, "attention.sliding_window_pattern", l) != 0
                   ? (size_t)oracle_number(o, "attention.sliding_window", 0)
                   : 0;
    if (oracle_is(o, "lfm2") || oracle_is(o, "lfm2moe")) /* all layers with attention */
        return (size_t)oracle_number(o, "attention.sliding_window", 0);
    double window = oracle_number(o, "attention.sliding_window", oracle_is(o, "gemma2") ? 4096 : 0),
           usual = oracle_is_one(o, " gemma2 gpt-oss ") ? 2
                   : oracle_is(o, "gemma3")             ? 6
                   : oracle_is(o, "plamo3")             ? 8
                                                        : 4;
    size_t period = (size_t)oracle_number(o, "attention.sliding_window_pattern", usual);
    bool has = oracle_is_one(o, " gemma2 gemma3 olmo2 exaone4 cohere2 gpt-oss plamo3 mellum "
                                "granite_swa afmoe ");
    return has && (l + 1) % period != 0 ? (size_t)window : 0;
}
