#define _POSIX_C_SOURCE 200809L
#include "folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "directory.h"
#include "port/thread.h"

#define LOCK "tuffet.lock"
#define DRAFT "tuffet.new"
enum { NAME = 40 };

struct file {
    struct file *next;
    uint64_t number, bytes;
    uint64_t used;      /* nanoseconds since 1970: the time of the file */
    struct trail trail; /* without tokens if the file is not usable */
};

struct waiting {
    struct waiting *next;
    struct image *image;
};

struct folder {
    const char *path;
    struct directory *dir;
    uint64_t most;
    struct image_kind kind;
    struct budget *budget;
    pthread_t thread;
    bool started;
    bool complained; /* that files cannot be written */

    pthread_mutex_t lock; /* of all fields below */
    pthread_cond_t changed;
    struct waiting *queue, **last; /* the thread removes an entry after writing it */
    struct file *all;
    uint64_t bytes, next; /* of all files; the number of the next file */
    bool closing;
};

/* ---- names and files */

static void name_of(uint64_t number, char name[NAME])
{
    snprintf(name, NAME, "tuffet-%016" PRIx64 ".session", number);
}

static bool number_of(const char *name, uint64_t *number)
{
    char own[NAME];
    if (strncmp(name, "tuffet-", 7) != 0)
        return false;
    *number = strtoull(name + 7, NULL, 16);
    name_of(*number, own);
    return strcmp(name, own) == 0 && *number < UINT64_MAX;
}

static int open_file(const struct folder *f, uint64_t number)
{
    char name[NAME];
    name_of(number, name);
    return directory_read(f->dir, name);
}

/* Forgets a file. Under the lock. */
static void forget(struct folder *f, struct file **at)
{
    struct file *old = *at;
    *at = old->next;
    f->bytes -= old->bytes;
    trail_free(&old->trail, f->budget);
    budget_give(f->budget, sizeof *old);
    free(old);
}

/* Deletes a file. Under the lock. */
static void discard(struct folder *f, struct file **at)
{
    char name[NAME];
    name_of((*at)->number, name);
    directory_remove(f->dir, name);
    forget(f, at);
}

/* Deletes the least recently used files until n more bytes fit. Under the lock. */
static bool make_room(struct folder *f, uint64_t n)
{
    if (n > f->most)
        return false;
    while (f->bytes > f->most - n) {
        struct file **oldest = &f->all;
        for (struct file **at = &f->all; *at; at = &(*at)->next)
            if ((*at)->used < (*oldest)->used ||
                ((*at)->used == (*oldest)->used && (*at)->number < (*oldest)->number))
                oldest = at;
        discard(f, oldest);
    }
    return true;
}

/* A new entry for the list. NULL: out of memory. */
static struct file *new_file(struct folder *f)
{
    struct file *new = calloc(1, sizeof *new);
    if (new && budget_take(f->budget, sizeof *new))
        return new;
    free(new);
    return NULL;
}

static void add(struct folder *f, struct file *new)
{
    new->next = f->all;
    f->all = new;
    f->bytes += new->bytes;
    if (new->number >= f->next)
        f->next = new->number + 1;
}

/* ---- the thread that writes */

static int write_all(int fd, const unsigned char *p, size_t n)
{
    enum { PIECE = 1 << 20 };
    while (n) {
        ssize_t done = write(fd, p, n < PIECE ? n : PIECE);
        if (done < 0 && errno != EINTR)
            return errno;
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return directory_sync(fd);
}

/* Returns 0 or an errno. */
static int write_file(const struct folder *f, const struct image *i, uint64_t number)
{
    char name[NAME];
    name_of(number, name);
    directory_remove(f->dir, DRAFT);
    int fd = directory_create(f->dir, DRAFT);
    if (fd < 0)
        return errno;
    int os = write_all(fd, i->data, i->size);
    if (close(fd) != 0 && !os)
        os = errno;
    if (!os)
        os = directory_replace(f->dir, DRAFT, name);
    if (os)
        directory_remove(f->dir, DRAFT);
    return os;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Deletes files if the new file has all their tokens. Under the lock. */
static void discard_covered(struct folder *f, const struct file *by)
{
    for (struct file **at = &f->all; *at;) {
        if (*at != by && (*at)->trail.tokens && trail_covers(&by->trail, &(*at)->trail))
            discard(f, at);
        else
            at = &(*at)->next;
    }
}

/* Writes an image. Under the lock, which it releases while it writes. */
static void put(struct folder *f, const struct image *i)
{
    struct file *new = new_file(f);
    if (!new)
        return;
    *new = (struct file){.number = f->next, .bytes = i->size};
    int os = ENOMEM;
    if (image_copy_trail(&new->trail, i, f->budget) && make_room(f, i->size)) {
        pthread_mutex_unlock(&f->lock);
        os = write_file(f, i, new->number);
        if (os && !f->complained)
            cli_fail("%s: sessions cannot be written: %s", f->path, strerror(os));
        f->complained = os != 0;
        pthread_mutex_lock(&f->lock);
    }
    new->used = now();
    add(f, new);
    if (os)
        forget(f, &f->all);
    else
        discard_covered(f, new);
}

static void *run(void *arg)
{
    struct folder *f = arg;
    pthread_mutex_lock(&f->lock);
    while (f->queue || !f->closing) {
        struct waiting *w = f->queue;
        if (!w) {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        put(f, w->image);
        f->queue = w->next;
        if (!w->next)
            f->last = &f->queue;
        image_drop(w->image);
        free(w);
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

void folder_put(struct folder *f, struct image *i)
{
    struct waiting *w = malloc(sizeof *w);
    if (!w)
        return;
    *w = (struct waiting){.image = image_share(i)};
    pthread_mutex_lock(&f->lock);
    *f->last = w;
    f->last = &w->next;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void folder_wait(struct folder *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->queue)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

/* ---- finding and reading */

struct folder_match folder_find(struct folder *f, const struct trail_prompt *p)
{
    struct folder_match best = {0};
    pthread_mutex_lock(&f->lock);
    for (const struct file *file = f->all; file; file = file->next) {
        size_t common = trail_common(&file->trail, p);
        if (common > best.n)
            best = (struct folder_match){common, file->trail.n_tokens, (size_t)file->bytes,
                                         file->number};
    }
    pthread_mutex_unlock(&f->lock);
    return best;
}

/* Under the lock; *at is NULL if the file is gone. */
static struct file **find_file(struct folder *f, uint64_t number)
{
    struct file **at = &f->all;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static void touch(struct folder *f, uint64_t number, int fd)
{
    pthread_mutex_lock(&f->lock);
    struct file *file = *find_file(f, number);
    if (file)
        file->used = now();
    pthread_mutex_unlock(&f->lock);
    directory_touch(fd); /* an untouched file only looks older to the next server */
}

struct image *folder_read(struct folder *f, uint64_t file)
{
    struct image *i = NULL;
    int fd = open_file(f, file);
    int64_t size = fd < 0 ? -1 : system_size(fd);
    enum image_found found = IMAGE_DAMAGED;
    if (size >= 0)
        found = image_read(&i, fd, (size_t)size, &f->kind, f->budget);
    if (found == IMAGE_GOOD)
        touch(f, file, fd);
    else if (found != IMAGE_NO_ROOM)
        folder_spoiled(f, file);
    if (fd >= 0)
        close(fd);
    return i;
}

void folder_spoiled(struct folder *f, uint64_t file)
{
    char name[NAME];
    name_of(file, name);
    pthread_mutex_lock(&f->lock);
    struct file **at = find_file(f, file);
    bool had = *at;
    if (had)
        discard(f, at);
    pthread_mutex_unlock(&f->lock);
    if (had)
        cli_fail("%s/%s: damaged: it is deleted", f->path, name);
}

void folder_counts(struct folder *f, uint64_t *bytes, size_t *n_files)
{
    pthread_mutex_lock(&f->lock);
    *bytes = f->bytes;
    *n_files = 0;
    for (const struct file *file = f->all; file; file = file->next)
        *n_files += file->trail.tokens != NULL;
    pthread_mutex_unlock(&f->lock);
}

/* ---- opening */

struct listing {
    struct folder *f;
    size_t foreign, other, damaged; /* files that are not used */
    bool full;                      /* out of memory */
};

/* Adds a file to the list, if its name is a cache file's. */
static bool take(void *user, const char *name)
{
    struct listing *u = user;
    struct folder *f = u->f;
    uint64_t number;
    struct system_file st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, LOCK) == 0 ||
        strcmp(name, DRAFT) == 0)
        return true;
    if (!number_of(name, &number) || !directory_find(f->dir, name, &st)) {
        u->foreign++;
        return true;
    }
    struct file *new = new_file(f);
    u->full = !new;
    if (!new)
        return false;
    *new = (struct file){.number = number,
                         .bytes = st.size,
                         .used = (uint64_t)st.seconds * 1000000000 + (uint64_t)st.ns};
    int fd = open_file(f, number);
    enum image_found found =
        fd < 0 ? IMAGE_DAMAGED
               : image_read_trail(&new->trail, fd, (size_t)st.size, &f->kind, f->budget);
    u->other += found == IMAGE_OTHER || found == IMAGE_NO_ROOM;
    u->damaged += found == IMAGE_DAMAGED || found == IMAGE_FOREIGN;
    if (fd >= 0)
        close(fd);
    add(f, new);
    return true;
}

static int list(struct folder *f)
{
    struct listing u = {.f = f};
    int os = directory_list(f->dir, take, &u);
    if (os)
        return cli_fail("%s: cannot be listed: %s", f->path, strerror(os));
    if (u.full)
        return cli_fail("%s: out of memory for its list: give --cache-mem more", f->path);
    if (u.foreign + u.other + u.damaged)
        cli_fail("%s: ignored files: %zu of another model, cache or version, %zu damaged, %zu that "
                 "are not saved sessions",
                 f->path, u.other, u.damaged, u.foreign);
    make_room(f, 0);
    return CLI_OK;
}

/* Opens the folder, and locks it. *busy: another server has it. */
static int open_folder(struct folder *f, bool *busy)
{
    int os = directory_make(f->path);
    if (os)
        return cli_fail("%s: cannot be made: %s", f->path, strerror(os));
    os = directory_open(&f->dir, f->path);
    if (os)
        return cli_fail("%s: cannot be opened: %s", f->path, strerror(os));
    os = directory_lock(f->dir, LOCK);
    *busy = os == EBUSY;
    if (os && !*busy)
        return cli_fail("%s/%s: cannot be written: %s", f->path, LOCK, strerror(os));
    if (*busy)
        cli_fail("%s: another server uses it, or this one by another name: nothing is kept on disk",
                 f->path);
    else
        directory_remove(f->dir, DRAFT);
    return *busy ? CLI_OK : list(f);
}

static int start(struct folder *f)
{
    f->started = tft_port_start(&f->thread, 0, run, f) == 0;
    return f->started ? CLI_OK : cli_fail("a thread cannot be started");
}

int folder_open(struct folder **out, const char *path, uint64_t most, const struct image_kind *k,
                struct budget *b)
{
    bool busy = false;
    struct folder *f = *out = calloc(1, sizeof *f);
    if (!f)
        return cli_fail("out of memory");
    *f = (struct folder){
        .path = path, .most = most, .kind = *k, .budget = b, .next = 1};
    f->last = &f->queue;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    int status = open_folder(f, &busy);
    if (status == CLI_OK && !busy)
        status = start(f);
    if (status != CLI_OK || busy) {
        folder_close(f);
        *out = NULL;
    }
    return status;
}

void folder_close(struct folder *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->closing = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->started)
        pthread_join(f->thread, NULL);
    while (f->all)
        forget(f, &f->all);
    directory_close(f->dir);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
