/* Vocabularies that the input of a fuzz target makes up. */
#ifndef TFT_FUZZ_VOCAB_H
#define TFT_FUZZ_VOCAB_H

#include <math.h>

#include "values.h"
#include "fuzz.h"
#include "text/vocab.h"

static struct values values;

struct input {
    const uint8_t *p;
    size_t n;
};

static unsigned take(struct input *in)
{
    if (!in->n)
        return 0;
    in->n--;
    return *in->p++;
}

static void take_string(struct input *in, size_t most)
{
    size_t n = take(in) % (most + 1);
    n = n < in->n ? n : in->n;
    values_put_str(&values, (const char *)in->p, n);
    in->p += n;
    in->n -= n;
}

/* An array, sometimes with a wrong type or length. */
static size_t start_array(struct input *in, const char *key, enum tft_value_type type, size_t n)
{
    unsigned odd = take(in);
    n = odd % 32 == 1 ? n + 1 : odd % 32 == 2 && n ? n - 1 : n;
    values_key(&values, key, odd % 32 == 3 ? TFT_VALUE_U8 : type, odd % 32 != 4,
               odd % 32 == 4 ? 1 : n);
    return n ? n : odd % 32 == 4;
}

static void make_numbers(struct input *in, const char *key, enum tft_value_type type, size_t n,
                         int low, unsigned range)
{
    n = start_array(in, key, type, n);
    for (size_t i = 0; i < n; i++) {
        float f = (float)((int)(take(in) % range) + low);
        uint32_t bits = (uint32_t)(int32_t)f;
        if (type == TFT_VALUE_F32)
            memcpy(&bits, &(float){f == 42 ? NAN : f}, 4);
        values_put_u32(&values, bits);
    }
}

static void make_strings(struct input *in, const char *key, size_t n, size_t most)
{
    n = start_array(in, key, TFT_VALUE_STRING, n);
    for (size_t i = 0; i < n; i++)
        take_string(in, most);
}

static void make_id(struct input *in, const char *key)
{
    unsigned id = take(in);
    if (id < 128)
        values_u32(&values, key, id);
    else if (id == 128)
        values_str(&values, key, "1");
}

static void make_bool(struct input *in, const char *key)
{
    unsigned b = take(in) % 8;
    if (b < 2)
        values_bool(&values, key, b);
    else if (b == 2)
        values_u32(&values, key, 2);
}

/* A double array of any units, and strings. */
static void make_charsmap(struct input *in)
{
    unsigned n = take(in) % 48;
    unsigned char bytes[4 + 4 * 48 + 8] = {(unsigned char)(4 * n)};
    if (!n)
        return;
    for (unsigned i = 4; i < 4 + 4 * n + 7; i++)
        bytes[i] = (unsigned char)take(in);
    values_u8s(&values, "tokenizer.ggml.precompiled_charsmap", bytes, 4 + 4 * n + 8);
}

static void make_up(struct input *in)
{
    static const char *const pre[] = {"gpt-2",        "starcoder", "llama3",
                                      "deepseek-llm", "falcon",    "gpt-4o"};
    unsigned kind = take(in);
    size_t n = 1 + take(in) % 80;
    static const char *const model[] = {"gpt2", "llama", "t5", "llama", "gemma4", "t5"};
    values_str(&values, "tokenizer.ggml.model",
               kind == 253 ? "rwkv" : kind >= 248 ? "bert" : model[kind % 6]);
    if (kind / 2 % 8 < 6)
        values_str(&values, "tokenizer.ggml.pre", pre[kind / 2 % 8]);
    make_strings(in, "tokenizer.ggml.tokens", n, 12);
    if (kind < 192)
        make_numbers(in, "tokenizer.ggml.token_type", TFT_VALUE_I32, n, 1, kind % 32 ? 6 : 7);
    make_numbers(in, "tokenizer.ggml.scores", TFT_VALUE_F32, n, -8, kind % 32 ? 16 : 64);
    make_strings(in, "tokenizer.ggml.merges", take(in) % 24, 16);
    make_id(in, "tokenizer.ggml.bos_token_id");
    make_id(in, "tokenizer.ggml.eos_token_id");
    make_id(in, "tokenizer.ggml.unknown_token_id");
    make_id(in, "tokenizer.ggml.eot_token_id");
    make_bool(in, "tokenizer.ggml.add_bos_token");
    make_bool(in, "tokenizer.ggml.add_space_prefix");
    make_bool(in, "tokenizer.ggml.remove_extra_whitespaces");
    make_charsmap(in);
    if (kind >= 248) {
        make_id(in, "tokenizer.ggml.cls_token_id");
        make_id(in, "tokenizer.ggml.seperator_token_id");
        make_bool(in, "tokenizer.ggml.normalizer.lowercase");
        make_bool(in, "tokenizer.ggml.normalizer.strip_accents");
    }
    make_bool(in, "tokenizer.ggml.add_eos_token");
    make_bool(in, "tokenizer.ggml.add_sep_token");
    if (take(in) % 4 != 1)
        return;
    make_numbers(in, "tokenizer.tuffet.normalized", TFT_VALUE_I32, take(in) % 8, 0, (unsigned)n);
    make_numbers(in, "tokenizer.tuffet.normalized_with_space", TFT_VALUE_I32, take(in) % 8, 0,
                 (unsigned)n + 1);
    make_bool(in, "tokenizer.tuffet.strip_left");
    make_bool(in, "tokenizer.tuffet.strip_right");
}

#endif
