#include "tools/quantize/round/pack_low.h"

#include <string.h>

int32_t pack_low_key(const struct tft_low *low)
{
    int32_t bits = low->bits == TFT_BITS_4 ? 4 : low->bits == TFT_BITS_3 ? 3 : 2;
    return bits + 256 * low->group;
}

void pack_low_panel(uint8_t *to, int32_t *rowsum, const struct tft_low *low, const uint8_t *code,
                    size_t stride, const uint8_t *factors, size_t rows, size_t cols)
{
    size_t groups = tft_low_groups(low, cols);
    memset(rowsum, 0, TFT_PANEL * sizeof *rowsum);
    for (size_t g = 0; g < groups; g++, to += tft_low_group_bytes(low)) {
        uint8_t quads[TFT_LOW_MAX_GROUP * TFT_PANEL] = {0};
        size_t first = g * low->group, end = first + low->group < cols ? first + low->group : cols;
        memset(to, pack_low_factors(1, 0), TFT_PANEL);
        for (size_t n = 0; n < rows; n++) {
            uint8_t f = to[n] = factors[n * groups + g];
            for (size_t k = first; k < end; k++) {
                uint8_t c = code[n * stride + k];
                quads[tft_panel_at(n, k - first, low->group)] = c;
                rowsum[n] += pack_low_scale(f) * (c - pack_low_zero(f));
            }
        }
        tft_codes_pack(to + TFT_PANEL, quads, low->bits, low->group / TFT_QUAD);
    }
}
