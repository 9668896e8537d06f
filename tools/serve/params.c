#define _POSIX_C_SOURCE 200809L
#include "params.h"

#include <stdlib.h>
#include <string.h>

struct params params_default(void)
{
    return (struct params){.sampler = cli_sampler_given(),
                           .any_seed = cli_sampling_options.seed == CLI_ANY_SEED,
                           .logprobs = -1};
}

static void read_stops(struct params *p, struct fields *f)
{
    const json_t *stop = field(f, "stop");
    size_t n = json_is_array(stop) ? json_array_size(stop) : stop ? 1 : 0;
    if (n > JOB_STOPS)
        fields_fail(f, "stop has more than %d texts", JOB_STOPS);
    p->n_stop = 0;
    for (size_t i = 0; i < n && !f->failed; i++) {
        const json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;
        if (!json_is_string(one))
            fields_fail(f, "stop must be a string or a list of strings");
        else if (strlen(json_string_value(one)) != json_string_length(one))
            fields_fail(f, "stop must not contain NUL");
        else if (json_string_length(one))
            p->stop[p->n_stop++] = json_string_value(one);
    }
}

/* Fails if the member has a value other than the one without effect. */
static void refuse(struct fields *f, const char *name, double idle)
{
    const json_t *v = field(f, name);
    if (!v || (json_is_number(v) && json_number_value(v) == idle))
        return;
    fields_fail(f, "%s is not supported", name);
    f->unsupported = true;
}

void params_free(struct params *p) { bias_free(&p->bias); }

void params_read(struct params *p, struct fields *f, const struct tft_model *m)
{
    struct tft_sampler *z = &p->sampler;
    z->temperature = (float)field_number(f, "temperature", 0, 100, z->temperature);
    z->top_p = (float)field_number(f, "top_p", 0, 1, z->top_p);
    z->min_p = (float)field_number(f, "min_p", 0, 1, z->min_p);
    z->top_k = (int32_t)field_integer(f, "top_k", -1, INT32_MAX, z->top_k);
    z->top_k = z->top_k < 0 ? 0 : z->top_k;
    z->repeat_penalty = (float)field_number(f, "repeat_penalty", 0, 100, z->repeat_penalty);
    z->repeat_last = (int32_t)field_integer(f, "repeat_last_n", 0, INT32_MAX, z->repeat_last);
    if (field(f, "seed")) {
        int64_t seed = field_integer(f, "seed", INT64_MIN, INT64_MAX, 0);
        p->any_seed = seed == -1; /* llama.cpp's "any" */
        z->seed = (uint64_t)seed;
    }
    read_stops(p, f);
    bias_read(&p->bias, f, m);
    refuse(f, "typical_p", 1);
    refuse(f, "mirostat", 0);
}

bool params_put(const struct params *p, struct job *j, size_t i)
{
    j->sampler = p->sampler;
    j->sampler.seed = (p->any_seed ? cli_random_seed() : p->sampler.seed) + i;
    j->most = p->most;
    j->logprobs = p->logprobs;
    for (size_t k = 0; k < p->n_stop; k++)
        if (!(j->stop[k] = strdup(p->stop[k])))
            return false;
    return bias_copy(&j->bias, &p->bias);
}

void params_form(struct server *s, struct job *j, struct fields *f, const char *where,
                 const char *gbnf, size_t n, bool thinks)
{
    struct tft_error err;
    struct form *form = &j->form;
    if (f->failed)
        return;
    if ((!s->lexicon && tft_lexicon_open(&s->lexicon, s->m, &err) != TFT_OK) ||
        tft_grammar_open(&form->grammar, s->lexicon, TFT_GBNF, gbnf, n, &err) != TFT_OK ||
        tft_grammar_begin(&form->fresh, form->grammar, &err) != TFT_OK ||
        tft_grammar_begin(&form->now, form->grammar, &err) != TFT_OK)
        fields_fail(f, "%s: %s", where, err.msg);
    else if (form_begin(form, j->ids, j->n_ids, thinks) != CLI_OK)
        fields_fail(f, "out of memory");
}
