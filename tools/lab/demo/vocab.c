/*
 * teach-vocab TOKENIZER MASS SIZE OUT
 *
 * Writes the teacher's most used pieces as a vocabulary of SIZE pieces.
 *
 * A piece is useful only if merging arrives at it, so a piece is kept together with all pieces that
 * the merges to it pass through. That is enough: merging takes the best pair that exists, and
 * removing pieces that never were the best pair in a text changes nothing for that text. So a text
 * whose tokens are all kept is tokenized as by the teacher.
 */
#include "spm.h"
#include "tool.h"

#include <stdlib.h>
#include <string.h>

struct choice {
    const struct spm *all;
    double *mass;       /* [all->n] */
    int *by_mass;       /* ids, largest mass first */
    unsigned char *kept;
    int n, size;
};

static void read_mass(struct choice *c, const char *path)
{
    FILE *f = open_file(path, "r");
    int token;
    double mass;
    while (fscanf(f, "%d %lf", &token, &mass) == 2)
        if (token >= 0 && token < c->all->n)
            c->mass[token] = mass;
    fclose(f);
}

static const double *sort_mass;

static int more_mass(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    double x = sort_mass[i], y = sort_mass[j];
    return x != y ? (x < y ? 1 : -1) : i - j;
}

static void keep(struct choice *c, int id)
{
    c->n += !c->kept[id];
    c->kept[id] = 1;
}

/* Keeps a piece and those that its merges pass through, if all of them fit. */
static void keep_reachable(struct choice *c, int id)
{
    unsigned char *seen = take((size_t)c->all->n, 1);
    uint16_t *token = take((size_t)c->all->len[id], sizeof *token);
    int n = spm_encode(c->all, c->all->text[id], c->all->len[id], token, seen), missing = 0;
    for (int i = 0; i < c->all->n; i++)
        missing += seen[i] && !c->kept[i];
    if (n == 1 && token[0] == id && c->n + missing <= c->size)
        for (int i = 0; i < c->all->n; i++)
            if (seen[i])
                keep(c, i);
    free(seen);
    free(token);
}

static void choose(struct choice *c)
{
    for (int i = 0; i < ID_PIECE; i++)
        keep(c, i);
    for (char ch = ' '; ch <= '~'; ch++)
        keep(c, spm_find(c->all, &ch, 1));
    for (int i = 0; i < c->all->n; i++)
        c->by_mass[i] = i;
    sort_mass = c->mass;
    qsort(c->by_mass, (size_t)c->all->n, sizeof *c->by_mass, more_mass);
    for (int i = 0; i < c->all->n && c->n < c->size; i++)
        if (c->by_mass[i] >= ID_PIECE && !c->kept[c->by_mass[i]])
            keep_reachable(c, c->by_mass[i]);
    if (c->n != c->size)
        die("only %d pieces can be reached", c->n);
}

static void report(const struct choice *c, const struct spm *out)
{
    double inside = 0, pieces = 0, total = 0;
    for (int i = 0; i < c->all->n; i++) {
        uint16_t token[256];
        inside += c->kept[i] ? c->mass[i] : 0;
        pieces += c->mass[i] *
                  (i < ID_PIECE ? 1
                                : spm_encode(out, c->all->text[i], c->all->len[i], token, NULL));
        total += c->mass[i];
    }
    printf("%d pieces hold %.3f %% of the teacher's probability; a token of the teacher is %.4f "
           "pieces\n",
           out->n, 100 * inside / total, pieces / total);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("usage: teach-vocab TOKENIZER MASS SIZE OUT");
    struct spm all, out;
    spm_read(&all, argv[1]);
    size_t n = (size_t)all.n;
    struct choice c = {.all = &all,
                       .mass = take(n, sizeof(double)),
                       .by_mass = take(n, sizeof(int)),
                       .kept = take(n, 1),
                       .size = atoi(argv[3])};
    read_mass(&c, argv[2]);
    choose(&c);
    int *ids = take((size_t)c.n, sizeof *ids), k = 0;
    for (int i = 0; i < all.n; i++)
        if (c.kept[i])
            ids[k++] = i;
    spm_subset(&out, &all, ids, c.n);
    spm_write(&out, argv[4]);
    report(&c, &out);
    return 0;
}
