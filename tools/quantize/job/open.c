#include "tools/quantize/job/open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/open.h"
#include "port/port.h"
#include "tools/import/import.h"

/* The errno of mapping the file; 0: there is such a file. */
static int look_at(const char *path)
{
    struct tft_map map;
    int os = tft_port_map(&map, path);
    if (!os)
        tft_port_unmap(&map);
    return os;
}

static enum tft_status open_models(struct job *j, const char *path, struct tft_model **runs)
{
    struct tft_model_opts o = {.size = sizeof o, .tokenizer = j->o->tokenizer};
    enum tft_status status = tft_model_open_unexpanded(&j->m, path, &o, j->err);
    if (status == TFT_OK && runs)
        status = tft_model_open(runs, path, &o, j->err);
    return status;
}

static enum tft_status import_to(struct job *j, const char *folder, const char *path)
{
    struct import_opts o = {.progress = job_progress, .user = j};
    struct import_result r;
    if (look_at(path) != ENOENT)
        return tft_fail(j->err, TFT_ERR_IO, "%s: this file is in the way: rename or remove it",
                        path);
    enum tft_status status = job_begin(j, "importing");
    if (status != TFT_OK)
        return status;
    status = import_model(folder, path, &o, &r, j->err);
    return job_end(j, status, r.stopped);
}

enum tft_status job_open(struct job *j, const char *path, struct tft_model **runs)
{
    static const char end[] = ".import";
    if (look_at(path) != EISDIR)
        return open_models(j, path, runs);
    char *file = malloc(strlen(j->out) + sizeof end);
    if (!file)
        return job_no_memory(j);
    strcpy(file, j->out);
    strcat(file, end);
    enum tft_status status = import_to(j, path, file);
    if (status == TFT_OK) {
        status = open_models(j, file, runs);
        remove(file);
    }
    if (status == TFT_OK)
        j->m->source.name = path; /* for messages */
    free(file);
    return status;
}
