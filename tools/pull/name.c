#include "name.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* The hub's rules for the name of a user or a repository. "--" separates names in a cache. */
static bool is_part(const char *p, size_t n)
{
    if (!n || n > 96 || *p == '.' || *p == '-' || p[n - 1] == '.' || p[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_word(p[i]) || (i && p[i] == p[i - 1] && (p[i] == '.' || p[i] == '-')))
            return false;
    return true;
}

bool pull_is_name(const char *operand) { return strncmp(operand, "hf:", 3) == 0; }

bool pull_name_read(struct pull_name *n, const char *text)
{
    text += pull_is_name(text) ? 3 : 0;
    size_t user = strcspn(text, "/:"), len = strcspn(text, ":");
    if (text[user] != '/' || len >= sizeof n->repo)
        return false;
    const char *quant = text[len] ? text + len + 1 : "";
    if (!is_part(text, user) || !is_part(text + user + 1, len - user - 1))
        return false;
    if ((text[len] && !pull_path_is_safe(quant)) || strlen(quant) >= sizeof n->quant)
        return false;
    memcpy(n->repo, text, len);
    n->repo[len] = 0;
    strcpy(n->quant, quant);
    return true;
}

void pull_name_folder(const char *repo, char out[PULL_REPO + 16])
{
    size_t user = strcspn(repo, "/");
    snprintf(out, PULL_REPO + 16, "models--%.*s--%s", (int)user, repo, repo + user + 1);
}

bool pull_name_of_folder(const char *folder, char repo[PULL_REPO])
{
    if (strncmp(folder, "models--", 8) != 0 || strlen(folder) >= PULL_REPO)
        return false;
    const char *user = folder + 8, *dashes = strstr(user, "--");
    if (!dashes || !is_part(user, (size_t)(dashes - user)) ||
        !is_part(dashes + 2, strlen(dashes + 2)))
        return false;
    snprintf(repo, PULL_REPO, "%.*s/%s", (int)(dashes - user), user, dashes + 2);
    return true;
}

/* A part of a path between slashes. */
static bool is_safe_part(const char *p, size_t n)
{
    return n && n < 256 && !(n == 1 && *p == '.') && !(n == 2 && p[0] == '.' && p[1] == '.');
}

bool pull_path_is_safe(const char *path)
{
    if (strlen(path) >= 1024)
        return false;
    for (const unsigned char *p = (const unsigned char *)path; *p; p++)
        if (*p < 0x20 || *p == 0x7f || *p == '\\' || (*p == 0xc2 && p[1] < 0xa0)) /* C0, C1 */
            return false;
    for (size_t n;; path += n + 1) {
        n = strcspn(path, "/");
        if (!is_safe_part(path, n))
            return false;
        if (!path[n])
            return true;
    }
}

bool pull_is_hex(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") == n && !text[n];
}

bool pull_path_print(char out[PULL_PATH], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out, PULL_PATH, fmt, args);
    va_end(args);
    return n >= 0 && n < PULL_PATH;
}
