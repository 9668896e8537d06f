/* The public functions that open and close a model. */
#include "models/open.h"

#include <stdio.h>

#include "backend/device.h"
#include "base/options.h"
#include "model/open.h"
#include "models/registry.h"

static enum tft_status open_model(struct tft_model **out, struct tft_opening o,
                                  const struct tft_model_opts *given, struct tft_error *err)
{
    struct tft_model_opts opts;
    *out = NULL;
    enum tft_status status =
        tft_options_take(&opts, sizeof opts, given, "tft_model_opts", err);
    if (status != TFT_OK)
        return status;
    o.archs = tft_archs;
    o.opts = &opts;
    status = tft_open(out, &o, err);
    if (status == TFT_OK)
        status = tft_stages_open(*out, opts.device, opts.gpu_layers, err);
    if (status != TFT_OK) {
        tft_model_close(*out);
        *out = NULL;
    }
    return status;
}

enum tft_status tft_model_open(struct tft_model **out, const char *path,
                               const struct tft_model_opts *opts, struct tft_error *err)
{
    return open_model(out, (struct tft_opening){.file = {.where = TFT_AT_PATH, .name = path}},
                      opts, err);
}

enum tft_status tft_model_open_mem(struct tft_model **out, const void *data, size_t size,
                                   const struct tft_model_opts *opts, struct tft_error *err)
{
    return open_model(out,
                      (struct tft_opening){.file = {.where = TFT_IN_MEMORY,
                                                    .name = "memory",
                                                    .data = data,
                                                    .size = size}},
                      opts, err);
}

enum tft_status tft_model_open_fd(struct tft_model **out, int fd, uint64_t offset, uint64_t size,
                                  const struct tft_model_opts *opts, struct tft_error *err)
{
    char name[40];
    snprintf(name, sizeof name, "descriptor %d", fd);
    return open_model(out,
                      (struct tft_opening){.file = {.where = TFT_IN_OPEN_FILE,
                                                    .name = name,
                                                    .fd = fd,
                                                    .offset = offset,
                                                    .size = size}},
                      opts, err);
}

enum tft_status tft_model_open_unexpanded(struct tft_model **out, const char *path,
                                          const struct tft_model_opts *opts, struct tft_error *err)
{
    return open_model(out,
                      (struct tft_opening){.file = {.where = TFT_AT_PATH, .name = path},
                                           .unexpanded = true},
                      opts, err);
}

void tft_model_close(struct tft_model *m)
{
    if (!m)
        return;
    tft_stages_close(m);
    tft_open_undo(m);
}
