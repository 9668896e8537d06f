/* --lora: adapters of all sessions that a command opens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static struct {
    struct cli_texts files;
    struct tft_lora *lora[CLI_MOST_TEXTS];
    struct tft_lora_use use[CLI_MOST_TEXTS];
    uint32_t n; /* open */
} loras;

const struct cli_option cli_lora_option_list[] = {
    {0, "lora", CLI_TEXTS, &loras.files, "FILE",
     "add the LoRA adapter of FILE, a GGUF file, to the model, FILE:0.5 half of it; may be "
     "repeated. Not with files of tuffet quantize"},
    {0},
};

/* *n = the bytes of the path in FILE[:SCALE]. */
static float scale_of(const char *text, size_t *n)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    float scale = colon ? strtof(colon + 1, &end) : 1;
    bool has = end && end > colon + 1 && !*end && isfinite(scale);
    *n = has ? (size_t)(colon - text) : strlen(text);
    return has ? scale : 1;
}

char *cli_split_lora(const char *text, float *scale)
{
    size_t n;
    *scale = scale_of(text, &n);
    char *path = malloc(n + 1);
    if (!path)
        return NULL;
    memcpy(path, text, n);
    path[n] = 0;
    return path;
}

char *cli_lora_path(uint32_t i)
{
    float scale;
    return cli_split_lora(loras.files.p[i], &scale);
}

static int open_lora(const struct tft_model *m, const char *text)
{
    struct tft_error err;
    float scale;
    char *path = cli_split_lora(text, &scale);
    if (!path)
        return cli_fail("out of memory");
    if (cli_check_lora_path(path) != CLI_OK) {
        free(path);
        return CLI_FAILED;
    }
    enum tft_status status = tft_lora_open(&loras.lora[loras.n], m, path, &err);
    free(path);
    if (status != TFT_OK)
        return cli_fail("--lora: %s", err.msg);
    loras.use[loras.n] = (struct tft_lora_use){.lora = loras.lora[loras.n], .scale = scale};
    loras.n++;
    return CLI_OK;
}

int cli_open_loras(const struct tft_model *m)
{
    int status = CLI_OK;
    for (uint32_t i = 0; i < loras.files.n && status == CLI_OK; i++)
        status = open_lora(m, loras.files.p[i]);
    return status;
}

void cli_add_loras(struct tft_session_opts *o)
{
    if (!o->loras)
        o->n_loras = cli_loras(&o->loras);
}

uint32_t cli_asked_loras(void) { return loras.files.n; }

uint32_t cli_loras(const struct tft_lora_use **use)
{
    *use = loras.n ? loras.use : NULL;
    return loras.n;
}

void cli_close_loras(void)
{
    while (loras.n)
        tft_lora_close(loras.lora[--loras.n]);
}
