#include "checkpoint.h"

#include "tool.h"

#include <stdlib.h>

static void check_shape(const struct shape *s, const char *path)
{
    const int *v = (const int *)s;
    for (int i = 0; i < 7; i++)
        if (v[i] < 1 || v[i] > 1 << 16)
            die("%s: not a llama2.c checkpoint whose head is the embedding", path);
    if (s->dim % s->heads || s->heads % s->kv_heads || head_dim(s) % 2 || s->vocab > 1 << 15)
        die("%s: the numbers of its header contradict each other", path);
}

float *checkpoint_read(struct shape *s, const char *path)
{
    FILE *f = open_file(path, "rb");
    read_all(f, s, sizeof *s, path);
    check_shape(s, path);
    float *flat = take(params_count(s), sizeof *flat);
    read_all(f, flat, params_count(s) * sizeof *flat, path);
    fclose(f);
    return flat;
}

/* The file ends with the cosines and sines of all positions, which readers skip. */
static void write_rope(const struct shape *s, FILE *f, const char *path)
{
    size_t n = (size_t)s->context * (size_t)head_dim(s) / 2;
    float *table = rope_table(s), *part = take(n, sizeof *part);
    for (size_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++)
            part[i] = table[2 * i + side];
        write_all(f, part, n * sizeof *part, path);
    }
    free(table);
    free(part);
}

void checkpoint_write(const struct shape *s, const float *flat, const char *path)
{
    FILE *f = open_file(path, "wb");
    write_all(f, s, sizeof *s, path);
    write_all(f, flat, params_count(s) * sizeof *flat, path);
    write_rope(s, f, path);
    if (fclose(f))
        die("%s: cannot be written", path);
}
