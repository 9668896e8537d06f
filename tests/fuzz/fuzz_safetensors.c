/* The input is a safetensors file. */
#include "fuzz.h"

#include "blob.h"
#include "tools/import/safetensors.h"

static void walk(const struct safetensors *s)
{
    uint64_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct safetensor *t = &s->tensor[i];
        uint64_t numbers = 1, bytes = t->bytes;
        MUST(t->name && t->dtype && t->n_dims <= SAFETENSORS_DIMS && t->offset == at);
        for (int d = 0; d < SAFETENSORS_DIMS; d++) {
            MUST(d < (int)t->n_dims || t->ne[d] == 1);
            numbers *= t->ne[d];
        }
        MUST(!t->floats || numbers * (t->type == TFT_F32 ? 4 : 2) == bytes);
        touch(s->data + t->offset, (size_t)bytes);
        at += bytes;
    }
    MUST(at == s->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *copy = exact_copy(data, size);
    struct safetensors s;
    struct tft_error err = {0};
    enum tft_status status = safetensors_parse(&s, "m.safetensors", copy, size, &err);
    if (status == TFT_OK)
        walk(&s);
    else
        MUST(err.code == status && strncmp(err.msg, "m.safetensors: ", 15) == 0 &&
             !strchr(err.msg, '\n') &&
             (status == TFT_ERR_FORMAT || status == TFT_ERR_UNSUPPORTED));
    safetensors_close(&s);
    tft_port_free(copy);
    return 0;
}
