#include "tools/quantize/command_kv.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantize/command_prefix.h"
#include "tools/quantize/write/rewrite_model.h"

static struct {
    const char *budget;
    double bits;
    uint32_t bytes, depth;
} opt;

const struct cli_option command_kv_option_list[] = {
    {0, "kv-search", CLI_TEXT, &opt.budget, "BUDGET",
     "choose bits for each layer of the KV cache --kv (default tuffet) within BUDGET: \"2.5\" bits "
     "per number, overhead included; \"5632B\" per token; or \"2.5@8192\", the mean over a session "
     "of 8192 tokens, f16 ones included: then choose clip, retain and group too"},
    {0},
};

/* Parses the part before the depth. */
static bool take_amount(const char **p)
{
    size_t n = strspn(*p, "0123456789.");
    char *end;
    if ((*p)[n] == 'B')
        return quantize_take_number(p, &opt.bytes) && *(*p)++ == 'B' && opt.bytes;
    opt.bits = n ? strtod(*p, &end) : 0;
    if (!n || end != *p + n)
        return false;
    *p = end;
    return opt.bits > 0 && opt.bits <= 16;
}

int command_kv_check(void)
{
    const char *p = opt.budget;
    if (!p)
        return CLI_OK;
    bool ok = take_amount(&p);
    if (ok && *p == '@') {
        p++;
        ok = quantize_take_number(&p, &opt.depth) && opt.depth;
    }
    if (ok && !*p)
        return CLI_OK;
    return cli_usage("--kv-search takes bits per number up to 16, or bytes per token like "
                     "5632B, and a depth like @8192, not \"%s\"",
                     opt.budget);
}

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

int command_kv_begin(struct command_kv *k, const struct tft_model *m,
                      const struct quantize_opts *o, const char **path)
{
    static const char suffix[] = ".unsearched";
    struct tft_error err;
    if (!opt.budget)
        return CLI_OK;
    k->o = (struct kv_search_opts){
        .text = o->text,
        .n_windows = (uint32_t)(o->n_text / o->window),
        .window = o->window,
        .kv = o->kv ? o->kv : "tuffet",
        .bits = opt.bits,
        .bytes = opt.bytes,
        .depth = opt.depth,
        .n_threads = o->n_threads,
        .progress = progress,
    };
    if (kv_search_check(m, &k->o, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    k->unsearched = malloc(strlen(*path) + sizeof suffix);
    if (!k->unsearched)
        return cli_fail("out of memory");
    strcpy(k->unsearched, *path);
    strcat(k->unsearched, suffix);
    *path = k->unsearched;
    return CLI_OK;
}

static int search(struct command_kv *k, const struct tft_model *m)
{
    struct cli_progress bar;
    struct tft_error err;
    bool stopped;
    k->o.user = &bar;
    cli_progress_begin(&bar, "searching KV bits");
    enum tft_status status = kv_search(m, &k->o, &k->result, &stopped, &err);
    cli_progress_end(&bar);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

static const struct kv_measured *kept(const struct command_kv *k)
{
    return k->result.better ? &k->result.searched : &k->result.uniform;
}

int command_kv_finish(struct command_kv *k, const char *path)
{
    struct tft_model *m;
    struct tft_error err;
    if (!k->unsearched)
        return CLI_OK;
    struct tft_model_opts mo = {.size = sizeof mo};
    if (tft_model_open(&m, k->unsearched, &mo, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    remove(k->unsearched); /* it stays mapped, and nothing is left if the process is killed */
    int status = search(k, m);
    if (status == CLI_OK &&
        rewrite_model(m, path, &(struct rewrite){.kv = kept(k)->kv}, &err) != TFT_OK)
        status = cli_fail("%s", err.msg);
    tft_model_close(m);
    return status;
}

void command_kv_free(struct command_kv *k)
{
    if (k->unsearched)
        remove(k->unsearched);
    free(k->unsearched);
    kv_search_free(&k->result);
}

/* ---- the report */

void command_kv_report(const struct command_kv *k)
{
    const struct kv_search *r = &k->result;
    if (!r->unit)
        return;
    const struct kv_measured *is = kept(k), *other = r->better ? &r->uniform : &r->searched;
    for (uint32_t i = 0; i < r->n_tried; i++)
        fprintf(stderr, "%s %zu bytes per token, %.4g nats: %s\n",
                i ? "      " : "tried:", r->tried[i].bytes, r->tried[i].divergence, r->tried[i].kv);
    fprintf(stderr, "cache: %zu bytes per token, %.4g nats from f16 on held-out text: %s\n",
            is->bytes, is->divergence, is->kv);
    fprintf(stderr, "       %zu bytes, %.4g nats %s: %s\n", other->bytes, other->divergence,
            r->better ? "with equal bits in all layers" : "with bits by layer, which is no better",
            other->kv);
}

static void json_cache(const struct kv_measured *h)
{
    printf("{\"kv\":\"%s\",\"bytes\":%zu", h->kv, h->bytes);
    cli_json_number("divergence", h->divergence);
    putchar('}');
}

static void json_measured(const char *name, const struct kv_measured *h)
{
    printf(",\"%s\":", name);
    json_cache(h);
}

static void json_side(const char *name, const struct kv_search *r, const struct kv_side_found *f,
                      const struct kv_unit_found *unit)
{
    printf(",\"%s\":{\"all\":[", name);
    for (uint32_t i = 0; i < f->n; i++)
        printf("%s{\"bits\":%g,\"divergence\":%.6g}", i ? "," : "", (double)f->bits[i], f->cost[i]);
    printf("],\"alone\":%g,\"layers\":[", (double)f->alone);
    for (uint32_t l = 0; l < r->n_layer; l++)
        printf("%s{\"divergence\":%.6g,\"bits\":%g}", l ? "," : "", unit[2 * l].cost,
               (double)unit[2 * l].bits);
    fputs("]}", stdout);
}

void command_kv_json(const struct command_kv *k)
{
    const struct kv_search *r = &k->result;
    if (!r->unit) {
        fputs("null", stdout);
        return;
    }
    printf("{\"budget\":%zu,\"floor\":%.6g", r->budget, r->floor);
    json_side("k", r, &r->side[0], r->unit);
    json_side("v", r, &r->side[1], r->unit + 1);
    fputs(",\"tried\":[", stdout);
    for (uint32_t i = 0; i < r->n_tried; i++) {
        fputs(i ? "," : "", stdout);
        json_cache(&r->tried[i]);
    }
    putchar(']');
    json_measured("searched", &r->searched);
    json_measured("uniform", &r->uniform);
    printf(",\"kept\":\"%s\"}", r->better ? "searched" : "uniform");
}
