#include "attached.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"

enum { MOST = 4 << 20 }; /* bytes: more tokens than any context */

/* Which end when others say so: opening a FIFO waits for somebody who writes. */
static bool is_special(const char *path)
{
    struct tft_map map = {0};
    int os = tft_port_map(&map, path);
    tft_port_unmap(&map);
    return os == EINVAL;
}

static bool read_file(const char *path, struct cli_text *t)
{
    if (is_special(path)) {
        cli_fail("%s: is a pipe or a device: name a file", path);
        return false;
    }
    t->p = cli_read_most(path, MOST, &t->n);
    if (t->p && !t->n)
        cli_fail("%s: the file is empty", path);
    return t->p && t->n;
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
