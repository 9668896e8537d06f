/* llama.cpp's /slots: lists the slots; saves, restores and erases their sessions. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chore.h"
#include "fields.h"
#include "lost.h"
#include "native.h"
#include "query.h"

enum { MOST_NAME = 128 };

static struct chore *make(struct exchange *x, enum chore_kind kind, void (*done)(struct chore *c))
{
    struct chore *c = calloc(1, sizeof *c);
    if (!c) {
        reply_error(x, 500, "server_error", "out of memory");
        return NULL;
    }
    c->kind = kind;
    c->done = done;
    c->user = x;
    return c;
}

/* Sends the error of a chore. It begins with the path of a file, or with the end of a long path;
   clients get only the name of the file. */
static void fail(const struct chore *c)
{
    bool ours = c->status == TFT_ERR_NOMEM || c->status == TFT_ERR_IO;
    bool missing = c->status == TFT_ERR_IO && c->err.os == ENOENT && c->kind == CHORE_RESTORE;
    const char *text = *c->err.msg ? c->err.msg : tft_status_text(c->status);
    const char *name = strrchr(c->path, '/'); /* with the slash */
    for (const char *p = text; name && (p = strstr(p, name)) != NULL;)
        text = ++p;
    if (missing)
        reply_error(c->user, 404, "not_found_error", "%s", text);
    else
        reply_error(c->user, ours ? 500 : 400, ours ? "server_error" : "invalid_request_error",
                    "%s", text);
}

static void listed(struct chore *c)
{
    struct exchange *x = c->user;
    lost_watch(&x->lost);
    json_t *all = json_array();
    for (size_t i = 0; i < c->n_slots; i++)
        json_array_append_new(all, json_pack("{s:I, s:b, s:I, s:I}", "id", (json_int_t)i,
                                             "is_processing", (int)c->slots[i].busy, "n_ctx",
                                             (json_int_t)engine_capacity(x->served->engine),
                                             "n_past", (json_int_t)c->slots[i].n_tokens));
    if (c->status == TFT_OK)
        reply_json(x, 200, all);
    else
        fail(c);
    if (c->status != TFT_OK)
        json_decref(all);
    free(c->slots);
    free(c);
}

void native_slots(struct exchange *x)
{
    struct chore *c = make(x, CHORE_LIST, listed);
    if (c)
        engine_do(x->served->engine, c);
}

/* ---- save, restore, erase */

static const char *const actions[] = {
    [CHORE_SAVE] = "save", [CHORE_RESTORE] = "restore", [CHORE_ERASE] = "erase"};

static void acted(struct chore *c)
{
    struct exchange *x = c->user;
    lost_watch(&x->lost);
    json_int_t id = (json_int_t)c->slot, n = (json_int_t)c->n_tokens, bytes = (json_int_t)c->bytes;
    const char *name = strrchr(c->path, '/');
    double ms = c->seconds * 1e3;
    if (c->status != TFT_OK)
        fail(c);
    else if (c->kind == CHORE_SAVE)
        reply_json(x, 200,
                   json_pack("{s:I, s:s, s:I, s:I, s:{s:f}}", "id_slot", id, "filename", name + 1,
                             "n_saved", n, "n_written", bytes, "timings", "save_ms", ms));
    else if (c->kind == CHORE_RESTORE)
        reply_json(x, 200,
                   json_pack("{s:I, s:s, s:I, s:I, s:{s:f}}", "id_slot", id, "filename", name + 1,
                             "n_restored", n, "n_read", bytes, "timings", "restore_ms", ms));
    else
        reply_json(x, 200, json_pack("{s:I, s:I}", "id_slot", id, "n_erased", n));
    free(c);
}

/* The number after "/slots/"; n_slots if there is no valid number. */
static size_t slot_number(const char *path, size_t n_slots)
{
    const char *text = path + strlen("/slots/");
    size_t n = 0;
    if (!*text)
        return n_slots;
    for (; *text >= '0' && *text <= '9' && n < n_slots; text++)
        n = n * 10 + (size_t)(*text - '0');
    return *text || n > n_slots ? n_slots : n;
}

/* Whether a file of that name can only be in --slot-save-path itself. */
static bool is_name(const char *name)
{
    static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strlen(name);
    return n && n <= MOST_NAME && *name != '.' && strspn(name, may) == n;
}

static int kind_of(const char *query)
{
    char action[QUERY_VALUE];
    bool asked = query_value(query, "action", action);
    for (int kind = CHORE_SAVE; kind <= CHORE_ERASE && asked; kind++)
        if (strcmp(action, actions[kind]) == 0)
            return kind;
    return -1;
}

/* Sets the path by `filename`; false after a reply. */
static bool read_path(struct exchange *x, struct chore *c)
{
    struct fields f = {.body = exchange_json(x)};
    const char *folder = x->server->o.slot_folder;
    if (!f.body)
        return false;
    const char *name = field_text(&f, "filename", "");
    bool good = is_name(name);
    if (!folder)
        reply_error(x, 501, "not_supported_error",
                    "slots are only saved if the server has --slot-save-path");
    else if (!good)
        reply_error(x, 400, "invalid_request_error",
                    "filename must be of at most %d letters, digits and ._-, and not begin with a "
                    "dot",
                    MOST_NAME);
    else if (snprintf(c->path, sizeof c->path, "%s/%s", folder, name) >= (int)sizeof c->path)
        reply_error(x, 400, "invalid_request_error", "the path is too long");
    else {
        json_decref(f.body);
        return true;
    }
    json_decref(f.body);
    return false;
}

void native_slot(struct exchange *x)
{
    size_t n_slots = served_slots(x->served, x->server->o.n_slots),
           slot = slot_number(x->path, n_slots);
    int kind = kind_of(x->query);
    if (slot == n_slots) {
        reply_error(x, 404, "not_found_error", "there is no such slot: there are %zu", n_slots);
    } else if (kind < 0) {
        reply_error(x, 400, "invalid_request_error", "?action= must be save, restore or erase");
    } else {
        struct chore *c = make(x, kind, acted);
        if (!c)
            return;
        c->slot = slot;
        c->loras = x->served->loras;
        if (kind != CHORE_ERASE && !read_path(x, c)) {
            free(c);
            return;
        }
        exchange_drop(x);
        engine_do(x->served->engine, c);
    }
}
