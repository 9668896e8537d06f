#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/cli.h"

/* Where the data is in the file. */
static uint64_t offset(const struct tft_source *s, const struct tft_tensor *t)
{
    return (uint64_t)(t->data - s->data);
}

void tensors_print(const struct tft_source *s)
{
    printf("%-8s %-24s %12s %14s  %s\n", "type", "shape", "bytes", "offset", "name");
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        char shape[96] = "";
        for (uint32_t d = 0; d < t->n_dims; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape),
                     d ? " x %" PRIu64 : "%" PRIu64, t->ne[d]);
        printf("%-8s %-24s %12" PRIu64 " %14" PRIu64 "  ", tft_dtype_name(t->type), shape, t->bytes,
               offset(s, t));
        cli_put_escaped(stdout, t->name.p, t->name.n);
        putchar('\n');
    }
}

void tensors_print_json(const struct tft_source *s)
{
    putchar('[');
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        fputs(i ? ",{\"name\":" : "{\"name\":", stdout);
        cli_json_string(stdout, t->name.p, t->name.n);
        printf(",\"type\":\"%s\",\"shape\":", tft_dtype_name(t->type));
        for (uint32_t d = 0; d < t->n_dims; d++)
            printf("%c%" PRIu64, d ? ',' : '[', t->ne[d]);
        printf("],\"bytes\":%" PRIu64 ",\"offset\":%" PRIu64 "}", t->bytes, offset(s, t));
    }
    putchar(']');
}

void tensors_by_type(const struct tft_source *s, struct tensor_total total[TENSOR_TYPES])
{
    memset(total, 0, TENSOR_TYPES * sizeof *total);
    for (size_t i = 0; i < s->n_tensor; i++) {
        total[s->tensor[i].type].tensors++;
        total[s->tensor[i].type].bytes += s->tensor[i].bytes;
    }
}
