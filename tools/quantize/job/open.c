#include "tools/quantize/job/open.h"

#include <errno.h>
#include <string.h>

#include "file/file.h"
#include "models/open.h"
#include "port/port.h"
#include "tools/import/import.h"
#include "tools/quantize/job/merge.h"

/* The float model computes with f32 if the new one will: the default of an open model is that of
   sessions without a cache of their own, and of layers.h. */
static void take_cache(const struct job *j, struct tft_model *m)
{
    if (j->o->kv && strcmp(j->o->kv, "f32") == 0)
        m->kv_text = "f32";
}

static enum tft_status open_models(struct job *j, const char *path, struct tft_model **runs)
{
    struct tft_model_opts o = {.size = sizeof o,
                               .tokenizer = j->o->tokenizer,
                               .ignore_keys = j->imported ? NULL : j->o->ignore_keys};
    enum tft_status status = tft_model_open_unexpanded(&j->m, path, &o, j->err);
    if (status == TFT_OK)
        take_cache(j, j->m);
    runs = status == TFT_OK && j->m->encoder ? NULL : runs; /* it writes no text */
    if (status == TFT_OK && runs)
        status = tft_model_open(runs, path, &o, j->err);
    if (status == TFT_OK && runs)
        take_cache(j, *runs);
    return status;
}

static bool is_folder(const char *path)
{
    struct tft_map map;
    int os = tft_port_map(&map, path);
    if (!os)
        tft_port_unmap(&map);
    return os == EISDIR;
}

/* Before the folder's tensors are written. */
static bool begin(void *user, uint64_t bytes)
{
    struct job *j = user;
    struct tft_quantize_plan plan = {.size = sizeof plan, .disk = bytes, .imported = bytes};
    j->imported_bytes = bytes;
    return !j->o->plan || j->o->plan(j->o->user, &plan);
}

static void warn(void *user, const char *text) { job_note(user, "%s", text); }

static enum tft_status import(struct job *j, const char *folder)
{
    struct import_opts o = {.no_ranges = true,
                            .ignore_keys = j->o->ignore_keys,
                            .warn = warn,
                            .begin = begin,
                            .progress = job_progress,
                            .user = j};
    struct import_result r;
    enum tft_status status = job_begin(j, "importing", j->o->n_loras ? 0.5 : 1);
    if (status != TFT_OK)
        return status;
    status = import_temp(folder, j->out, &o, &r, &j->imported, j->err);
    return job_end(j, status, r.stopped);
}

enum tft_status job_open(struct job *j, const char *path, struct tft_model **runs)
{
    enum tft_status status = TFT_OK;
    job_enter(j, JOB_IMPORT);
    if (is_folder(path))
        status = import(j, path);
    if (status == TFT_OK && j->o->n_loras)
        status = job_merge(j, path);
    if (status == TFT_OK)
        status = open_models(j, j->imported ? j->imported->temp.name : path, runs);
    if (status == TFT_OK && j->imported)
        j->m->source.name = path; /* for messages */
    return status;
}

void job_close(struct job *j)
{
    tft_model_close(j->m);
    if (j->imported)
        tft_new_file_end(j->imported, false, NULL);
    j->m = NULL;
    j->imported = NULL;
}
