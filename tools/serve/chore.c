#define _POSIX_C_SOURCE 200809L
#include "chore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "directory.h"

bool chore_is_ready(const struct chore *c, const struct slot *slots, size_t n_slots)
{
    return c->kind == CHORE_LIST || c->slot >= n_slots || !slots[c->slot].job;
}

static void list(struct chore *c, const struct slot *slots, size_t n_slots)
{
    c->slots = calloc(n_slots + 1, sizeof *c->slots);
    c->n_slots = c->slots ? n_slots : 0;
    c->status = c->slots ? TFT_OK : TFT_ERR_NOMEM;
    for (size_t i = 0; i < c->n_slots; i++) {
        c->slots[i].busy = slots[i].job;
        c->slots[i].n_tokens = slots[i].s ? tft_pos(slots[i].s) : 0;
    }
}

static size_t file_size(const char *path)
{
    struct system_file file;
    return system_find_file(path, &file) ? (size_t)file.size : 0;
}

/* The chore's error: a system call on its file failed with errno `os`. A long path leaves room for
   the reason. */
static enum tft_status fail(struct chore *c, int os, const char *what)
{
    enum { MOST = 100 };
    size_t n = strlen(c->path), skip = n > MOST ? n - MOST : 0;
    c->err = (struct tft_error){.code = TFT_ERR_IO, .os = os};
    snprintf(c->err.msg, sizeof c->err.msg, "%s%.100s: %s: %.100s", skip ? "..." : "",
             c->path + skip, what, strerror(os));
    return c->err.code;
}

static bool write_part(void *user, const void *p, size_t n) { return fwrite(p, 1, n, user) == n; }

/* Writes the session to a new file, on disk when the function returns. */
static enum tft_status write_draft(struct chore *c, const struct tft_session *s, int fd)
{
    FILE *f = fdopen(fd, "wb");
    if (!f) {
        close(fd);
        return fail(c, errno, "cannot be written");
    }
    errno = 0;
    enum tft_status status = tft_session_save_to(s, NULL, write_part, f, &c->err);
    bool whole = status != TFT_ERR_CANCELLED && fflush(f) == 0 && directory_sync(fd) == 0;
    int os = errno;
    if ((fclose(f) != 0 || !whole) && (status == TFT_OK || status == TFT_ERR_CANCELLED))
        status = fail(c, os ? os : EIO, "cannot be written");
    return status;
}

/* A client chooses the name, and others may have put a link into the folder. So the name is never
   opened: a new file replaces it, under a name that clients cannot choose until it is complete. */
static enum tft_status save_in(struct chore *c, const struct tft_session *s,
                               const struct directory *folder, const char *name)
{
    enum { NAME = 256 }; /* most systems' names have at most 255 bytes */
    char draft[NAME];
    if (snprintf(draft, sizeof draft, ".%s.new", name) >= (int)sizeof draft)
        return fail(c, ENAMETOOLONG, "cannot be created");
    directory_remove(folder, draft);
    int fd = directory_create(folder, draft);
    if (fd < 0)
        return fail(c, errno, "cannot be created");
    enum tft_status status = write_draft(c, s, fd);
    int os = status == TFT_OK ? directory_replace(folder, draft, name) : 0;
    if (os)
        status = fail(c, os, "cannot be replaced");
    if (status != TFT_OK)
        directory_remove(folder, draft);
    return status;
}

static void save(struct chore *c, struct slot *s)
{
    char folder[sizeof c->path];
    const char *slash = strrchr(c->path, '/');
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - c->path + 1), c->path);
    struct directory *d = NULL;
    int os = directory_open(&d, folder);
    c->n_tokens = tft_pos(s->s);
    c->status = os ? fail(c, os, "cannot be created") : save_in(c, s->s, d, slash + 1);
    directory_close(d);
    c->bytes = file_size(c->path);
}

static void restore(struct chore *c, struct slot *s)
{
    c->status = tft_session_load(s->s, NULL, c->path, &c->err);
    c->n_tokens = tft_pos(s->s);
    c->bytes = file_size(c->path);
}

static void erase(struct chore *c, struct slot *s)
{
    c->n_tokens = tft_pos(s->s);
    c->status = tft_rewind(s->s, 0);
}

void chore_do(struct chore *c, struct slot *slots, size_t n_slots)
{
    uint64_t start = cli_ns();
    if (c->kind == CHORE_LIST)
        list(c, slots, n_slots);
    else if (c->kind == CHORE_SAVE)
        save(c, &slots[c->slot]);
    else if (c->kind == CHORE_RESTORE)
        restore(c, &slots[c->slot]);
    else
        erase(c, &slots[c->slot]);
    c->seconds = (double)(cli_ns() - start) / 1e9;
}
