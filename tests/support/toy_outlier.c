#include "toy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "file/file.h"

/* A tensor's numbers: where they are in the file, and how many rows of how many. */
struct place {
    long at;
    size_t rows, cols;
};

static bool find(const struct tft_source *s, const char *name, struct place *p)
{
    for (uint64_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        if (t->name.n == strlen(name) && memcmp(t->name.p, name, t->name.n) == 0 &&
            t->type == TFT_F32) {
            *p = (struct place){(long)(t->data - (const unsigned char *)s->data),
                                (size_t)t->ne[1], (size_t)t->ne[0]};
            return true;
        }
    }
    return false;
}

static bool put(FILE *f, const struct place *p, size_t row, size_t col, const float *x, size_t n)
{
    return fseek(f, p->at + (long)((row * p->cols + col) * sizeof *x), SEEK_SET) == 0 &&
           fwrite(x, sizeof *x, n, f) == n;
}

bool toy_give_outlier(const char *path, int32_t token)
{
    enum { MOST = 512 };
    struct tft_source s;
    struct place embed, gate, up, down;
    float row[MOST], x[MOST], tiny = 1e-3f;
    double square = 0;
    if (tft_source_open(&s, path, NULL, NULL, NULL) != TFT_OK)
        return false;
    bool good = find(&s, "token_embd.weight", &embed) && find(&s, "blk.0.ffn_gate.weight", &gate) &&
                find(&s, "blk.0.ffn_up.weight", &up) && find(&s, "blk.0.ffn_down.weight", &down) &&
                embed.cols <= MOST && (size_t)token < embed.rows;
    if (good)
        memcpy(row, (const char *)s.data + embed.at + (size_t)token * embed.cols * sizeof *row,
               embed.cols * sizeof *row);
    tft_source_close(&s);
    if (!good)
        return false;

    /* attention adds little to it, so the norm gives nearly x to the feed-forward */
    for (size_t i = 0; i < embed.cols; i++)
        square += (double)row[i] * (double)row[i];
    double rms = sqrt(square / (double)embed.cols);
    for (size_t i = 0; i < embed.cols; i++) {
        x[i] = (float)((double)row[i] / rms * 40 / (double)embed.cols);
        row[i] *= 30;
    }
    FILE *f = fopen(path, "r+b");
    good = f && put(f, &embed, (size_t)token, 0, row, embed.cols) &&
           put(f, &gate, 0, 0, x, embed.cols) && put(f, &up, 0, 0, x, embed.cols);
    for (size_t i = 0; i < down.rows && good; i++)
        good = put(f, &down, i, 0, &tiny, 1);
    if (f && fclose(f))
        good = false;
    return good;
}

enum { MOST_NUMBERS = 4096 }; /* of a matrix */

/* Multiplies the matrix `name` of layer l. */
static bool multiply(const struct tft_source *s, FILE *f, const char *name, int l, float factor)
{
    char key[64];
    struct place p;
    float x[MOST_NUMBERS];
    snprintf(key, sizeof key, "blk.%d.%s.weight", l, name);
    if (!find(s, key, &p) || p.rows * p.cols > MOST_NUMBERS)
        return false;
    memcpy(x, (const char *)s->data + p.at, p.rows * p.cols * sizeof *x);
    for (size_t i = 0; i < p.rows * p.cols; i++)
        x[i] *= factor;
    return put(f, &p, 0, 0, x, p.rows * p.cols);
}

bool toy_enlarge_values(const char *path, float factor)
{
    struct tft_source s;
    if (tft_source_open(&s, path, NULL, NULL, NULL) != TFT_OK)
        return false;
    FILE *f = fopen(path, "r+b");
    bool good = f;
    for (int l = 0; l < 2 && good; l++)
        good = multiply(&s, f, "attn_v", l, factor) &&
               multiply(&s, f, "attn_output", l, 1 / factor);
    if (f && fclose(f))
        good = false;
    tft_source_close(&s);
    return good;
}

/* Of layer l. */
static bool give_bias(const struct tft_source *s, FILE *f, int l, size_t head_dim, float size)
{
    char key[64];
    struct place p;
    snprintf(key, sizeof key, "blk.%d.attn_k.bias", l);
    bool good = find(s, key, &p);
    for (size_t at = head_dim / 2 - 1; good && at < p.cols; at += head_dim / 2)
        good = put(f, &p, 0, at, &size, 1);
    return good;
}

bool toy_give_key_bias(const char *path, uint32_t head_dim, float size)
{
    struct tft_source s;
    if (tft_source_open(&s, path, NULL, NULL, NULL) != TFT_OK)
        return false;
    FILE *f = fopen(path, "r+b");
    bool good = f;
    for (int l = 0; l < 2 && good; l++)
        good = give_bias(&s, f, l, head_dim, size);
    if (f && fclose(f))
        good = false;
    tft_source_close(&s);
    return good;
}
