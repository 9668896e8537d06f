#include "peft_config.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"

/* Members that change nothing once the matrices are trained. With a blank before and after each. */
static const char no_effect[] =
    " task_type auto_mapping peft_version base_model_name_or_path revision inference_mode "
    "lora_dropout runtime_config "
    /* which matrices are adapted: the tensors say it */
    "target_modules exclude_modules layers_to_transform layers_pattern "
    /* the layer's inputs are its rows: A and B are alike */
    "fan_in_fan_out "
    /* of an init_lora_weights that is refused, or that changes A alone */
    "loftq_config eva_config corda_config lora_ga_config "
    /* of use_qalora, and of megatron_config */
    "qalora_group_size megatron_core ";

/* Members that this file reads. */
static const char known[] =
    " peft_type r lora_alpha use_rslora alpha_pattern rank_pattern init_lora_weights bias ";

static bool has(const char *list, const char *name)
{
    size_t n = strlen(name);
    if (!n || strchr(name, ' '))
        return false;
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if (at[-1] == ' ' && at[n] == ' ')
            return true;
    return false;
}

static void fail(struct import *im, const char *name, const char *what)
{
    import_fail(im, TFT_ERR_UNSUPPORTED, "%s/adapter_config.json: \"%s\" %s", im->folder.path, name,
                what);
}

/* null, false and empty values ask for nothing. */
static bool asks(const json_t *v)
{
    if (json_is_array(v) || json_is_object(v))
        return json_array_size(v) || json_object_size(v);
    return json_is_string(v) ? json_string_length(v) > 0 : !json_is_null(v) && !json_is_false(v);
}

static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

/* NULL: it is absent. */
static const json_t *member(const struct peft_config *c, const char *name)
{
    const json_t *v = json_object_get(c->all, name);
    return json_is_null(v) ? NULL : v;
}

static void drop_ignored(const struct import *im, struct peft_config *c)
{
    const char *name;
    json_t *v;
    void *next;
    json_object_foreach_safe(c->all, next, name, v)
    {
        if (import_ignores(im, name))
            json_object_del(c->all, name);
    }
}

/* PiSSA, OLoRA, CorDA, LoftQ and LoRA-GA train beside other base weights than the model's. */
static bool keeps_base(const json_t *init)
{
    static const char *const words[] = {"gaussian", "eva", "orthogonal"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_text(init, words[i]))
            return true;
    return !init || json_is_boolean(init);
}

/* A name in alpha_pattern and rank_pattern may be a regular expression. */
static bool is_plain(const char *name)
{
    static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    name += *name == '^';
    return *name && !name[strspn(name, may)];
}

static void check_alphas(struct import *im, const json_t *pattern)
{
    const char *name;
    json_t *alpha;
    if (pattern && !json_is_object(pattern))
        fail(im, "alpha_pattern", "is not an object");
    json_object_foreach((json_t *)(uintptr_t)pattern, name, alpha)
    {
        if (!is_plain(name))
            fail(im, "alpha_pattern", "has a regular expression: only names are supported");
        else if (!(json_number_value(alpha) > 0 && json_number_value(alpha) <= 1e6))
            fail(im, "alpha_pattern", "has an alpha that is not a number above 0 and up to 1e6");
    }
}

static void read_numbers(struct import *im, struct peft_config *c)
{
    const json_t *alpha = member(c, "lora_alpha"), *rslora = member(c, "use_rslora");
    c->alpha = json_is_number(alpha) ? json_number_value(alpha)
               : alpha               ? 0
                                     : 8; /* PEFT's default */
    c->rank = 8;
    c->rslora = json_is_true(rslora);
    if (!(c->alpha > 0 && c->alpha <= 1e6))
        fail(im, "lora_alpha", "is not a number above 0 and up to 1e6");
    if (member(c, "r") && (!import_json_whole(member(c, "r"), INT32_MAX, &c->rank) || !c->rank))
        fail(im, "r", "is not a whole number above 0");
    if (rslora && !json_is_boolean(rslora))
        fail(im, "use_rslora", "is not true or false");
}

/* Fails for the members that are not read, and ask for something. */
static void refuse_others(struct import *im, const struct peft_config *c)
{
    const char *name;
    json_t *v;
    json_object_foreach(c->all, name, v)
    {
        if (!has(no_effect, name) && !has(known, name) && asks(v))
            fail(im, name, "is not supported");
    }
}

void peft_config_read(struct import *im, struct peft_config *c)
{
    char *path = import_path(im->folder.path, "adapter_config.json");
    *c = (struct peft_config){0};
    if (!path) {
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
        return;
    }
    im->status = import_json_read(&c->all, path, false, im->err);
    free(path);
    if (im->status != TFT_OK)
        return;
    drop_ignored(im, c);
    if (!is_text(member(c, "peft_type"), "LORA"))
        fail(im, "peft_type", "is not \"LORA\"");
    if (member(c, "bias") && !is_text(member(c, "bias"), "none"))
        fail(im, "bias", "is not \"none\": trained biases are not supported");
    if (!keeps_base(member(c, "init_lora_weights")))
        fail(im, "init_lora_weights",
             "is one that changes the base model's weights, too: convert the adapter by PEFT");
    check_alphas(im, member(c, "alpha_pattern"));
    read_numbers(im, c);
    refuse_others(im, c);
}

void peft_config_free(struct peft_config *c) { json_decref(c->all); }

/* As PEFT's re.match("(.*\.)?(NAME)$", module). */
static bool names(const char *name, const char *module)
{
    bool whole = *name == '^';
    name += whole;
    size_t n = strlen(name), m = strlen(module);
    if (n > m || strcmp(module + m - n, name) != 0)
        return false;
    return n == m || (!whole && module[m - n - 1] == '.');
}

double peft_config_alpha(const struct peft_config *c, const char *module)
{
    const char *name;
    json_t *alpha;
    json_object_foreach(json_object_get(c->all, "alpha_pattern"), name, alpha)
    {
        if (names(name, module))
            return json_number_value(alpha);
    }
    return c->alpha;
}

bool peft_config_has_rank(const struct peft_config *c, const char *module, uint64_t rank)
{
    const char *name;
    json_t *v;
    uint64_t n;
    json_object_foreach(json_object_get(c->all, "rank_pattern"), name, v)
    {
        if (!is_plain(name)) /* a regular expression may mean any module */
            return true;
        if (names(name, module))
            return import_json_whole(v, INT32_MAX, &n) && n == rank;
    }
    return rank == c->rank;
}
