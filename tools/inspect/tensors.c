#include "tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/keys.h"
#include "tools/cli/cli.h"
#include "weights/format.h"

/* The file's entry on the codes in tensor i (docs/file-format.md); 0: none. */
static uint32_t codes_of(const struct tft_source *s, size_t i)
{
    const struct tft_value *v = tft_source_value(s, TFT_KEY_WEIGHT_CODES);
    uint64_t code;
    return s->tensor[i].type == TFT_I8 && v && v->is_array && v->n == s->n_tensor &&
                   tft_value_uint(v, i, &code) && code <= UINT16_MAX &&
                   tft_format_low(code & 255, (unsigned)code >> 8)
               ? (uint32_t)code
               : 0;
}

static const char *type_of(const struct tft_source *s, size_t i, char name[TENSOR_TYPE])
{
    uint32_t code = codes_of(s, i);
    if (code)
        snprintf(name, TENSOR_TYPE, "int%u g%u", code & 255, code >> 8 & 255);
    else
        snprintf(name, TENSOR_TYPE, "%s", tft_dtype_name(s->tensor[i].type));
    return name;
}

double tensors_nats(const struct tft_source *s, size_t i)
{
    const struct tft_value *v = tft_source_value(s, TFT_KEY_WEIGHT_NATS);
    double nats = 0;
    return v && v->is_array && v->n == s->n_tensor && tft_value_real(v, i, &nats) && nats > 0 &&
                   isfinite(nats)
               ? nats
               : 0;
}

void tensors_print(const struct tft_source *s)
{
    printf("%-9s %-24s %12s %14s  %s\n", "type", "shape", "bytes", "offset", "name");
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        char shape[96] = "", type[TENSOR_TYPE];
        for (uint32_t d = 0; d < t->n_dims; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape),
                     d ? " x %" PRIu64 : "%" PRIu64, t->ne[d]);
        printf("%-9s %-24s %12" PRIu64 " %14" PRIu64 "  ", type_of(s, i, type), shape, t->bytes,
               tft_source_offset(s, t->data));
        cli_put_escaped(stdout, t->name.p, t->name.n);
        if (tensors_nats(s, i) > 0)
            printf("  %.2g nats", tensors_nats(s, i));
        putchar('\n');
    }
}

void tensors_print_json(const struct tft_source *s)
{
    putchar('[');
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        char type[TENSOR_TYPE];
        fputs(i ? ",{\"name\":" : "{\"name\":", stdout);
        cli_json_string(stdout, t->name.p, t->name.n);
        printf(",\"type\":\"%s\",\"shape\":", type_of(s, i, type));
        for (uint32_t d = 0; d < t->n_dims; d++)
            printf("%c%" PRIu64, d ? ',' : '[', t->ne[d]);
        printf("],\"bytes\":%" PRIu64 ",\"offset\":%" PRIu64, t->bytes,
               tft_source_offset(s, t->data));
        if (tensors_nats(s, i) > 0)
            printf(",\"nats\":%.6g", tensors_nats(s, i));
        putchar('}');
    }
    putchar(']');
}

/* The entry of tensor i's type, inserted if it is new. */
static struct tensor_total *entry(const struct tft_source *s, size_t i, struct tensor_total *total,
                                  size_t *n)
{
    uint32_t order = s->tensor[i].type << 16 | codes_of(s, i);
    size_t at = 0;
    while (at < *n && total[at].order < order)
        at++;
    if (at == *n || total[at].order != order) {
        memmove(total + at + 1, total + at, (*n - at) * sizeof *total);
        total[at] = (struct tensor_total){.order = order};
        type_of(s, i, total[at].type);
        ++*n;
    }
    return &total[at];
}

size_t tensors_by_type(const struct tft_source *s, struct tensor_total total[TENSOR_TYPES])
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_tensor; i++) {
        struct tensor_total *t = entry(s, i, total, &n);
        t->tensors++;
        t->bytes += s->tensor[i].bytes;
    }
    return n;
}

uint64_t tensors_bytes(const struct tft_source *s)
{
    static const char own[] = "tuffet.";
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        if (t->name.n < sizeof own - 1 || memcmp(t->name.p, own, sizeof own - 1) != 0)
            bytes += t->bytes;
    }
    return bytes;
}
