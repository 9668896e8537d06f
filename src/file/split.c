#include "split.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gguf_read.h"

enum { MOST_PARTS = 4096, ENDING = sizeof "-00001-of-00002.gguf" - 1 };

/* A model that is being joined. */
struct join {
    const struct tft_allocator *allocator;
    struct tft_error *err;
    const char *name; /* of the part that the caller named */
    char *path;       /* [strlen(name) + 1], of the current part */
    struct tft_source *part; /* [n] */
    uint32_t n;
};

static uint64_t number(const struct tft_source *s, const char *key)
{
    const struct tft_value *v = tft_source_value(s, key);
    uint64_t n = 0;
    return v && !v->is_array && tft_value_uint(v, 0, &n) ? n : 0;
}

bool tft_split_is_part(const struct tft_source *s)
{
    return number(s, "split.count") > 1;
}

/* Writes the path of part i over that of another one. Numbers have five digits, since there are at
   most MOST_PARTS parts. */
static void name_part(const struct join *j, uint32_t i)
{
    snprintf(j->path + strlen(j->path) - ENDING, ENDING + 1, "-%05u-of-%05u.gguf",
             (i + 1) % 100000, j->n % 100000);
}

/* The parts find each other by their names. */
static enum tft_status check_name(struct join *j, const struct tft_place *at, uint32_t i)
{
    size_t n = strlen(j->name);
    if (at->where != TFT_AT_PATH)
        return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                        "%s: this is part %u of %u of a model, which opens by a path alone",
                        j->name, i + 1, j->n);
    strcpy(j->path, j->name);
    if (n > ENDING)
        name_part(j, i);
    if (n <= ENDING || strcmp(j->path, j->name) != 0)
        return tft_fail(j->err, TFT_ERR_FORMAT,
                        "%s: this is part %u of %u of a model, but its name does not end in "
                        "-%05u-of-%05u.gguf, so the other parts cannot be found",
                        j->name, i + 1, j->n, i + 1, j->n);
    return TFT_OK;
}

static enum tft_status open_part(struct join *j, uint32_t i)
{
    struct tft_source *s = &j->part[i];
    struct tft_error why;
    name_part(j, i);
    *s = (struct tft_source){.name = j->path, .allocator = j->allocator};
    int os = tft_port_map(&s->map[0], j->path);
    if (os) {
        tft_fail_os(&why, os, j->path, "cannot be read");
        tft_fail(j->err, TFT_ERR_IO, "part %u of %u of the model: %s", i + 1, j->n, why.msg);
        if (j->err)
            j->err->os = os;
        return TFT_ERR_IO;
    }
    s->data = s->map[0].data;
    s->size = s->map[0].size;
    if (s->size < 4 || memcmp(s->data, "GGUF", 4) != 0)
        return tft_fail_at(j->err, TFT_ERR_FORMAT, j->path, 0, "this is not a GGUF file");
    enum tft_status status = tft_gguf_read(s, j->err);
    if (!status && (number(s, "split.count") != j->n || number(s, "split.no") != i))
        return tft_fail(j->err, TFT_ERR_FORMAT, "%s: this is not part %u of %u of %s", j->path,
                        i + 1, j->n, j->name);
    return status;
}

static bool is_of_split(struct tft_str key)
{
    return key.n > 6 && memcmp(key.p, "split.", 6) == 0;
}

/* Makes *s of all parts, which lose their mappings to it. */
static enum tft_status merge(struct tft_source *s, struct join *j)
{
    struct tft_source *first = &j->part[0];
    size_t n_tensor = 0, n_value = 0, in_all = number(first, "split.tensors.count");
    for (uint32_t i = 0; i < j->n; i++)
        n_tensor += j->part[i].n_tensor;
    for (size_t i = 0; i < first->n_value; i++)
        n_value += !is_of_split(first->value[i].key);
    if (in_all && in_all != n_tensor)
        return tft_fail(j->err, TFT_ERR_FORMAT, "%s: its %u parts have %zu tensors, not %zu",
                        first->name, j->n, n_tensor, in_all);
    struct tft_source all = {.name = first->name,
                             .allocator = j->allocator,
                             .version = first->version,
                             .alignment = first->alignment,
                             .data = first->data,
                             .size = first->size};
    struct tft_map *more = tft_alloc(j->allocator, (j->n - 1) * sizeof *more);
    size_t room = strlen(j->name) + 1; /* of all names */
    char *names =
        more ? tft_source_reserve(&all, n_value, n_tensor, (j->n - 1) * room, j->err) : NULL;
    if (!names) {
        tft_free(j->allocator, more, (j->n - 1) * sizeof *more);
        return tft_fail(j->err, TFT_ERR_NOMEM, "%s: out of memory", first->name);
    }
    n_tensor = n_value = 0;
    for (size_t i = 0; i < first->n_value; i++)
        if (!is_of_split(first->value[i].key))
            all.value[n_value++] = first->value[i];
    for (uint32_t i = 0; i < j->n; i++) {
        struct tft_source *p = &j->part[i];
        memcpy(all.tensor + n_tensor, p->tensor, p->n_tensor * sizeof *p->tensor);
        n_tensor += p->n_tensor;
        if (i)
            memcpy(names + (i - 1) * room, p->name, room);
        *(i ? &more[i - 1] : &all.map[0]) = p->map[0];
        p->map[0] = (struct tft_map){0};
    }
    all.more = more;
    all.n_more = j->n - 1;
    all.more_name = names;
    all.more_room = room;
    *s = all;
    return tft_source_index(s, j->err);
}

static enum tft_status join_all(struct tft_source *s, struct join *j, const struct tft_place *at,
                                uint32_t named)
{
    enum tft_status status = check_name(j, at, named);
    for (uint32_t i = 0; i < j->n && !status; i++)
        if (i != named)
            status = open_part(j, i);
    return status ? status : merge(s, j);
}

enum tft_status tft_split_join(struct tft_source *s, const struct tft_place *at,
                               struct tft_error *err)
{
    uint64_t n = number(s, "split.count"), named = number(s, "split.no");
    struct join j = {.allocator = s->allocator, .err = err, .name = at->name, .n = (uint32_t)n};
    size_t length = strlen(at->name) + 1, bytes = (size_t)n * sizeof *j.part;
    struct tft_source one = *s;
    enum tft_status status = TFT_OK;
    *s = (struct tft_source){0};
    if (n > MOST_PARTS || named >= n)
        status = tft_fail(err, TFT_ERR_FORMAT, "%s: it cannot be part %llu of %llu of a model",
                          at->name, (unsigned long long)named + 1, (unsigned long long)n);
    if (!status) {
        j.part = tft_alloc(j.allocator, bytes);
        j.path = tft_alloc(j.allocator, length);
        if (!j.part || !j.path)
            status = tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", at->name);
    }
    if (j.part) {
        memset(j.part, 0, bytes);
        j.part[named] = one;
    } else {
        tft_source_close(&one);
    }
    if (!status)
        status = join_all(s, &j, at, (uint32_t)named);
    for (uint32_t i = 0; i < j.n && j.part; i++)
        tft_source_close(&j.part[i]);
    tft_free(j.allocator, j.part, bytes);
    tft_free(j.allocator, j.path, length);
    if (status)
        tft_source_close(s);
    return status;
}
