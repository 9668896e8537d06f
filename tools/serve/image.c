#define _POSIX_C_SOURCE 200809L
#include "image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "sha256.h"
#include "tools/cli/system.h"

struct head {
    char magic[8];
    uint32_t version, key;
    uint64_t bytes;
    uint32_t n_tokens, n_marks;
    uint64_t adapted;
    uint32_t least, crc;
};
_Static_assert(sizeof(struct head) == 48, "no padding");
enum { VERSION = 3 };
static const char magic[8] = "TFTKEPT\n";

/* ---- memory */

bool budget_take(struct budget *b, size_t n)
{
    size_t held = atomic_load(&b->held);
    do {
        if (n > b->most || held > b->most - n)
            return false;
    } while (!atomic_compare_exchange_weak(&b->held, &held, held + n));
    return true;
}

void budget_give(struct budget *b, size_t n) { atomic_fetch_sub(&b->held, n); }

/* Whole pages, and the struct that describes them. */
size_t image_taken(size_t size)
{
    size_t page = system_page_size();
    return (size + page - 1) / page * page + sizeof(struct image);
}

static struct image *make(size_t size, struct budget *b)
{
    if (size > SIZE_MAX / 2 || !budget_take(b, image_taken(size)))
        return NULL;
    struct image *i = malloc(sizeof *i);
    void *data = i ? system_pages(size) : NULL;
    if (!data) {
        budget_give(b, image_taken(size));
        free(i);
        return NULL;
    }
    *i = (struct image){.budget = b, .data = data, .size = size};
    atomic_init(&i->refs, 1);
    return i;
}

struct image *image_share(struct image *i)
{
    atomic_fetch_add(&i->refs, 1);
    return i;
}

void image_drop(struct image *i)
{
    if (!i || atomic_fetch_sub(&i->refs, 1) > 1)
        return;
    system_free_pages(i->data, i->size);
    budget_give(i->budget, image_taken(i->size));
    free(i);
}

/* ---- saving and loading */

/* The checksum of an empty session's image: of model, weights, cache, prefix and adapters. Without
   memory for the image, other images will not fit either. */
static uint32_t key_of(const struct tft_session *s)
{
    uint32_t key = 0;
    size_t n = tft_session_save_bytes(s, NULL);
    unsigned char *p = malloc(n);
    if (p && tft_session_save_mem(s, NULL, p, n, NULL) == TFT_OK)
        key = tft_load_u32(p + n - 4);
    free(p);
    return key;
}

struct image_kind image_kind_of(const struct tft_session *s, const struct tft_model *m)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    return (struct image_kind){
        .key = key_of(s), .marked = info.state_bytes > 0, .most_tokens = tft_capacity(s)};
}

/* Clients choose scales, and scales with a given CRC are easily found: not with this hash. */
uint64_t image_adapted(const struct tft_session *s, const struct image_kind *k,
                       const struct loras *l)
{
    struct {
        uint32_t files;
        struct loras loras;
    } of = {key_of(s) ^ k->key, *l};
    unsigned char hash[SHA256_BYTES];
    if (loras_same(l, &(struct loras){0}))
        return 0;
    sha256(&of, sizeof of, hash);
    return tft_load_u64(hash);
}

static uint32_t n_marks(const struct tft_session *s, const struct image_kind *k)
{
    return k->marked ? trail_marks(s, NULL) : 0;
}

static size_t size_of(const struct tft_session *s, const struct image_kind *k)
{
    return sizeof(struct head) + 4 * (tft_pos(s) + n_marks(s, k)) + tft_session_save_bytes(s, NULL);
}

size_t image_bytes(const struct tft_session *s, const struct image_kind *k)
{
    return image_taken(size_of(s, k));
}

static uint32_t checksum(const struct head *h, const void *list)
{
    uint32_t crc = tft_crc32(0, h, offsetof(struct head, crc));
    return tft_crc32(crc, list, 4 * ((size_t)h->n_tokens + h->n_marks));
}

/* Sets the trail from the numbers at `list`. */
static void set_trail(struct trail *t, const struct head *h, const void *list, bool marked)
{
    *t = (struct trail){.tokens = list,
                        .n_tokens = h->n_tokens,
                        .n_marks = h->n_marks,
                        .least = h->least,
                        .adapted = h->adapted,
                        .marked = marked};
    t->marks = (const uint32_t *)list + h->n_tokens;
}

struct image *image_save(struct tft_session *s, const struct image_kind *k, uint64_t adapted,
                         struct budget *b)
{
    /* logits take room, and are computed anyway */
    tft_rewind(s, tft_rewind_keeps(s, tft_pos(s)));
    size_t bytes = size_of(s, k), pos = tft_pos(s);
    struct image *i = make(bytes, b);
    if (!i)
        return NULL;
    struct head h = {.version = VERSION,
                     .key = k->key,
                     .bytes = bytes,
                     .n_tokens = (uint32_t)pos,
                     .n_marks = n_marks(s, k),
                     .least = trail_least(s),
                     .adapted = adapted};
    memcpy(h.magic, magic, sizeof magic);
    unsigned char *list = i->data + sizeof h, *at = list;
    memcpy(at, tft_tokens(s), 4 * pos);
    at += 4 * pos;
    if (k->marked)
        at += 4 * trail_marks(s, (uint32_t *)(void *)at);
    h.crc = checksum(&h, list);
    memcpy(i->data, &h, sizeof h);
    set_trail(&i->trail, &h, list, k->marked);
    if (tft_session_save_mem(s, NULL, at, bytes - (size_t)(at - i->data), NULL) != TFT_OK) {
        image_drop(i);
        return NULL;
    }
    return i;
}

bool image_load(const struct image *i, struct tft_session *s)
{
    size_t at = sizeof(struct head) + 4 * ((size_t)i->trail.n_tokens + i->trail.n_marks);
    return tft_session_load_mem(s, NULL, i->data + at, i->size - at, NULL) == TFT_OK;
}

/* ---- files */

static bool read_all(int fd, void *p, size_t n)
{
    enum { PIECE = 1 << 30 };
    for (unsigned char *at = p; n;) {
        ssize_t got = read(fd, at, n < PIECE ? n : PIECE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static enum image_found read_head(struct head *h, int fd, size_t size, const struct image_kind *k)
{
    if (size < sizeof *h || !read_all(fd, h, sizeof *h) ||
        memcmp(h->magic, magic, sizeof magic) != 0)
        return IMAGE_FOREIGN;
    if (h->version != VERSION || h->key != k->key || h->n_tokens > k->most_tokens)
        return IMAGE_OTHER;
    uint64_t list = 4 * ((uint64_t)h->n_tokens + h->n_marks);
    return h->bytes == size && list <= size - sizeof *h ? IMAGE_GOOD : IMAGE_DAMAGED;
}

enum image_found image_read(struct image **out, int fd, size_t size, const struct image_kind *k,
                            struct budget *b)
{
    struct head h;
    *out = NULL;
    enum image_found found = read_head(&h, fd, size, k);
    if (found != IMAGE_GOOD)
        return found;
    struct image *i = make(size, b);
    if (!i)
        return IMAGE_NO_ROOM;
    unsigned char *list = i->data + sizeof h;
    memcpy(i->data, &h, sizeof h);
    if (!read_all(fd, list, size - sizeof h) || checksum(&h, list) != h.crc) {
        image_drop(i);
        return IMAGE_DAMAGED;
    }
    set_trail(&i->trail, &h, list, k->marked);
    *out = i;
    return IMAGE_GOOD;
}

/* ---- trails without their images */

static size_t trail_bytes(const struct trail *t) { return 4 * ((size_t)t->n_tokens + t->n_marks); }

static void *new_list(size_t bytes, struct budget *b)
{
    if (!budget_take(b, bytes))
        return NULL;
    void *list = malloc(bytes + !bytes);
    if (!list)
        budget_give(b, bytes);
    return list;
}

enum image_found image_read_trail(struct trail *out, int fd, size_t size,
                                  const struct image_kind *k, struct budget *b)
{
    struct head h;
    enum image_found found = read_head(&h, fd, size, k);
    if (found != IMAGE_GOOD)
        return found;
    size_t bytes = 4 * ((size_t)h.n_tokens + h.n_marks);
    void *list = new_list(bytes, b);
    if (!list)
        return IMAGE_NO_ROOM;
    set_trail(out, &h, list, k->marked);
    if (read_all(fd, list, bytes) && checksum(&h, list) == h.crc)
        return IMAGE_GOOD;
    trail_free(out, b);
    return IMAGE_DAMAGED;
}

bool image_copy_trail(struct trail *out, const struct image *i, struct budget *b)
{
    uint32_t *list = new_list(trail_bytes(&i->trail), b);
    if (!list)
        return false;
    memcpy(list, i->trail.tokens, trail_bytes(&i->trail));
    *out = i->trail;
    out->tokens = (const int32_t *)list;
    out->marks = list + i->trail.n_tokens;
    return true;
}

void trail_free(struct trail *t, struct budget *b)
{
    if (!t->tokens)
        return;
    budget_give(b, trail_bytes(t));
    free((void *)(uintptr_t)t->tokens);
    *t = (struct trail){0};
}
