#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "folder.h"

struct stored {
    struct stored *next;
    struct image *image;
    uint64_t used;
};

struct store {
    struct budget budget;
    struct image_kind kind;
    struct folder *folder; /* or NULL */
    struct stored *all;
    uint64_t clock;      /* counts uses */
    struct image *found; /* by store_find */
    uint64_t file;       /* number of its file; 0: from memory */
    atomic_size_t n_sessions, n_saved;
};

static void drop(struct store *st, struct stored **at)
{
    struct stored *d = *at;
    *at = d->next;
    image_drop(d->image);
    free(d);
    st->n_sessions--;
}

/* The least recently used session without other owners, so that dropping it frees memory. */
static struct stored **oldest(struct store *st)
{
    struct stored **best = NULL;
    for (struct stored **at = &st->all; *at; at = &(*at)->next)
        if (atomic_load(&(*at)->image->refs) == 1 && (!best || (*at)->used < (*best)->used))
            best = at;
    return best;
}

/* Drops sessions until n more bytes fit the budget. False: not enough can be dropped. */
static bool make_room(struct store *st, size_t n)
{
    struct stored **at;
    if (n > st->budget.most)
        return false;
    while (st->budget.most - atomic_load(&st->budget.held) < n) {
        if ((at = oldest(st)) == NULL)
            return false;
        drop(st, at);
    }
    return true;
}

/* Adds an image and takes its reference. Returns it; NULL: out of memory. */
static struct image *add(struct store *st, struct image *i)
{
    struct stored *d = i ? malloc(sizeof *d) : NULL;
    if (!d) {
        image_drop(i);
        return NULL;
    }
    *d = (struct stored){st->all, i, ++st->clock};
    st->all = d;
    st->n_sessions++;
    return i;
}

int store_open(struct store **out, const struct store_options *o, const struct tft_session *s,
               const struct tft_model *m)
{
    *out = NULL;
    if (!o->memory)
        return CLI_OK;
    struct store *st = *out = calloc(1, sizeof *st);
    if (!st)
        return cli_fail("out of memory");
    st->budget.most = o->memory < SIZE_MAX ? (size_t)o->memory : SIZE_MAX;
    st->kind = image_kind_of(s, m);
    return o->folder ? folder_open(&st->folder, o->folder, o->disk, &st->kind, &st->budget)
                     : CLI_OK;
}

void store_close(struct store *st)
{
    if (!st)
        return;
    folder_close(st->folder);
    while (st->all)
        drop(st, &st->all);
    free(st);
}

/* ---- keeping */

/* Drops sessions if the image has all their tokens. */
static void drop_covered(struct store *st, const struct image *by)
{
    for (struct stored **at = &st->all; *at;) {
        if ((*at)->image != by && trail_covers(&by->trail, &(*at)->image->trail))
            drop(st, at);
        else
            at = &(*at)->next;
    }
}

/* The stored session that has more of the prompt than *most; *most becomes its number of tokens. */
static struct stored *find(const struct store *st, const struct trail_prompt *p, size_t *most)
{
    struct stored *best = NULL;
    for (struct stored *d = st->all; d; d = d->next) {
        size_t common = trail_common(&d->image->trail, p);
        if (common > *most) {
            *most = common;
            best = d;
        }
    }
    return best;
}

/* Whether all but a few of the tokens are stored. */
static bool is_stored(struct store *st, const struct trail_prompt *p)
{
    size_t most = 0;
    find(st, p, &most);
    return most + TRAIL_WORTH >= p->n ||
           (st->folder && folder_find(st->folder, p).n + TRAIL_WORTH >= p->n);
}

uint64_t store_adapted(const struct store *st, const struct tft_session *s, const struct loras *l)
{
    return st ? image_adapted(s, &st->kind, l) : 0;
}

void store_keep(struct store *st, struct tft_session *s, uint64_t adapted, size_t have)
{
    size_t n = tft_pos(s);
    if (!st || have + TRAIL_WORTH >= n || !tft_rewind_keeps(s, n))
        return;
    if (is_stored(st, &(struct trail_prompt){tft_tokens(s), n, adapted}) ||
        !make_room(st, image_bytes(s, &st->kind)))
        return;
    struct image *i = add(st, image_save(s, &st->kind, adapted, &st->budget));
    if (!i)
        return;
    st->n_saved++;
    drop_covered(st, i);
    if (st->folder)
        folder_put(st->folder, i);
}

void store_keep_last(struct store *st, struct tft_session *s, uint64_t adapted)
{
    if (!st || !st->folder)
        return;
    if (st->budget.most - st->budget.held < image_bytes(s, &st->kind))
        folder_wait(st->folder);
    store_keep(st, s, adapted, 0);
}

/* ---- finding and loading */

/* Whether that many tokens are worth loading a session of n tokens. */
static bool is_worth(size_t saved, size_t n) { return saved > TRAIL_WORTH + n / 64; }

/* The image of a file that has more than `have` tokens of the prompt; NULL: none. */
static struct image *fetch(struct store *st, const struct trail_prompt *p, size_t have)
{
    struct folder_match m = {0};
    if (st->folder)
        m = folder_find(st->folder, p);
    if (m.n <= have || !is_worth(m.n - have, m.n_tokens) || !make_room(st, image_taken(m.bytes)))
        return NULL;
    struct image *i = add(st, folder_read(st->folder, m.file));
    if (i)
        st->file = m.file;
    return i;
}

enum store_found store_find(struct store *st, const struct trail_prompt *p, size_t have)
{
    size_t most = have;
    struct stored *d = st ? find(st, p, &most) : NULL;
    if (!st)
        return STORE_NOTHING;
    if (d && !is_worth(most - have, d->image->trail.n_tokens)) {
        d = NULL;
        most = have;
    }
    if (d) {
        d->used = ++st->clock;
        st->found = image_share(d->image); /* so that make_room does not drop it */
        st->file = 0;
    }
    struct image *i = fetch(st, p, most);
    if (i) {
        image_drop(st->found);
        st->found = image_share(i);
    }
    return i ? STORE_DISK : d ? STORE_MEMORY : STORE_NOTHING;
}

bool store_load(struct store *st, struct tft_session *s)
{
    struct image *i = st->found;
    bool good = image_load(i, s);
    st->found = NULL;
    if (!good) {
        struct stored **at = &st->all;
        while (*at && (*at)->image != i)
            at = &(*at)->next;
        if (*at)
            drop(st, at);
        if (st->file)
            folder_spoiled(st->folder, st->file);
    }
    image_drop(i);
    st->file = 0;
    return good;
}

struct store_counts store_counts(struct store *st)
{
    struct store_counts c = {0};
    if (!st)
        return c;
    c.memory = st->budget.held;
    c.n_sessions = st->n_sessions;
    c.n_saved = st->n_saved;
    if (st->folder)
        folder_counts(st->folder, &c.disk, &c.n_files);
    return c;
}
