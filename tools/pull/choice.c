#define _POSIX_C_SOURCE 200809L
#include "choice.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char end[] = ".gguf", index_name[] = "model.safetensors.index.json";

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Reads five digits. 0: there are no such. */
static unsigned five_digits(const char *p)
{
    unsigned n = 0;
    for (int i = 0; i < 5; i++) {
        if (p[i] < '0' || p[i] > '9')
            return 0;
        n = 10 * n + (unsigned)(p[i] - '0');
    }
    return n;
}

unsigned choice_parts(const char *path, size_t *prefix, unsigned *no)
{
    enum { TAIL = sizeof "-00001-of-00002.gguf" - 1 };
    size_t len = strlen(path);
    const char *tail = len > TAIL ? path + len - TAIL : "";
    *no = *tail == '-' && memcmp(tail + 6, "-of-", 4) == 0 ? five_digits(tail + 1) : 0;
    unsigned n = *no ? five_digits(tail + 10) : 0;
    *prefix = n ? len - TAIL : len - (len > 5 ? 5 : 0);
    *no = n ? *no : 1;
    return n ? n : 1;
}

static bool is_gguf(const char *path)
{
    size_t n = strlen(path), len = sizeof end - 1;
    return n > len && strcasecmp(path + n - len, end) == 0;
}

static bool contains(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (; *text; text++)
        if (strncasecmp(text, word, n) == 0)
            return true;
    return false;
}

/* Files that a model has beside it: projectors of images, statistics, drafts. */
static bool is_beside(const char *name)
{
    static const char *const words[] = {"mmproj",  "imatrix", "mtp-",
                                        "eagle3-", "dflash-", "dspark-"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (contains(name, words[i]))
            return true;
    return false;
}

bool choice_is_model(const char *path)
{
    size_t prefix;
    unsigned no;
    choice_parts(path, &prefix, &no);
    return is_gguf(path) && no == 1 && !is_beside(base_of(path));
}

size_t choice_label(const char *path, const char **label)
{
    size_t prefix;
    unsigned no;
    choice_parts(path, &prefix, &no);
    const char *p = path + prefix, *base = base_of(path);
    while (p > base && p[-1] != '-' && p[-1] != '.')
        p--;
    *label = p;
    return (size_t)(path + prefix - p);
}

/* F16 does not choose BF16. */
bool choice_matches(const char *path, const char *quant)
{
    size_t n = strlen(quant);
    if (strcasecmp(path, quant) == 0)
        return true;
    for (const char *p = path; *p; p++)
        if ((p == path || !isalnum((unsigned char)p[-1])) && strncasecmp(p, quant, n) == 0 &&
            (p[n] == '.' || p[n] == '-'))
            return true;
    return false;
}

static const struct pull_file *find_quant(const struct pull_files *all, const char *quant)
{
    for (size_t i = 0; i < all->n; i++)
        if (choice_is_model(all->p[i].path) && choice_matches(all->p[i].path, quant))
            return &all->p[i];
    return NULL;
}

static size_t count_models(const struct pull_files *all, const struct pull_file **last)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (choice_is_model(all->p[i].path)) {
            *last = &all->p[i];
            n++;
        }
    return n;
}

static enum choice add_parts(const struct pull_files *all, const struct pull_file *first,
                             struct pull_files *some)
{
    size_t prefix, room = strlen(first->path) + 1;
    unsigned no, n = choice_parts(first->path, &prefix, &no);
    char *path = malloc(room);
    enum choice result = path && pull_files_add(some, first) ? CHOICE_GGUF : CHOICE_MEMORY;
    for (unsigned i = 2; i <= n && result == CHOICE_GGUF; i++) {
        /* the end as the first part has it, perhaps in capitals */
        snprintf(path, room, "%.*s-%05u-of-%05u%s", (int)prefix, first->path, i, n,
                 first->path + room - 6);
        const struct pull_file *part = pull_files_find(all, path);
        result = !part ? CHOICE_PARTS : pull_files_add(some, part) ? CHOICE_GGUF : CHOICE_MEMORY;
    }
    free(path);
    return result;
}

/* Whether a path is of a module of sentence-transformers, such as 1_Pooling/config.json. */
static bool is_of_module(const char *path)
{
    size_t n = strspn(path, "0123456789");
    const char *slash = strchr(path, '/');
    return n && path[n] == '_' && slash &&
           (strcmp(slash, "/config.json") == 0 || strcmp(slash, "/model.safetensors") == 0);
}

static bool add_modules(const struct pull_files *all, struct pull_files *some)
{
    for (size_t i = 0; i < all->n && pull_files_find(all, "modules.json"); i++)
        if (is_of_module(all->p[i].path) && !pull_files_add(some, &all->p[i]))
            return false;
    return true;
}

static enum choice add_folder(const struct pull_files *all, struct pull_files *some)
{
    static const char *const names[] = {
        "config.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "generation_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
        "vocab.json",
        "merges.txt",
        "model.safetensors.index.json",
        "modules.json",
        "config_sentence_transformers.json",
    };
    bool indexed = pull_files_find(all, index_name) != NULL;
    const struct pull_file *whole = pull_files_find(all, "model.safetensors");
    if (!pull_files_find(all, "config.json") || !(indexed || whole))
        return CHOICE_NONE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct pull_file *f = pull_files_find(all, names[i]);
        if (f && !pull_files_add(some, f))
            return CHOICE_MEMORY;
    }
    if (!add_modules(all, some) || (!indexed && !pull_files_add(some, whole)))
        return CHOICE_MEMORY;
    return CHOICE_FOLDER;
}

enum choice choice_make(const struct pull_files *all, const char *quant, struct pull_files *some)
{
    const struct pull_file *f = NULL;
    if (*quant) {
        f = find_quant(all, quant);
        return f ? add_parts(all, f, some) : CHOICE_NONE;
    }
    size_t n = count_models(all, &f);
    if (!n)
        return add_folder(all, some);
    const struct pull_file *usual = find_quant(all, "Q4_K_M");
    usual = usual ? usual : find_quant(all, "Q8_0");
    if (!usual && n > 1)
        return CHOICE_MANY;
    return add_parts(all, usual ? usual : f, some);
}
