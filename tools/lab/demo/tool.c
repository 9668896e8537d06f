#include "tool.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void *take(size_t count, size_t size)
{
    size_t bytes = (count * size + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes ? bytes : 64);
    if (!p)
        die("out of memory: %zu bytes", bytes);
    return memset(p, 0, bytes);
}

FILE *open_file(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);
    if (!f)
        die("%s: cannot be opened", path);
    return f;
}

void read_all(FILE *f, void *out, size_t bytes, const char *path)
{
    if (fread(out, 1, bytes, f) != bytes)
        die("%s: is too short", path);
}

void write_all(FILE *f, const void *data, size_t bytes, const char *path)
{
    if (fwrite(data, 1, bytes, f) != bytes)
        die("%s: cannot be written", path);
}

char *read_text(const char *path, size_t *len)
{
    FILE *f = open_file(path, "rb");
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *text = take(*len + 1, 1);
    read_all(f, text, *len, path);
    fclose(f);
    return text;
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float random_unit(uint64_t *state)
{
    return (float)(random_bits(state) >> 40) * 0x1p-24f;
}

float random_normal(uint64_t *state) /* by Box and Muller */
{
    float u = 1.0f - random_unit(state), v = random_unit(state);
    return sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
}

size_t random_below(uint64_t *state, size_t n)
{
    return (size_t)(random_bits(state) % n);
}
