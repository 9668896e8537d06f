#include "attached.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4 << 20 }; /* bytes: more tokens than any context */

/* Reads at most MOST + 1 bytes: a device has no end. */
static bool read_file(const char *path, struct cli_text *t)
{
    char part[65536];
    size_t got = 1;
    FILE *f = fopen(path, "rb");
    if (!f)
        return cli_fail("%s: %s", path, strerror(errno)) == CLI_OK;
    while (got && t->n <= MOST) {
        got = fread(part, 1, sizeof part, f);
        if (!cli_text_append(t, part, got))
            break;
    }
    bool bad = ferror(f) || (got && t->n <= MOST);
    int err = ferror(f) ? errno : ENOMEM;
    fclose(f);
    if (bad)
        return cli_fail("%s: %s", path, strerror(err)) == CLI_OK;
    return t->n && t->n <= MOST
               ? true
               : cli_fail(t->n ? "%s: the file has more than %d MiB" : "%s: the file is empty",
                          path, MOST >> 20) == CLI_OK;
}

/* Number of tokens; SIZE_MAX after an error message. */
static size_t count(const struct context *x, const struct cli_text *t)
{
    size_t n;
    int32_t *ids = cli_tokenize(x->m, t->p, t->n, TFT_CONTINUE, &n);
    free(ids);
    return ids ? n : SIZE_MAX;
}

/* A blank line comes between files, and before the message. */
static bool append(struct cli_text *to, const struct cli_text *t)
{
    bool line = t->p[t->n - 1] == '\n';
    return cli_text_append(to, t->p, t->n) && cli_text_append(to, "\n\n", line ? 1 : 2);
}

int attached_read(struct conversation *c, const char *path)
{
    struct cli_text t = {0};
    size_t most = tft_capacity(c->x.s), before = c->attached.n;
    size_t n = read_file(path, &t) ? count(&c->x, &t) : SIZE_MAX;
    int status = n == SIZE_MAX ? CLI_FAILED : CLI_OK;
    if (status == CLI_OK && n >= most)
        status = cli_fail("%s: the file has %zu tokens, but the context holds only %zu", path, n,
                          most);
    if (status == CLI_OK && !append(&c->attached, &t)) {
        c->attached.n = before;
        status = cli_fail("out of memory");
    }
    if (status == CLI_OK)
        fprintf(stderr, "%s: %zu tokens, part of the next message\n", path, n);
    free(t.p);
    return status;
}
