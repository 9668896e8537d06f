#define _POSIX_C_SOURCE 200809L
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A variable; NULL if it is unset or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *either(const char *a, const char *b)
{
    return variable(a) ? variable(a) : variable(b);
}

static bool is_true(const char *name)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    const char *value = variable(name);
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

/* As the XDG specification asks, XDG_CACHE_HOME counts as unset unless it is an absolute path. */
static bool in_cache(char out[PULL_PATH], const char *name)
{
    const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    if (cache && *cache == '/')
        return pull_path_print(out, "%s/%s", cache, name);
    return home && pull_path_print(out, "%s/.cache/%s", home, name);
}

static bool in_hf_home(char out[PULL_PATH], const char *name)
{
    char in[64];
    const char *home = variable("HF_HOME");
    if (home)
        return pull_path_print(out, "%s/%s", home, name);
    snprintf(in, sizeof in, "huggingface/%s", name);
    return in_cache(out, in);
}

bool settings_hub_folder(char out[PULL_PATH])
{
    const char *folder = either("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE");
    return folder ? pull_path_print(out, "%s", folder) : in_hf_home(out, "hub");
}

bool settings_llama_folder(char out[PULL_PATH])
{
    const char *folder = variable("LLAMA_CACHE");
    return folder ? pull_path_print(out, "%s", folder) : in_cache(out, "llama.cpp");
}

bool settings_ollama_folder(char out[PULL_PATH])
{
    const char *folder = variable("OLLAMA_MODELS"), *home = variable("HOME");
    if (folder)
        return pull_path_print(out, "%s", folder);
    return home && pull_path_print(out, "%s/.ollama/models", home);
}

bool settings_own_folder(char out[PULL_PATH]) { return in_cache(out, "tuffet/imported"); }

bool settings_endpoint(char out[PULL_PATH])
{
    const char *given = variable("HF_ENDPOINT");
    if (!pull_path_print(out, "%s", given ? given : "https://huggingface.co"))
        return false;
    for (size_t n = strlen(out); n && out[n - 1] == '/'; n--)
        out[n - 1] = 0;
    return strncmp(out, "https://", 8) == 0 || strncmp(out, "http://", 7) == 0;
}

/* The file of the token, which a login writes. Without one, out is empty. */
static void read_token_file(char out[SETTINGS_TOKEN])
{
    char path[PULL_PATH];
    const char *given = variable("HF_TOKEN_PATH");
    bool known = given ? pull_path_print(path, "%s", given) : in_hf_home(path, "token");
    FILE *f = known ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(out, 1, SETTINGS_TOKEN - 1, f) : 0;
    out[n] = 0;
    if (f)
        fclose(f);
}

/* A token becomes part of a header: letters without spaces. */
bool settings_token(char out[SETTINGS_TOKEN])
{
    const char *given = either("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN");
    *out = 0;
    if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return true;
    if (given && strlen(given) >= SETTINGS_TOKEN)
        return false;
    if (given)
        strcpy(out, given);
    else
        read_token_file(out);
    size_t from = strspn(out, " \t\r\n"), n = strcspn(out + from, " \t\r\n");
    if (out[from + n + strspn(out + from + n, " \t\r\n")])
        return false;
    memmove(out, out + from, n);
    out[n] = 0;
    for (size_t i = 0; i < n; i++)
        if (out[i] <= 0x20 || out[i] >= 0x7f)
            return false;
    return true;
}

bool settings_offline(void) { return is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"); }

long settings_patience(void)
{
    const char *given = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    long n = given ? strtol(given, NULL, 10) : 0;
    return n > 0 && n < 86400 ? n : 30;
}
