#include "tools/commands/quantize_plan.h"

#include <unistd.h>

#include "tools/bench/limits.h"
#include "tools/cli/system.h"

/* In float passes over the calibration text at the machine's peak: 12 minutes on one core of 176
   GFLOP/s, with 8,192 tokens and 1.1 B parameters (tools/lab/accuracy.md). */
enum { PASSES = 7 };

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
static double file_bytes(const struct tft_model *m, const struct quantize_opts *o)
{
    double head = (double)m->n_vocab * m->n_embd, params = (double)m->n_params,
           layers = params > head ? params - head : params,
           heads = o->rotate == QUANTIZE_ROTATE_ALL ? 2 * head : head; /* a tied head is untied */
    return 1.05 * (layers * mean_bits(m, o) / 8 + heads);
}

/* One layer as floats, before and after rounding, and the residual stream of the text twice. */
static double memory_bytes(const struct tft_model *m, uint32_t tokens)
{
    double layer = (double)m->n_params / (m->n_layer ? m->n_layer : 1);
    return 2 * sizeof(float) * (layer + (double)tokens * m->n_embd);
}

/* Float operations; work of less than SHORT takes seconds. */
#define SHORT 1e12
static double operations(const struct tft_model *m, uint32_t tokens)
{
    return 2 * PASSES * (double)m->matmul_macs * tokens;
}

/* An estimate in seconds; 0: less than a minute, or not known. */
static double seconds(double work, int threads)
{
    struct limits limits;
    bool known = work > SHORT && measure_limits(&limits, threads ? threads : tft_cpu_threads());
    return known && limits.fma_gflops > 0 ? work / limits.fma_gflops / 1e9 : 0;
}

static void print(double time, double file, double memory)
{
    char how_long[48] = "less than a minute";
    if (time > 60)
        snprintf(how_long, sizeof how_long, "about %.0f minutes", time / 60);
    fprintf(stderr,
            "this takes %s, longer with a search or --tune; about %.2f GB of disk, %.2f GB at "
            "the end; about %.2f GB of memory\n",
            how_long, 2 * file / 1e9, file / 1e9, memory / 1e9);
}

int quantize_plan(const struct tft_model *m, const struct quantize_opts *o, const char *out,
                 uint32_t tokens, bool quiet)
{
    uint64_t left;
    double file = file_bytes(m, o), work = operations(m, tokens);
    if (system_disk_left(out, &left) && (double)left < 2 * file)
        return cli_fail("%s: the disk has %.2f GB left, and making the file takes %.2f GB", out,
                        (double)left / 1e9, 2 * file / 1e9);
    if (!quiet && (work > SHORT || system_is_terminal(STDERR_FILENO)))
        print(seconds(work, o->n_threads), file, memory_bytes(m, tokens));
    return CLI_OK;
}
