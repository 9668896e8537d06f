#include "model/identity.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/crc32.h"

enum { SAMPLE = 64 };

/* Continues a CRC over the first, middle and last bytes of a tensor. */
static uint32_t sample(uint32_t crc, const struct tft_tensor *t)
{
    size_t bytes = (size_t)t->bytes, n = bytes < SAMPLE ? bytes : SAMPLE;
    crc = tft_crc32(crc, t->data, n);
    crc = tft_crc32(crc, t->data + (bytes - n) / 2, n);
    return tft_crc32(crc, t->data + bytes - n, n);
}

/* Likewise over the number types of a block's matrices: expanded weights have other ones. */
static uint32_t forms(uint32_t crc, const struct tft_layer *b)
{
    const struct tft_mat *all[] = {&b->reads[0].w, &b->o.w, &b->down.w, &b->experts.down.w};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned char form = all[i]->format ? (unsigned char)all[i]->format->weights : 0;
        crc = tft_crc32(crc, &form, 1);
    }
    return crc;
}

struct tft_identity tft_identity_of(const struct tft_model *m)
{
    const struct tft_source *s = &m->source;
    struct tft_identity id = {.file_bytes = s->size, .weight_bytes = m->weight_bytes};
    id.described = tft_crc32(0, s->data, tft_source_described(s));
    if (s->tokenizer)
        id.described = tft_crc32(id.described, s->tokenizer, s->tokenizer_size);
    for (uint32_t l = 0; l < m->n_layer; l++)
        id.sampled = forms(id.sampled, &m->layer[l]);
    for (size_t i = 0; i < s->n_tensor; i++)
        id.sampled = sample(id.sampled, &s->tensor[i]);
    return id;
}

void tft_model_identity(const struct tft_model *m, char out[TFT_IDENTITY])
{
    struct tft_identity id = tft_identity_of(m);
    snprintf(out, TFT_IDENTITY, "%08" PRIx32 "%08" PRIx32 "%016" PRIx64 "%016" PRIx64, id.described,
             id.sampled, id.file_bytes, id.weight_bytes);
}
