#define _POSIX_C_SOURCE 200809L
#include "served.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "directory.h"
#include "tools/cli/cli.h"

/* ---- for lists */

/* 64 hex digits, which name the same file in all runs. Clients show the first 12. */
static void read_digest(struct served *s)
{
    char id[TFT_IDENTITY];
    tft_model_identity(s->m, id);
    snprintf(s->digest, sizeof s->digest, "%s%016llx", id, (unsigned long long)s->info.n_params);
}

static void read_file(struct served *s)
{
    if (!system_find_file(s->path, &s->file))
        return;
    s->bytes = s->file.size;
    s->modified = s->file.seconds;
}

bool served_is_same_file(const struct served *s)
{
    struct system_file now;
    return system_find_file(s->path, &now) &&
           memcmp(&now, &s->file, sizeof now) == 0; /* it has no padding */
}

static void describe(struct served *s)
{
    s->info = (struct tft_model_info){.size = sizeof s->info};
    tft_model_describe(s->m, &s->info);
    snprintf(s->arch, sizeof s->arch, "%s", s->info.arch);
    s->info.arch = s->info.name = s->info.kv = NULL; /* the model's, which may be closed */
    if (*s->digest)
        return;
    const char *jinja = tft_model_chat_template(s->m);
    s->jinja = jinja ? strdup(jinja) : NULL;
    read_digest(s);
}

/* Without a template, there is no chat. One model says so when the server starts. */
static void choose_templates(struct served *s, bool several)
{
    if (several && !template_given() && !tft_model_chat_template(s->m))
        return;
    if (!pooling_is_all(s->m, s->pooling)) /* which writes no text */
        s->template = template_choose(s->m, s->path, false);
    s->tool_template =
        template_has_tool_use(s->m) ? template_choose(s->m, s->path, true) : s->template;
    s->calls = s->tool_template;
    s->thinks = s->template && template_thinks(s->template);
}

int served_peek(struct served *s, const char *pooling)
{
    const char *how = s->own.pooling ? s->own.pooling : pooling;
    int status = cli_open_model(&s->m, s->path, true);
    if (status == CLI_OK && !pooling_choose(&s->pooling, how, s->m))
        status = CLI_USAGE;
    if (status == CLI_OK) {
        read_file(s);
        describe(s);
        choose_templates(s, true);
    }
    served_close(s);
    return status;
}

/* ---- opening */

/* Of several models, --ctx is for all: one with a shorter context has its own. */
static uint32_t ctx_of(const struct served *s, const struct served_options *o)
{
    bool shorter = o->several && cli_session_options.ctx > s->info.n_ctx;
    return s->own.ctx ? s->own.ctx : shorter ? s->info.n_ctx : 0;
}

/* Sessions of several models are in folders of the folder, by the model's identity, and also by
   its name if it is of the file of --config: two sections may have one model, with other caches. */
static int open_engine(struct served *s, const struct served_options *o)
{
    struct engine_options e = {.m = s->m,
                               .n_slots = served_slots(s, o->n_slots),
                               .ctx = ctx_of(s, o),
                               .kv = s->own.kv,
                               .n_queue = o->n_queue,
                               .pooling = s->pooling,
                               .store = o->store,
                               .baton = o->baton,
                               .wake = o->wake,
                               .user = o->user,
                               .past = s->past};
    char id[TFT_IDENTITY];
    int status = CLI_OK;
    if (!o->several || !o->store.folder)
        return engine_open(&s->engine, &e);
    tft_model_identity(s->m, id);
    size_t room = strlen(o->store.folder) + sizeof id + sizeof "/-01234567";
    s->folder = malloc(room);
    if (!s->folder)
        return cli_fail("out of memory");
    int n = snprintf(s->folder, room, "%s/%s", o->store.folder, id);
    if (s->of_setup)
        snprintf(s->folder + n, room - (size_t)n, "-%08x",
                 (unsigned)tft_crc32(0, s->id, strlen(s->id)));
    int os = directory_make(o->store.folder);
    if (os)
        status = cli_fail("%s: %s", o->store.folder, strerror(os));
    e.store.folder = s->folder;
    return status == CLI_OK ? engine_open(&s->engine, &e) : status;
}

/* Only sessions have adapters. */
static int open_loras(struct served *s)
{
    if (cli_asked_loras() && pooling_is_all(s->m, s->pooling))
        return cli_fail("--lora: the model writes no text, and takes no adapters");
    int status = cli_open_loras(s->m);
    s->loras = loras_given();
    return status;
}

int served_open(struct served *s, const struct served_options *o)
{
    const char *pooling = s->own.pooling ? s->own.pooling : o->pooling;
    int status = cli_open_model(&s->m, s->path, false);
    if (status == CLI_OK)
        status = cli_open_draft(s->m);
    if (status == CLI_OK && !pooling_choose(&s->pooling, pooling, s->m))
        status = CLI_USAGE;
    if (status == CLI_OK)
        status = open_loras(s);
    if (status != CLI_OK)
        return status;
    read_file(s);
    describe(s);
    choose_templates(s, o->several);
    status = open_engine(s, o);
    if (status != CLI_OK)
        return status;
    s->capacity = (uint32_t)engine_capacity(s->engine);
    s->bytes = s->bytes > s->info.weight_bytes ? s->bytes : s->info.weight_bytes;
    s->bytes += engine_bytes(s->engine);
    return CLI_OK;
}

void served_close(struct served *s)
{
    engine_close(s->engine);
    cli_close_loras();
    tft_model_close(s->m);
    free(s->folder);
    s->engine = NULL;
    s->m = NULL;
    s->folder = NULL;
    s->template = s->tool_template = NULL;
}

/* ---- the model itself */

/* False: out of memory. */
static bool take_own(struct served *s, const struct setup_own *own)
{
    s->of_setup = true;
    s->own = *own;
    s->own_kv = own->kv ? strdup(own->kv) : NULL;
    s->own_pooling = own->pooling ? strdup(own->pooling) : NULL;
    s->own.kv = s->own_kv;
    s->own.pooling = s->own_pooling;
    return (s->own_kv || !own->kv) && (s->own_pooling || !own->pooling);
}

struct served *served_new(char *id, char *path, const struct setup_own *own)
{
    struct served *s = id && path ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        cli_fail("out of memory");
        free(id);
        free(path);
        return NULL;
    }
    s->id = id;
    s->path = path;
    s->keep = SERVED_FOREVER;
    s->info.file_type = "";
    if (!own || take_own(s, own))
        return s;
    cli_fail("out of memory");
    served_free(s);
    return NULL;
}

void served_free(struct served *s)
{
    if (!s)
        return;
    free(s->id);
    free(s->path);
    free(s->jinja);
    free(s->own_kv);
    free(s->own_pooling);
    free(s);
}
