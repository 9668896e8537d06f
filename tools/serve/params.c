#define _POSIX_C_SOURCE 200809L
#include "params.h"

#include <stdlib.h>
#include <string.h>

struct params params_default(void)
{
    return (struct params){.sampler = cli_sampler_given(),
                           .any_seed = cli_sampling_options.seed == CLI_ANY_SEED,
                           .most = -1,
                           .think_budget = -1,
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

/* -2: llama.cpp's and Ollama's "until the context is full". */
static int64_t read_most(struct fields *f, int64_t otherwise)
{
    static const char *const names[] = {"max_completion_tokens", "max_tokens", "n_predict",
                                        "num_predict"};
    const char *by = NULL; /* the name that said it */
    int64_t most = otherwise;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t said = field_integer(f, names[i], -2, INT32_MAX, most);
        if (by && said != most)
            fields_fail(f, "%s and %s differ: send one of them", by, names[i]);
        by = field(f, names[i]) ? names[i] : by;
        most = said;
    }
    return most < 0 ? -1 : most;
}

/* A top_p of 0 keeps the likeliest token alone. */
static void read_top_p(struct tft_sampler *z, struct fields *f)
{
    z->top_p = (float)field_number(f, "top_p", 0, 1, z->top_p);
    if (field(f, "top_p") && !(z->top_p > 0))
        z->temperature = 0;
}

/* repeat_last_n 0: no token is penalized; -1: all of the context are. */
static void read_penalty(struct tft_sampler *z, struct fields *f)
{
    int64_t last = field_integer(f, "repeat_last_n", -1, INT32_MAX, z->repeat_last);
    z->repeat_penalty = (float)field_number(f, "repeat_penalty", 0, 100, z->repeat_penalty);
    z->repeat_penalty = last ? z->repeat_penalty : 1;
    z->repeat_last = last < 0 ? INT32_MAX : (int32_t)last;
}

/* Other servers have variables of templates as members of a request. */
static void read_variables(struct fields *f)
{
    static const char *const names[] = {"enable_thinking", "reasoning_effort"};
    const char *effort = field_text(f, "reasoning_effort", "");
    const json_t *given = field(f, "chat_template_kwargs");
    json_t *all = json_object();
    if (strcmp(effort, "none") == 0)
        json_object_set_new(all, "enable_thinking", json_false());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (field(f, names[i]))
            json_object_set(all, names[i], json_object_get(f->body, names[i]));
    if (json_is_object(given))
        json_object_update(all, (json_t *)(uintptr_t)given);
    if (json_object_size(all) && (!given || json_is_object(given)))
        json_object_set(f->body, "chat_template_kwargs", all);
    json_decref(all);
}

void params_free(struct params *p)
{
    bias_free(&p->bias);
    steps_free(&p->steps);
}

int32_t params_think_budget(struct fields *f)
{
    int64_t n = field_integer(f, "reasoning_budget", -1, INT32_MAX, -1),
            same = field_integer(f, "thinking_budget_tokens", -1, INT32_MAX, n);
    if (field(f, "reasoning_budget") && same != n)
        fields_fail(f, "reasoning_budget and thinking_budget_tokens differ: send one of them");
    return (int32_t)same;
}

/* How many tokens come before one that ends the answer. */
static void read_least(struct tft_sampler *z, struct fields *f)
{
    int64_t least = z->min_tokens < UINT32_MAX ? z->min_tokens : 0;
    least = field_integer(f, "min_tokens", 0, INT32_MAX, least);
    bool ignores = field_flag(f, "ignore_eos", z->min_tokens == UINT32_MAX);
    z->min_tokens = ignores ? UINT32_MAX : (uint32_t)least;
}

void params_read(struct params *p, struct fields *f, const struct tft_model *m)
{
    struct tft_sampler *z = &p->sampler;
    z->temperature = (float)field_number(f, "temperature", 0, 100, z->temperature);
    read_top_p(z, f);
    z->min_p = (float)field_number(f, "min_p", 0, 1, z->min_p);
    z->top_k = (int32_t)field_integer(f, "top_k", -1, INT32_MAX, z->top_k);
    z->top_k = z->top_k < 0 ? 0 : z->top_k;
    read_penalty(z, f);
    if (field(f, "seed")) {
        int64_t seed = field_integer(f, "seed", INT64_MIN, INT64_MAX, 0);
        p->any_seed = seed == -1; /* llama.cpp's "any" */
        z->seed = (uint64_t)seed;
    }
    read_least(z, f);
    steps_read(&p->steps, f, m);
    p->think_budget = params_think_budget(f);
    p->stop_loops = field_flag(f, "stop_loops", false);
    read_stops(p, f);
    bias_read(&p->bias, f, m);
    loras_read(&p->loras, f);
    p->most = read_most(f, p->most);
    read_variables(f);
}

bool params_put(const struct params *p, struct job *j, size_t i)
{
    j->sampler = p->sampler;
    j->sampler.seed = (p->any_seed ? cli_random_seed() : p->sampler.seed) + i;
    j->most = p->most;
    j->stop_loops = p->stop_loops;
    j->loras = p->loras;
    j->logprobs = p->logprobs;
    for (size_t k = 0; k < p->n_stop; k++)
        if (!(j->stop[k] = strdup(p->stop[k])))
            return false;
    return bias_copy(&j->bias, &p->bias) && steps_copy(&j->steps, &p->steps, &j->sampler);
}
