#include "spm.h"

#include "tool.h"

#include <stdlib.h>
#include <string.h>

static const struct spm *sorting; /* qsort has no context */

static int order(const char *a, int a_len, const char *b, int b_len)
{
    int c = memcmp(a, b, (size_t)(a_len < b_len ? a_len : b_len));
    return c ? c : a_len - b_len;
}

static int by_text(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    return order(sorting->text[i], sorting->len[i], sorting->text[j], sorting->len[j]);
}

static void index_pieces(struct spm *s)
{
    s->sorted = take((size_t)s->n, sizeof *s->sorted);
    for (int i = ID_PIECE; i < s->n; i++)
        s->sorted[i - ID_PIECE] = i;
    sorting = s;
    qsort(s->sorted, (size_t)(s->n - ID_PIECE), sizeof *s->sorted, by_text);
}

static void take_pieces(struct spm *s, int n)
{
    s->n = n;
    s->text = take((size_t)n, sizeof *s->text);
    s->len = take((size_t)n, sizeof *s->len);
    s->score = take((size_t)n, sizeof *s->score);
}

static int count_pieces(FILE *f, const char *path)
{
    int n = 0, len;
    float score;
    while (fread(&score, sizeof score, 1, f) == 1) {
        read_all(f, &len, sizeof len, path);
        if (len < 0 || fseek(f, len, SEEK_CUR))
            die("%s: piece %d has an impossible length", path, n);
        n++;
    }
    if (n < ID_PIECE || n > UINT16_MAX)
        die("%s: has %d pieces", path, n);
    return n;
}

void spm_read(struct spm *s, const char *path)
{
    FILE *f = open_file(path, "rb");
    read_all(f, &s->max_len, sizeof s->max_len, path);
    long first = ftell(f);
    take_pieces(s, count_pieces(f, path));
    fseek(f, first, SEEK_SET);
    for (int i = 0; i < s->n; i++) {
        read_all(f, &s->score[i], sizeof s->score[i], path);
        read_all(f, &s->len[i], sizeof s->len[i], path);
        s->text[i] = take((size_t)s->len[i] + 1, 1);
        read_all(f, s->text[i], (size_t)s->len[i], path);
    }
    fclose(f);
    index_pieces(s);
}

void spm_subset(struct spm *out, const struct spm *s, const int *ids, int n)
{
    take_pieces(out, n);
    out->max_len = 0;
    for (int i = 0; i < n; i++) {
        out->text[i] = s->text[ids[i]];
        out->len[i] = s->len[ids[i]];
        out->score[i] = s->score[ids[i]];
        if (out->max_len < out->len[i])
            out->max_len = out->len[i];
    }
    index_pieces(out);
}

void spm_write(const struct spm *s, const char *path)
{
    FILE *f = open_file(path, "wb");
    write_all(f, &s->max_len, sizeof s->max_len, path);
    for (int i = 0; i < s->n; i++) {
        write_all(f, &s->score[i], sizeof s->score[i], path);
        write_all(f, &s->len[i], sizeof s->len[i], path);
        write_all(f, s->text[i], (size_t)s->len[i], path);
    }
    if (fclose(f))
        die("%s: cannot be written", path);
}

int spm_find(const struct spm *s, const char *text, int len)
{
    int low = 0, high = s->n - ID_PIECE;
    while (low < high) {
        int mid = (low + high) / 2, id = s->sorted[mid];
        int c = order(text, len, s->text[id], s->len[id]);
        if (c == 0)
            return id;
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

static int character_length(const char *text, int len)
{
    int n = 1;
    while (n < len && n < 4 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

struct span { /* a part of the text that is a token so far */
    int at, len, id;
    int merged; /* the piece of it and the next span together, or -1 */
};

static void find_merge(const struct spm *s, const char *text, struct span *span, int i, int n)
{
    span[i].merged = -1;
    if (i + 1 < n && span[i].id >= ID_PIECE && span[i + 1].id >= ID_PIECE)
        span[i].merged = spm_find(s, text + span[i].at, span[i].len + span[i + 1].len);
}

static int split_characters(const struct spm *s, const char *text, int len, struct span *span)
{
    int n = 0;
    for (int at = 0; at < len;) {
        int size = character_length(text + at, len - at), id = spm_find(s, text + at, size);
        if (id >= 0) {
            span[n++] = (struct span){at, size, id, -1};
        } else {
            for (int i = 0; i < size; i++)
                span[n++] = (struct span){at + i, 1, ID_BYTE + (unsigned char)text[at + i], -1};
        }
        at += size;
    }
    return n;
}

static int best_merge(const struct spm *s, const struct span *span, int n)
{
    int best = -1;
    for (int i = 0; i + 1 < n; i++)
        if (span[i].merged >= 0 &&
            (best < 0 || s->score[span[i].merged] > s->score[span[best].merged]))
            best = i;
    return best;
}

int spm_encode(const struct spm *s, const char *text, int len, uint16_t *out, unsigned char *seen)
{
    struct span *span = take((size_t)len + 1, sizeof *span);
    int n = split_characters(s, text, len, span), i;
    for (i = 0; i < n; i++) {
        find_merge(s, text, span, i, n);
        if (seen)
            seen[span[i].id] = 1;
    }
    while ((i = best_merge(s, span, n)) >= 0) {
        span[i].len += span[i + 1].len;
        span[i].id = span[i].merged;
        n--;
        memmove(&span[i + 1], &span[i + 2], (size_t)(n - i - 1) * sizeof *span);
        find_merge(s, text, span, i, n);
        if (i > 0)
            find_merge(s, text, span, i - 1, n);
        if (seen)
            seen[span[i].id] = 1;
    }
    for (i = 0; i < n; i++)
        out[i] = (uint16_t)span[i].id;
    free(span);
    return n;
}
