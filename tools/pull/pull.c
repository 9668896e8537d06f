#include "pull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "choice.h"
#include "settings.h"
#include "transfer.h"
#include "tree.h"
#include "tools/cli/cli.h"
#include "tools/cli/system.h"

enum { INDEX_MOST = 16 << 20 }; /* bytes */
static const char index_name[] = "model.safetensors.index.json";

/* A model under way. */
struct job {
    const struct pull_name *name;
    struct hub *hub;
    struct cache cache;
    char commit[41];
    struct pull_files all, some; /* of the repository; of the model */
    struct transfer_bar bar;
};

static void job_close(struct job *j)
{
    cli_progress_end(&j->bar.line);
    pull_files_free(&j->all);
    pull_files_free(&j->some);
    cache_close(&j->cache);
    hub_close(j->hub);
}

/* ----------------------------------------------------------------------------------- the choice */

/* Adds a name to a list of names; false: no more fit. */
static bool add_name(char *list, size_t room, const char *name, size_t len)
{
    size_t n = strlen(list);
    bool fits = len + 8 < room - n;
    snprintf(list + n, room - n, "%s%.*s", n ? ", " : "", fits ? (int)len : 3, fits ? name : "...");
    return fits;
}

/* list = what can be chosen after the name: "Q2_K, Q8_0". */
static void list_choices(const struct pull_files *all, char *list, size_t room)
{
    bool fits = true;
    *list = 0;
    for (size_t i = 0; i < all->n && fits; i++) {
        const char *label;
        if (!choice_is_model(all->p[i].path))
            continue;
        size_t len = choice_label(all->p[i].path, &label);
        fits = add_name(list, room, label, len);
    }
}

static int fail_choice(const struct job *j, enum choice c)
{
    char list[1024];
    const char *repo = j->name->repo, *quant = j->name->quant;
    list_choices(&j->all, list, sizeof list);
    if (c == CHOICE_MEMORY)
        return cli_fail("out of memory");
    if (c == CHOICE_PARTS)
        return cli_fail("%s: a part of the split file is missing", repo);
    if (c == CHOICE_MANY)
        return cli_fail("%s: it has several models, choose one as in %s:NAME: %s", repo, repo,
                        list);
    if (*list)
        return cli_fail("%s: no file has \"%s\" in its name, but there are: %s", repo, quant, list);
    return *quant ? cli_fail("%s: it has no GGUF files: leave \":%s\" out", repo, quant)
                  : cli_fail("%s: it has neither GGUF files nor a folder of safetensors", repo);
}

/* --------------------------------------------------------------------------------- in the cache */

/* Adds the shards that the index of a folder names, which is in the cache. repo: for messages, or
   NULL. */
static int add_shards(struct job *j, const char *repo)
{
    char path[PULL_PATH];
    size_t n;
    const struct pull_file *index = pull_files_find(&j->some, index_name);
    if (!index)
        return CLI_OK;
    if (index->size > INDEX_MOST)
        return repo ? cli_fail("%s: %s is too large", repo, index_name) : CLI_FAILED;
    if (!pull_path_print(path, "%s/snapshots/%s/%s", j->cache.folder, j->commit, index_name))
        return cli_fail("%s: the path is too long", j->cache.folder);
    char *text = cli_read(path, &n);
    int status = text ? tree_add_shards(text, n, repo, &j->all, &j->some) : CLI_FAILED;
    free(text);
    return status;
}

static int set_result(const struct job *j, bool folder, struct pull_result *r)
{
    *r = (struct pull_result){.folder = folder,
                              .files = j->some.n,
                              .bytes = pull_files_size(&j->some),
                              .fetched = j->bar.fetched};
    strcpy(r->commit, j->commit);
    return pull_path_print(r->path, "%s/snapshots/%s%s%s", j->cache.folder, j->commit,
                           folder ? "" : "/", folder ? "" : j->some.p[0].path)
               ? CLI_OK
               : cli_fail("%s: the path is too long", j->cache.folder);
}

bool pull_find(const struct pull_name *n, struct pull_result *r)
{
    struct job j = {.name = n, .cache.fd = -1};
    bool found = cache_open(&j.cache, n->repo, false) == CLI_OK &&
                 cache_commit(&j.cache, j.commit) &&
                 cache_files(&j.cache, j.commit, &j.all) == CLI_OK;
    enum choice c = found ? choice_make(&j.all, n->quant, &j.some) : CHOICE_NONE;
    found = c == CHOICE_GGUF || (c == CHOICE_FOLDER && add_shards(&j, NULL) == CLI_OK);
    found = found && set_result(&j, c == CHOICE_FOLDER, r) == CLI_OK;
    job_close(&j);
    return found;
}

/* --------------------------------------------------------------------------------- from the hub */

/* Whether the disk has room for the bytes that are still to come. */
static int check_room(struct job *j)
{
    uint64_t left, need = 0;
    char path[PULL_PATH];
    for (size_t i = 0; i < j->some.n; i++) {
        uint64_t more = transfer_missing(&j->cache, &j->some.p[i]);
        need = more < UINT64_MAX - need ? need + more : UINT64_MAX;
    }
    j->bar.total = j->bar.done + need;
    if (!pull_path_print(path, "%s/blobs", j->cache.folder) || !system_disk_left(path, &left) ||
        need <= left)
        return CLI_OK;
    return cli_fail("%s: no room: %s takes %.1f GB more, and the disk has %.1f GB", j->cache.folder,
                    j->name->repo, (double)need / 1e9, (double)left / 1e9);
}

/* Fetches the files from this index on, and lets the snapshot lead to them. */
static int fetch_files(struct job *j, size_t from)
{
    int status = check_room(j);
    for (size_t i = from; status == CLI_OK && i < j->some.n; i++) {
        const struct pull_file *f = &j->some.p[i];
        status = transfer_file(j->hub, &j->cache, j->name->repo, j->commit, f, &j->bar);
        if (status == CLI_OK)
            status = cache_link(&j->cache, j->commit, f);
    }
    return status;
}

static int fetch_model(struct job *j, struct pull_result *r)
{
    enum choice c = choice_make(&j->all, j->name->quant, &j->some);
    if (c != CHOICE_GGUF && c != CHOICE_FOLDER)
        return fail_choice(j, c);
    cli_progress_begin(&j->bar.line, j->name->repo);
    int status = fetch_files(j, 0);
    size_t first = j->some.n;
    if (status == CLI_OK && c == CHOICE_FOLDER)
        status = add_shards(j, j->name->repo);
    if (status == CLI_OK && j->some.n > first)
        status = fetch_files(j, first);
    if (status == CLI_OK)
        status = cache_set_commit(&j->cache, j->commit);
    return status == CLI_OK ? set_result(j, c == CHOICE_FOLDER, r) : status;
}

static int fetch_online(const struct pull_name *n, struct pull_result *r)
{
    struct job j = {.name = n, .cache.fd = -1};
    int status = hub_open(&j.hub);
    cli_catch_interrupts();
    if (status == CLI_OK)
        status = tree_read(j.hub, n->repo, j.commit, &j.all);
    if (status == CLI_OK)
        status = cache_open(&j.cache, n->repo, true);
    if (status == CLI_OK)
        status = fetch_model(&j, r);
    job_close(&j);
    cli_release_interrupts();
    return status;
}

int pull_fetch(const struct pull_name *n, struct pull_result *r)
{
    if (!settings_offline())
        return fetch_online(n, r);
    return pull_find(n, r)
               ? CLI_OK
               : cli_fail("%s: it is not here, and HF_HUB_OFFLINE forbids to fetch it", n->repo);
}
