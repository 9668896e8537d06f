#include "device.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cpu/cpu.h"
#include "model/parts.h"
#include "port/port.h"

/* Parses NAME or NAME:INDEX. A name is lower-case letters only, because it becomes part of a
   path. */
static bool parse(const char *text, size_t *name, uint32_t *which)
{
    size_t n = 0;
    while (text[n] >= 'a' && text[n] <= 'z')
        n++;
    *name = n;
    *which = 0;
    if (text[n] == ':') {
        if (!text[++n])
            return false;
        for (; text[n] >= '0' && text[n] <= '9' && *which < 1000; n++)
            *which = *which * 10 + (uint32_t)(text[n] - '0');
    }
    return *name && *name < 16 && !text[n];
}

/* Refuses a model that a device cannot compute, before anything is copied to the device. */
static enum tft_status check(const struct tft_model *m, const char *name, struct tft_error *err)
{
    if (!m->arch)
        return tft_fail(
            err, TFT_ERR_ARG,
            "%s: opened with vocab_only: there is nothing to compute on %s",
            m->source.name, name);
    if (!m->embed.format->takes_bytes)
        return tft_fail(
            err, TFT_ERR_UNSUPPORTED,
            "%s: has weights of %s; %s computes W8A8 files: make one with tuffet quantize",
            m->source.name, m->embed.format->name, name);
    return TFT_OK;
}

/* Refuses a model with a part that the backend does not compute. */
static enum tft_status check_parts(const struct tft_model *m, const struct tft_backend *backend,
                                    struct tft_error *err)
{
    const char *part = tft_parts_unknown(m, backend->parts);
    if (!part)
        return TFT_OK;
    return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: %s does not compute %s (architecture %s)",
                    m->source.name, backend->name, part, m->arch->name);
}

static const struct tft_backend *load(const char *name, size_t len, void **library,
                                     struct tft_error *err)
{
    char file[32], why[160] = "";
    snprintf(file, sizeof file, "tuffet-%.*s", (int)len, name);
    void *symbol = tft_port_load(library, file, TFT_DEVICE_SYMBOL, why, sizeof why);
    if (!symbol) {
        tft_fail(err, TFT_ERR_DEVICE, "%.*s: %s", (int)len, name, why);
        return NULL;
    }
    tft_device_fn *get;
    memcpy(&get, &symbol, sizeof get);
    const struct tft_backend *d = get();
    if (strcmp(d->build_id, tft_build_id) == 0)
        return d;
    tft_fail(err, TFT_ERR_DEVICE,
             "%s: the plug-in is of version %.60s, the library of version %s: install both from "
             "one build",
             file, d->build_id, tft_build_id);
    tft_port_unload(*library);
    return NULL;
}

static void add_stage(struct tft_model *m, struct tft_stage stage)
{
    m->stage[m->n_stage++] = stage;
}

static enum tft_status open_device(struct tft_model *m, const char *name, uint32_t n_layers,
                                   struct tft_error *err)
{
    size_t len;
    uint32_t which;
    void *library, *device;
    if (!parse(name, &len, &which))
        return tft_fail(err, TFT_ERR_ARG, "\"%.40s\" is no device: cpu, cuda, cuda:N or mpi", name);
    enum tft_status status = check(m, name, err);
    if (status != TFT_OK)
        return status;
    const struct tft_backend *backend = load(name, len, &library, err);
    if (!backend)
        return TFT_ERR_DEVICE;
    m->n_host = n_layers && n_layers < m->n_layer ? m->n_layer - n_layers : 0;
    status = check_parts(m, backend, err);
    if (status == TFT_OK)
        status = backend->open(&device, m, which, err);
    if (status != TFT_OK) {
        tft_port_unload(library);
        return status;
    }
    if (m->n_host)
        add_stage(m, (struct tft_stage){.backend = &tft_backend_cpu, .end = m->n_host});
    add_stage(m, (struct tft_stage){backend, device, library, m->n_host, m->n_layer});
    return TFT_OK;
}

enum tft_status tft_stages_open(struct tft_model *m, const char *name, uint32_t n_layers,
                                struct tft_error *err)
{
    if (name && strcmp(name, "cpu"))
        return open_device(m, name, n_layers, err);
    if (m->arch)
        add_stage(m, (struct tft_stage){.backend = &tft_backend_cpu, .end = m->n_layer});
    return TFT_OK;
}

void tft_stages_close(struct tft_model *m)
{
    for (uint32_t i = 0; i < m->n_stage; i++)
        if (m->stage[i].library) {
            m->stage[i].backend->close(m->stage[i].device);
            tft_port_unload(m->stage[i].library);
        }
    m->n_stage = 0;
}
