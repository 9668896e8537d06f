/*
 * For the tests of the program: writes a toy model, or computes a perplexity with the oracle.
 *
 *      toy write FILE [NAME=VALUE]...      the settings are in set()
 *      toy nll FILE IDS CTX FIRST prints the mean of -ln p, and of how many tokens: the ones from
 *      FIRST on in each whole window of CTX tokens
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer_toys.h"
#include "oracle/oracle.h"
#include "toy.h"

static struct toy t = {
    .arch = "llama",
    .n_vocab = TOY_VOCAB,
    .n_ctx = 256,
    .n_embd = 32,
    .n_layer = 2,
    .n_head = 4,
    .n_head_kv = 2,
    .head_dim = 8,
    .n_ff = 64,
    .n_rot = 8,
    .type = TFT_F32,
    .seed = 1,
    .vocab = "llama",
};

/* The usual numbers of qwen35, and a block that predicts a further token. */
static const struct toy_number mtp[] = {
    {"ssm.group_count", TOY_U32, 2},  {"ssm.time_step_rank", TOY_U32, 4},
    {"ssm.state_size", TOY_U32, 32},  {"ssm.inner_size", TOY_U32, 128},
    {"ssm.conv_kernel", TOY_U32, 4},  {"full_attention_interval", TOY_U32, 4},
    {"nextn_predict_layers", TOY_U32, 1}, {0}};

/* gemma4 and qwen35 need more than a name; its settings replace earlier ones. */
static void set_arch(const char *arch)
{
    if (strcmp(arch, "gemma4") == 0) {
        t = layer_toys[0];
        t.n_vocab = TOY_VOCAB;
        t.vocab = "llama";
    }
    bool predicts = strcmp(arch, "qwen35-mtp") == 0;
    if (predicts)
        arch = "qwen35";
    if (strcmp(arch, "qwen35") == 0) { /* three layers with states, and one with attention */
        t.head_dim = 32;
        t.n_layer = 4;
    }
    if (predicts) {
        t.n_layer++;
        t.numbers = mtp;
    }
    t.arch = arch;
}

static int32_t outlier = -1; /* a token */
static float values;         /* a factor; 0: none */

static void set_pooling(const char *type)
{
    static struct toy_number numbers[] = {{"pooling_type", TOY_U32, 0}, {0}};
    numbers[0].x = strtod(type, NULL);
    t.numbers = numbers;
}

/* Blocks of 256 numbers fit all rows but attn_output's. */
static void set_wide(void)
{
    t.n_embd = 256;
    t.n_ff = 512;
}

/* Applies NAME=VALUE to the toy. Returns the exit status: 2 for a wrong argument. */
static int set(const char *arg)
{
    const char *value = strchr(arg, '=');
    size_t n = value ? (size_t)(value++ - arg) : 0;
    char name[16] = "";
    if (!n || n >= sizeof name)
        return 2;
    memcpy(name, arg, n);
    if (strcmp(name, "arch") == 0)
        set_arch(value);
    else if (strcmp(name, "vocab") == 0)
        t.vocab = *value ? value : NULL;
    else if (strcmp(name, "template") == 0)
        t.chat_template = value;
    else if (strcmp(name, "tool_template") == 0)
        t.tool_template = value;
    else if (strcmp(name, "type") == 0)
        t.type = strcmp(value, "q8_0") == 0 ? TFT_Q8_0 : TFT_F32;
    else if (strcmp(name, "ctx") == 0)
        t.n_ctx = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "kv") == 0)
        t.n_head_kv = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "seed") == 0)
        t.seed = strtoul(value, NULL, 10);
    else if (strcmp(name, "tied") == 0)
        t.tied = true;
    else if (strcmp(name, "endless") == 0)
        t.endless = true;
    else if (strcmp(name, "wide") == 0)
        set_wide();
    else if (strcmp(name, "fim") == 0)
        t.fim = true;
    else if (strcmp(name, "uniform") == 0)
        t.uniform = true;
    else if (strcmp(name, "pooling") == 0)
        set_pooling(value);
    else if (strcmp(name, "outlier") == 0)
        outlier = (int32_t)strtol(value, NULL, 10);
    else if (strcmp(name, "values") == 0)
        values = strtof(value, NULL);
    else if (strcmp(name, "adds_eos") == 0)
        t.adds_eos = true;
    else
        return 2;
    return 0;
}

static int write_toy(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (set(argv[i]) != 0)
            return 2;
    bool good = toy_write(&t, argv[0]) &&
                (outlier < 0 || toy_give_outlier(argv[0], outlier)) &&
                (values == 0 || toy_enlarge_values(argv[0], values));
    return good ? 0 : 1;
}

/* -ln p of a token. */
static double neg_log_prob(const double *logits, uint32_t n, uint32_t token)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp(logits[i] - logits[token]);
    return log(sum);
}

static int nll(char **argv)
{
    struct tft_source s;
    uint32_t ctx = (uint32_t)strtoul(argv[2], NULL, 10),
             first = (uint32_t)strtoul(argv[3], NULL, 10), n = 0, scored = 0;
    static int32_t ids[1 << 16];
    for (char *p = argv[1], *end; *p && n < 1 << 16; p = end)
        ids[n++] = (int32_t)strtol(p, &end, 10);
    if (tft_source_open(&s, argv[0], NULL, NULL, NULL) != TFT_OK)
        return 1;
    double sum = 0;
    for (uint32_t at = 0; at + ctx <= n; at += ctx) {
        struct oracle *o = oracle_open(&s, ctx);
        if (!o)
            return 1;
        for (uint32_t i = 0; i + 1 < ctx; i++) {
            const double *logits = oracle_step(o, ids[at + i]);
            if (i + 1 >= first) {
                sum += neg_log_prob(logits, oracle_vocab(o), (uint32_t)ids[at + i + 1]);
                scored++;
            }
        }
        oracle_close(o);
    }
    tft_source_close(&s);
    printf("%.9f %u\n", sum / scored, scored);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "write") == 0)
        return write_toy(argc - 2, argv + 2);
    if (argc == 6 && strcmp(argv[1], "nll") == 0)
        return nll(argv + 2);
    return 2;
}
