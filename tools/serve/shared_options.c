#include "shared_options.h"

static struct {
    int32_t n_most;
    float seconds;
    bool truncate;
    const char *pooling;
} opt = {.n_most = -1};

const struct cli_option shared_option_list[] = {
    {0, "pooling", CLI_TEXT, &opt.pooling, "HOW:mean|last|cls",
     "embed a text as the mean of its tokens' vectors (mean), or as the vector of the last (last) "
     "or, of an encoder, the first token (cls) (default by the model file, or else mean)"},
    {'n', "tokens", CLI_LIMIT, &opt.n_most, "N",
     "end an answer after N tokens, even if the request asks for more (default when the model ends "
     "it, or the context is full)"},
    {0, "time-limit", CLI_REAL, &opt.seconds, "SECONDS",
     "end an answer SECONDS after its prompt began to be computed (default no limit)"},
    {0, "truncate", CLI_FLAG, &opt.truncate, NULL,
     "drop the oldest turns of a conversation that outgrows the context, unless the request has "
     "\"truncation\": \"disabled\" (default an error, 400)"},
    {0},
};

void shared_options_put(struct server_options *o)
{
    o->n_most = opt.n_most;
    o->seconds = opt.seconds;
    o->truncate = opt.truncate;
    o->pooling = opt.pooling;
}
