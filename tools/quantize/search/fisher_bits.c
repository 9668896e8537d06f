#include "tools/quantize/search/fisher_bits.h"

#include <stdio.h>

#include "base/error.h"

enum { STEPS = 64, LEAST = STEPS / 4, MOST = 4 * STEPS }; /* steps of a bit */

/* to->kv = kv with its bits, to->bytes = its bytes. The text of a valid cache has room for both. */
static enum tft_status look(struct fisher_chosen *to, const struct tft_kv_shape *shape,
                            const char *kv, uint32_t steps, uint32_t depth, struct tft_error *err)
{
    struct tft_kv_policy p;
    int n = snprintf(to->kv, sizeof to->kv, "%s%cbits=%.6g", kv, strpbrk(kv, ":=") ? ',' : ':',
                     (double)steps / STEPS);
    if (n < 0 || (size_t)n >= sizeof to->kv)
        return tft_fail(err, TFT_ERR_ARG, "a KV cache of %d bytes of text is too long", n);
    enum tft_status status = tft_kv_parse(&p, to->kv, err);
    if (status != TFT_OK)
        return status;
    uint64_t block = tft_kv_block_bytes(shape, &p);
    to->bytes = depth ? (double)tft_kv_held_bytes(shape, &p, depth, block) / depth
                      : (double)block / tft_kv_block(&p);
    return TFT_OK;
}

enum tft_status fisher_choose_bits(struct fisher_chosen *to, const struct tft_kv_shape *shape,
                                   const char *kv, struct fisher_budget budget, const char *model,
                                   struct tft_error *err)
{
    uint32_t low = LEAST, high = MOST; /* low fits, if anything does */
    enum tft_status status = look(to, shape, kv, low, budget.depth, err);
    if (status == TFT_OK && to->bytes > budget.bytes)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: the KV cache fisher takes at least %.0f bytes per token, more than "
                        "the budget of %.0f",
                        model, to->bytes, budget.bytes);
    while (status == TFT_OK && low < high) {
        uint32_t middle = high - (high - low) / 2;
        status = look(to, shape, kv, middle, budget.depth, err);
        if (to->bytes <= budget.bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return status == TFT_OK ? look(to, shape, kv, low, budget.depth, err) : status;
}
