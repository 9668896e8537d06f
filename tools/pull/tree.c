#include "tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "name.h"
#include "tools/cli/cli.h"
#include "tools/json/read.h"

/* Bounds of a list that anyone may have made. */
enum { BODY_MOST = 16 << 20, PAGES_MOST = 1000, FILES_MOST = 100000 };

/* ---- JSON from the hub */

struct body {
    struct cli_text text;
    const char *repo;
};

static uint64_t body_held(void *user)
{
    (void)user;
    return 0;
}

static bool body_begin(void *user, uint64_t at)
{
    struct body *b = user;
    (void)at;
    b->text.n = 0;
    return true;
}

static bool body_take(void *user, const char *p, size_t n)
{
    struct body *b = user;
    if (n <= BODY_MOST - b->text.n && cli_text_append(&b->text, p, n))
        return true;
    cli_fail("%s: the hub's list of files is too long", b->repo);
    return false;
}

/* *json = the reply, which the caller releases. */
static int get_json(struct hub *h, const char *url, const char *repo, json_t **json,
                    char next[PULL_URL])
{
    struct body b = {.repo = repo};
    struct hub_sink sink = {body_held, body_begin, body_take, NULL, &b};
    json_error_t e;
    int status = hub_get(h, url, repo, &sink, next);
    *json = status == CLI_OK ? read_json(b.text.p ? b.text.p : "", b.text.n, 0, &e) : NULL;
    free(b.text.p);
    return status != CLI_OK ? status
           : *json          ? CLI_OK
                            : cli_fail("%s: the hub's reply cannot be read", repo);
}

/* ---- the list */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static int refuse_name(const char *repo, const char *path)
{
    struct cli_text t = {0};
    bool shown = cli_text_escaped(&t, path, strlen(path)) && cli_text_append(&t, "", 1);
    int status =
        cli_fail("%s: refused: it lists a file with the name \"%.200s\"", repo, shown ? t.p : "?");
    free(t.p);
    return status;
}

/* Adds an entry of the list. Large files are named by sha256, small ones as git names them. */
static int add_entry(const json_t *entry, const char *repo, struct pull_files *files)
{
    const json_t *lfs = json_object_get(entry, "lfs"), *from = json_is_object(lfs) ? lfs : entry;
    const char *path = text_of(entry, "path"), *hash = text_of(from, "oid");
    json_int_t size = json_integer_value(json_object_get(from, "size"));
    if (strcmp(text_of(entry, "type"), "file") != 0)
        return CLI_OK;
    if (!pull_path_is_safe(path))
        return refuse_name(repo, path);
    if (!pull_is_hex(hash, from == lfs ? 64 : 40) || size < 0 || files->n >= FILES_MOST)
        return cli_fail("%s: the hub's list of files cannot be read", repo);
    struct pull_file f = {.path = (char *)path, .size = (uint64_t)size};
    strcpy(f.hash, hash);
    return pull_files_add(files, &f) ? CLI_OK : cli_fail("out of memory");
}

static int read_page(struct hub *h, char url[PULL_URL], const char *repo, struct pull_files *files)
{
    json_t *page;
    char next[PULL_URL];
    int status = get_json(h, url, repo, &page, next);
    if (status == CLI_OK && !json_is_array(page))
        status = cli_fail("%s: the hub's list of files cannot be read", repo);
    for (size_t i = 0; status == CLI_OK && i < json_array_size(page); i++)
        status = add_entry(json_array_get(page, i), repo, files);
    json_decref(page);
    strcpy(url, status == CLI_OK ? next : "");
    return status;
}

static int read_commit(struct hub *h, const char *repo, char commit[41])
{
    char url[PULL_URL];
    json_t *about;
    snprintf(url, sizeof url, "%s/api/models/%s", hub_endpoint(h), repo);
    int status = get_json(h, url, repo, &about, NULL);
    const char *sha = text_of(about, "sha");
    if (status == CLI_OK && !pull_is_hex(sha, 40))
        status = cli_fail("%s: the hub names no commit", repo);
    if (status == CLI_OK)
        strcpy(commit, sha);
    json_decref(about);
    return status;
}

int tree_read(struct hub *h, const char *repo, char commit[41], struct pull_files *files)
{
    char url[PULL_URL];
    int status = read_commit(h, repo, commit);
    if (status != CLI_OK)
        return status;
    snprintf(url, sizeof url, "%s/api/models/%s/tree/%s?recursive=true", hub_endpoint(h), repo,
             commit);
    for (int pages = 0; status == CLI_OK && *url; pages++)
        status = pages < PAGES_MOST
                     ? read_page(h, url, repo, files)
                     : cli_fail("%s: the hub's list of files has too many pages", repo);
    return status;
}

/* ---- shards */

/* repo NULL: without a message. */
static int fail_shards(const char *repo, const char *why)
{
    return repo ? cli_fail("%s: %s", repo, why) : CLI_FAILED;
}

static int add_shard(const char *path, const char *repo, const struct pull_files *all,
                     struct pull_files *some)
{
    const struct pull_file *f = pull_files_find(all, path);
    if (pull_files_find(some, path))
        return CLI_OK;
    if (!f)
        return fail_shards(repo, "it lacks a file that model.safetensors.index.json names");
    return pull_files_add(some, f) ? CLI_OK : fail_shards(repo, "out of memory");
}

int tree_add_shards(const char *json, size_t n, const char *repo, const struct pull_files *all,
                    struct pull_files *some)
{
    json_error_t e;
    json_t *index = read_json(json, n, 0, &e), *map = json_object_get(index, "weight_map");
    const char *name;
    json_t *shard;
    int status = json_object_size(map)
                     ? CLI_OK
                     : fail_shards(repo, "model.safetensors.index.json names no file");
    json_object_foreach(map, name, shard)
    {
        const char *path = json_string_value(shard);
        if (status == CLI_OK)
            status = add_shard(path ? path : "", repo, all, some);
    }
    json_decref(index);
    return status;
}
