#define _POSIX_C_SOURCE 200809L
#include "found.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache.h"
#include "choice.h"
#include "settings.h"
#include "tools/cli/cli.h"
#include "tools/json/read.h"

struct search {
    void (*each)(void *user, const struct found *f);
    void *user;
};

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *e) { return e->d_name[0] != '.'; }

/* Calls f for each name in a folder, in the order of names. Returns CLI_OK or what f returns. */
static int each_name(const char *folder, void *user,
                     int (*f)(void *user, const char *folder, const char *name))
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, is_shown, by_name), status = CLI_OK;
    for (int i = 0; i < n; i++) {
        if (status == CLI_OK)
            status = f(user, folder, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return status;
}

/* ---- repositories in Hugging Face's layout */

struct repository {
    const struct search *search;
    const char *repo, *commit;
    const struct cache *cache;
    char *record; /* or NULL */
};

/* Whether the record has the file of a snapshot. */
static bool is_recorded(const struct repository *r, const char *file)
{
    char line[PULL_PATH];
    bool fits = pull_path_print(line, "snapshots/%s/%s\n", r->commit, file);
    const char *at = fits && r->record ? strstr(r->record, line) : NULL;
    return at && (at == r->record || at[-1] == '\n');
}

static void tell(const struct repository *r, const char *model, const char *file, uint64_t bytes)
{
    char path[PULL_PATH];
    if (!pull_path_print(path, "%s/snapshots/%s%s%s", r->cache->folder, r->commit, file ? "/" : "",
                         file ? file : ""))
        return;
    bool own = is_recorded(r, file ? file : "config.json");
    struct found f = {.model = model,
                      .path = path,
                      .from = own ? "tuffet" : "huggingface",
                      .known = "",
                      .bytes = bytes};
    r->search->each(r->search->user, &f);
}

/* A GGUF file, with its other parts. */
static void tell_file(const struct repository *r, const struct pull_files *all, const char *path)
{
    struct pull_files parts = {0};
    char model[PULL_PATH];
    const char *label;
    size_t n = choice_label(path, &label);
    if (choice_make(all, path, &parts) == CHOICE_GGUF &&
        pull_path_print(model, "hf:%s:%.*s", r->repo, (int)n, label))
        tell(r, model, path, pull_files_size(&parts));
    pull_files_free(&parts);
}

static void tell_all(const struct repository *r, const struct pull_files *all)
{
    struct pull_files some = {0};
    char model[PULL_PATH];
    bool any = false;
    for (size_t i = 0; i < all->n; i++)
        if (choice_is_model(all->p[i].path)) {
            tell_file(r, all, all->p[i].path);
            any = true;
        }
    if (!any && choice_make(all, "", &some) == CHOICE_FOLDER &&
        pull_path_print(model, "hf:%s", r->repo))
        tell(r, model, NULL, pull_files_size(all));
    pull_files_free(&some);
}

static int find_in_repository(void *user, const char *hub, const char *name)
{
    struct cache c;
    struct pull_files all = {0};
    char repo[PULL_REPO], commit[41];
    (void)hub;
    if (!pull_name_of_folder(name, repo) || cache_open(&c, repo, false) != CLI_OK)
        return CLI_OK;
    bool whole = cache_commit(&c, commit);
    int status = whole ? cache_files(&c, commit, &all) : CLI_OK;
    struct repository r = {
        .search = user, .repo = repo, .commit = commit, .cache = &c, .record = cache_record(&c)};
    if (whole && status == CLI_OK)
        tell_all(&r, &all);
    free(r.record);
    pull_files_free(&all);
    cache_close(&c);
    return status;
}

/* ---- llama.cpp's own cache */

static int find_in_llama(void *user, const char *folder, const char *name)
{
    const struct search *s = user;
    char path[PULL_PATH];
    struct stat st;
    if (!choice_is_model(name) || !pull_path_print(path, "%s/%s", folder, name) ||
        stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return CLI_OK;
    struct found f = {.model = path,
                      .path = path,
                      .from = "llama.cpp",
                      .known = "",
                      .bytes = (uint64_t)st.st_size};
    s->each(s->user, &f);
    return CLI_OK;
}

/* ---- ollama: manifests/HOST/NAMESPACE/MODEL/TAG names blobs/sha256-HEX */

struct manifests {
    const struct search *search;
    const char *top; /* the folder of manifests */
    char blobs[PULL_PATH];
    int depth;
};

/* The digest of the layer that is the model, "sha256:HEX"; or "". */
static const char *model_of(const json_t *manifest)
{
    size_t i;
    json_t *layer;
    json_array_foreach(json_object_get(manifest, "layers"), i, layer)
    {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (type && digest && strcmp(type, "application/vnd.ollama.image.model") == 0)
            return digest;
    }
    return "";
}

static json_t *read_manifest(const char *path)
{
    struct stat s;
    size_t n;
    json_error_t e;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size > 1 << 20)
        return NULL;
    char *text = cli_read(path, &n);
    json_t *json = text ? read_json(text, n, 0, &e) : NULL;
    free(text);
    return json;
}

static void tell_manifest(const struct manifests *m, const char *path)
{
    json_t *manifest = read_manifest(path);
    const char *digest = model_of(manifest);
    char blob[PULL_PATH];
    struct stat s;
    if (strncmp(digest, "sha256:", 7) == 0 && pull_is_hex(digest + 7, 64) &&
        pull_path_print(blob, "%s/sha256-%s", m->blobs, digest + 7) && stat(blob, &s) == 0) {
        struct found f = {.model = blob,
                          .path = blob,
                          .from = "ollama",
                          .known = path + strlen(m->top) + 1,
                          .bytes = (uint64_t)s.st_size};
        m->search->each(m->search->user, &f);
    }
    json_decref(manifest);
}

static int find_in_ollama(void *user, const char *folder, const char *name)
{
    struct manifests inside = *(const struct manifests *)user;
    char path[PULL_PATH];
    if (!pull_path_print(path, "%s/%s", folder, name))
        return CLI_OK;
    if (inside.depth == 3) {
        tell_manifest(&inside, path);
        return CLI_OK;
    }
    inside.depth++;
    return each_name(path, &inside, find_in_ollama);
}

int found_each(void (*each)(void *user, const struct found *f), void *user)
{
    struct search s = {each, user};
    char folder[PULL_PATH], top[PULL_PATH];
    struct manifests m = {.search = &s, .top = top};
    int status = CLI_OK;
    if (settings_hub_folder(folder))
        status = each_name(folder, &s, find_in_repository);
    if (status == CLI_OK && settings_llama_folder(folder))
        status = each_name(folder, &s, find_in_llama);
    if (status == CLI_OK && settings_ollama_folder(folder) &&
        pull_path_print(top, "%s/manifests", folder) &&
        pull_path_print(m.blobs, "%s/blobs", folder))
        status = each_name(top, &m, find_in_ollama);
    return status;
}
