#include "as_folder_inside.h"

#include "test.h"

#include <string.h>

#include "base/bytes.h"

FILE *as_folder_create(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb+");
    assert_non_null(f);
    return f;
}

static void shard_name(char name[64], unsigned i, unsigned n)
{
    snprintf(name, 64, n > 1 ? "model-%05u-of-%05u.safetensors" : "model.safetensors", i + 1, n);
}

static void copy(FILE *to, FILE *from)
{
    char buffer[4096];
    rewind(from);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, from)) > 0;)
        assert_int_equal(fwrite(buffer, 1, n, to), n);
    assert_int_equal(fclose(from), 0);
}

static const struct tft_value *value_of(const struct toy *t, const struct tft_source *s,
                                        const char *key)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", t->arch, key);
    return tft_source_value(s, full);
}

static struct heads heads_of(const struct toy *t, const struct tft_source *s)
{
    struct heads h = {0};
    const struct tft_value *keys = value_of(t, s, "ssm.group_count"),
                           *values = value_of(t, s, "ssm.time_step_rank"),
                           *dim = value_of(t, s, "ssm.state_size");
    if (keys)
        assert_true(tft_value_uint(keys, 0, &h.keys) && tft_value_uint(values, 0, &h.values) &&
                    tft_value_uint(dim, 0, &h.dim));
    return h;
}

/* Folders of gemma4 have keys also in layers that use keys of earlier ones: here, their norm. */
static void put_spare_norm(struct out *out, const struct toy *t, const struct tft_source *s,
                           const char *gguf, const char *name)
{
    char own[64], spare[160], *at;
    unsigned layer;
    if (sscanf(gguf, "blk.%u.attn_q_norm", &layer) != 1 || !strstr(gguf, "q_norm"))
        return;
    snprintf(own, sizeof own, "blk.%u.attn_k_norm.weight", layer);
    snprintf(spare, sizeof spare, "%s", name);
    at = strstr(spare, "q_norm");
    *at = 'k';
    if (!tft_source_tensor(s, own))
        as_folder_put_tensor(out, t, tft_source_tensor(s, gguf), NULL, spare, AS_IT_IS);
}

/* apertus: numbers of xIELU, a tensor each. */
static void put_xielu(struct out *out, const struct toy *t, const struct tft_source *s)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    for (uint32_t l = 0; l < t->n_layer; l++)
        for (int i = 0; i < 4; i++) {
            char name[96];
            double x = 0;
            assert_true(tft_value_real(tft_source_value(s, keys[i]), l, &x));
            float f = (float)x;
            snprintf(name, sizeof name, "model.layers.%u.mlp.act_fn.%s", l,
                     strchr(keys[i], '.') + 1);
            as_folder_put_head(out, name, TFT_F32, 1, 1, 1, true, sizeof f);
            fwrite(&f, sizeof f, 1, out->data);
        }
}

static void write_shard(const struct toy *t, const struct tft_source *s, const char *path,
                        unsigned shard, unsigned n, FILE *index)
{
    struct out out = {tmpfile(), tmpfile(), 0, heads_of(t, s)};
    char file[64], name[160];
    shard_name(file, shard, n);
    assert_true(out.header && out.data);
    for (size_t i = 0; i < s->n_tensor; i++) {
        char gguf[64];
        enum how how;
        snprintf(gguf, sizeof gguf, "%.*s", (int)s->tensor[i].name.n, s->tensor[i].name.p);
        if (i % n != shard || !as_folder_name(t, gguf, name, &how))
            continue;
        as_folder_put_tensor(&out, t, &s->tensor[i], as_folder_up_of(s, gguf), name, how);
        if (as_folder_is(t, "gemma4"))
            put_spare_norm(&out, t, s, gguf, name);
        if (index)
            fprintf(index, "%s\"%s\":\"%s\"", ftell(index) > 15 ? "," : "", name, file);
    }
    if (as_folder_is(t, "apertus"))
        put_xielu(&out, t, s);
    fputs("}", out.header);
    unsigned char length[8];
    tft_store_u64(length, (uint64_t)ftell(out.header));
    FILE *f = as_folder_create(path, file);
    fwrite(length, 8, 1, f);
    copy(f, out.header);
    copy(f, out.data);
    assert_int_equal(fclose(f), 0);
}

void as_folder(const struct toy *t, const char *gguf, const char *path, unsigned n)
{
    struct tft_source s;
    FILE *index = n > 1 ? as_folder_create(path, "model.safetensors.index.json") : NULL;
    assert_int_equal(tft_source_open(&s, gguf, NULL, NULL, NULL), TFT_OK);
    as_folder_config(t, &s, path);
    if (index)
        fputs("{\"weight_map\":{", index);
    for (unsigned i = 0; i < n; i++)
        write_shard(t, &s, path, i, n, index);
    if (index) {
        fputs("}}", index);
        assert_int_equal(fclose(index), 0);
    }
    tft_source_close(&s);
}
