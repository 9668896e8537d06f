#include <string.h>

#include "base/bytes.h"
#include "unigram.h"

/* The format: u32 bytes of the double array, the double array, the strings. This function checks
   the strings; each use of an index checks the index. */
bool tft_charsmap_read(struct tft_charsmap *map, const unsigned char *data, size_t size)
{
    size_t units = size >= 4 ? tft_load_u32(data) : 0;
    if (size < 4 || units % 4 || units > size - 4)
        return false;
    *map = (struct tft_charsmap){data + 4, (const char *)data + 4 + units, units / 4,
                                 size - 4 - units};
    size_t run = 0;
    for (size_t i = 0; i < map->n_text; i++) {
        run = map->texts[i] ? run + 1 : 0;
        if (run > TFT_CHARSMAP_TEXT)
            return false;
    }
    return !run && map->n_unit;
}

/* ---- a unit of the double array */

static uint32_t unit(const struct tft_charsmap *map, size_t i)
{
    return tft_load_u32(map->units + 4 * i);
}

/* The offset of a unit's children: a child's index is the exclusive or of the unit's index, this
   offset and the child's byte. */
static uint32_t offset(uint32_t u) { return u >> 10 << ((u & 1u << 9) >> 6); }

/* The byte of a unit as a child; not a byte if the unit is a value. */
static uint32_t label(uint32_t u) { return u & (1u << 31 | 0xff); }

const char *tft_charsmap_find(const struct tft_charsmap *map, const char *text, size_t n,
                              size_t *len)
{
    const char *found = NULL;
    uint32_t at = map->n_unit ? offset(unit(map, 0)) : 0;
    for (size_t i = 0; i < n && i < TFT_CHARSMAP_KEY; i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (!byte || at >= map->n_unit || label(unit(map, at)) != byte)
            break;
        uint32_t u = unit(map, at);
        at ^= offset(u);
        if (!(u >> 8 & 1)) /* only longer texts have values */
            continue;
        uint32_t value = at < map->n_unit ? unit(map, at) & ~(1u << 31) : UINT32_MAX;
        if (value >= map->n_text)
            break;
        found = map->texts + value;
        *len = i + 1;
    }
    return found;
}
