/* Options that tuffet serve and tuffet batch share. */
#ifndef SERVE_SHARED_OPTIONS_H
#define SERVE_SHARED_OPTIONS_H

#include "server.h"
#include "tools/cli/power.h"

/* Bounds of answers, and vectors. */
extern const struct cli_option shared_option_list[];

/* Gives the options their values. */
void shared_options_put(struct server_options *o);

/* The rows of the groups of options that follow the command's own. */
#define SHARED_OPTION_GROUPS                                                                       \
    {NULL, shared_option_list}, {NULL, template_option_list}, {NULL, template_file_option_list},   \
        {"Sampling, where a request does not say it", cli_sampling_option_list},                   \
        {"Context of a slot", cli_session_option_list}, {NULL, cli_lookup_option_list},            \
        {NULL, cli_lora_option_list}, {"Model and machine", cli_tokenizer_option_list},            \
        {NULL, cli_model_option_list}, {NULL, cli_thread_option_list}, {NULL, power_option_list},  \
        {NULL, cli_verbose_option_list}

#endif
