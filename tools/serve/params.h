/* Options of an answer that all dialects have: sampling, length, stops, form. */
#ifndef SERVE_PARAMS_H
#define SERVE_PARAMS_H

#include "fields.h"
#include "server.h"

struct params {
    struct tft_sampler sampler;
    struct steps steps;
    struct bias bias;
    int32_t think_budget; /* most tokens of thoughts: after them </think> is written, and the answer
                             follows; -1: no bound. Any API may set it after params_read */
    bool stop_loops;      /* as job->stop_loops */
    struct loras loras;
    bool any_seed; /* the seed is a random one */
    int64_t most;  /* as job->most */
    const char *stop[JOB_STOPS];
    size_t n_stop;
    int logprobs; /* as job->logprobs */
};

/* The defaults, from the program's options. */
struct params params_default(void);

/* Reads temperature, top_p, top_k, min_p, repeat_penalty, repeat_last_n, the settings of steps.h,
   seed, stop, biases, adapters and the lengths, by the names in all clients. Members that are
   variables of templates become members of `chat_template_kwargs`. */
void params_read(struct params *p, struct fields *f, const struct tft_model *m);

void params_free(struct params *p);

/* The member reasoning_budget, or llama.cpp's thinking_budget_tokens; -1: there is none. */
int32_t params_think_budget(struct fields *f);

/* Copies the options into job number i of a request; false: out of memory. */
bool params_put(const struct params *p, struct job *j, size_t i);

#endif
