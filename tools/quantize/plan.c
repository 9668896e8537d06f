#include "tools/quantize/plan.h"

/* In float passes over the calibration text at the machine's peak: 12 minutes on one core of 176
   GFLOP/s, with 8,192 tokens and 1.1 B parameters (tools/lab/accuracy.md). A plain file (--gguf)
   has no prefix, ranges or trials. GPTQ takes 16 minutes more on two cores of 115 GFLOP/s: products
   reach two thirds of the peak, and a third of the time goes into everything else. */
enum { PASSES = 7, PLAIN_PASSES = 3, GPTQ_PASSES = 14 };

/* Of the cache fisher: to calibrate it in a plain file of that model takes 18 minutes of CPU time
   on cores of 95 GFLOP/s, the time of six such passes, with the check at the end. */
enum { FISHER_PASSES = 5 };

static bool has_gptq(const struct tft_model *m, const struct quantize_opts *o)
{
    return o->rounding == QUANTIZE_GPTQ && quantize_low_bits(o, 0, m->n_layer);
}

static double mean_bits(const struct tft_model *m, const struct quantize_opts *o)
{
    size_t n = (size_t)m->n_layer * LAYER_MATS;
    double sum = 0;
    for (size_t i = 0; o->bits && i < n; i++)
        sum += o->bits[i];
    return sum > 0 ? sum / (double)n : 8;
}

/* Bytes of the file: codes, and a twentieth more for scales, norms, the tokenizer and the prefix.
   */
static double file_bytes(const struct tft_model *m, const struct quantize_opts *o, double bits)
{
    double head = (double)m->n_vocab * m->n_embd, params = (double)m->n_params,
           layers = params > head ? params - head : params,
           heads = o->rotate == QUANTIZE_ROTATE_ALL ? 2 * head : head; /* a tied head is untied */
    return 1.05 * (layers * bits / 8 + heads);
}

/* One layer as floats, before and after rounding, with GPTQ once more; and the residual stream of
   the text twice. */
static double memory_bytes(const struct tft_model *m, const struct quantize_opts *o,
                           uint32_t tokens)
{
    double layer = (double)m->n_params / (m->n_layer ? m->n_layer : 1);
    return sizeof(float) * ((2 + has_gptq(m, o)) * layer + 2.0 * tokens * m->n_embd);
}

struct tft_quantize_plan quantize_plan_of(const struct tft_model *m, const struct quantize_opts *o,
                                          uint32_t tokens, bool plain, bool rewrites)
{
    int passes = (plain ? PLAIN_PASSES : PASSES) + GPTQ_PASSES * has_gptq(m, o);
    double file = file_bytes(m, o, mean_bits(m, o)),
           trial = file_bytes(m, o, 8), /* of a prefix, or for a search of bits */
        copies = rewrites ? 2 * file : file;
    return (struct tft_quantize_plan){
        .size = sizeof(struct tft_quantize_plan),
        .operations = 2.0 * passes * (double)m->matmul_macs * tokens,
        .file = (uint64_t)file,
        .disk = (uint64_t)(copies > trial ? copies : trial),
        .memory = (uint64_t)memory_bytes(m, o, tokens),
    };
}

double quantize_plan_fisher(const struct tft_model *m, uint32_t tokens)
{
    return 2.0 * FISHER_PASSES * (double)m->matmul_macs * tokens;
}
