#include "parameters.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table */

enum {
    CHATS = API_CHAT | API_OLLAMA_CHAT | API_MESSAGES,
    TALKS = CHATS | API_RESPONSES,
    TEMPLATED = TALKS | API_OLLAMA_TEXT,
    OPENAI = API_CHAT | API_TEXT,
    OLLAMA = API_OLLAMA_CHAT | API_OLLAMA_TEXT,
    REQUESTS = OPENAI | API_NATIVE | OLLAMA | API_MESSAGES | API_RESPONSES | API_INFILL,
    ANSWERS = REQUESTS | API_OPTIONS,
    ALL = ANSWERS | API_EMBED | API_TOKENS | API_RERANK,
};

enum meaning { HONOURED, ACCEPTED, REFUSED };

/* Of rows with the same name, the first one for the API counts. idle: the values without effect of
   a refused parameter, as JSON without spaces, separated by spaces; NULL: `empty`. */
static const struct parameter {
    const char *name;
    unsigned apis;
    enum meaning meaning;
    const char *idle;
} table[] = {
    /* the prompt */
    {"messages", CHATS, HONOURED, NULL},
    {"prompt", API_TEXT | API_NATIVE | API_OLLAMA_TEXT | API_EMBED | API_INFILL, HONOURED, NULL},
    {"input", API_EMBED | API_RESPONSES, HONOURED, NULL},
    {"instructions", API_RESPONSES, HONOURED, NULL},
    {"previous_response_id", API_RESPONSES, HONOURED, NULL},
    {"conversation", API_RESPONSES, REFUSED, NULL},
    {"prompt", API_RESPONSES, REFUSED, NULL}, /* a template at OpenAI */
    {"truncation", TEMPLATED, HONOURED, NULL},
    {"truncation", API_TEXT | API_NATIVE | API_INFILL | API_OPTIONS, REFUSED, "\"disabled\""},
    {"content", API_EMBED | API_TOKENS, HONOURED, NULL},
    {"tokens", API_TOKENS, HONOURED, NULL},
    {"add_special", API_TOKENS, HONOURED, NULL},
    {"parse_special", API_TOKENS, HONOURED, NULL},
    {"with_pieces", API_TOKENS, HONOURED, NULL},
    {"system", API_OLLAMA_TEXT | API_MESSAGES, HONOURED, NULL},
    {"raw", API_OLLAMA_TEXT, HONOURED, NULL},
    {"chat_template_kwargs", TEMPLATED, HONOURED, NULL},
    {"enable_thinking", TEMPLATED, HONOURED, NULL},
    {"reasoning_effort", TEMPLATED, HONOURED, NULL},
    {"think", OLLAMA, HONOURED, NULL},
    {"thinking", API_MESSAGES, HONOURED, NULL},
    {"reasoning", API_RESPONSES, HONOURED, NULL},
    {"tools", TALKS, HONOURED, NULL},
    {"tool_choice", TALKS, HONOURED, NULL},
    {"parallel_tool_calls", TALKS, HONOURED, NULL},
    {"tools", ANSWERS, REFUSED, NULL},
    {"tool_choice", ANSWERS, ACCEPTED, NULL}, /* there are no tools */
    {"parallel_tool_calls", ANSWERS, ACCEPTED, NULL},
    {"max_tool_calls", API_RESPONSES, ACCEPTED, NULL}, /* of tools that the server would call */
    {"functions", ANSWERS, REFUSED, NULL},
    {"function_call", ANSWERS, ACCEPTED, NULL},
    {"add_generation_prompt", TEMPLATED, HONOURED, NULL},
    {"continue_final_message", TEMPLATED, HONOURED, NULL},
    {"add_generation_prompt", ANSWERS, ACCEPTED, NULL}, /* there is no template */
    {"continue_final_message", ANSWERS, ACCEPTED, NULL},
    {"chat_template", ANSWERS, REFUSED, NULL},
    {"template", ANSWERS, REFUSED, NULL},
    {"context", ANSWERS, REFUSED, NULL},
    {"context_management", API_MESSAGES, HONOURED, NULL},
    {"context_management", API_RESPONSES, REFUSED, NULL},
    {"mcp_servers", API_MESSAGES, REFUSED, NULL},
    {"container", API_MESSAGES, REFUSED, NULL},
    {"documents", ANSWERS, REFUSED, NULL},
    {"images", ANSWERS, REFUSED, NULL},
    {"image_data", ANSWERS, REFUSED, NULL},
    {"input_prefix", API_INFILL, HONOURED, NULL},
    {"input_suffix", API_INFILL, HONOURED, NULL},
    {"input_extra", API_INFILL, REFUSED, NULL},
    {"suffix", API_TEXT, HONOURED, NULL},
    {"input_prefix", ANSWERS, REFUSED, NULL},
    {"input_suffix", ANSWERS, REFUSED, NULL},
    {"suffix", ANSWERS, REFUSED, NULL},
    {"truncate_prompt_tokens", ALL, REFUSED, "null"},
    {"web_search_options", ANSWERS, REFUSED, "null"},
    {"truncate", API_EMBED, HONOURED, NULL},
    {"truncate", OLLAMA, HONOURED, NULL},
    {"shift", OLLAMA, ACCEPTED, NULL},    /* a full context ends the answer */

    /* its tokens */
    {"temperature", ANSWERS, HONOURED, NULL},
    {"top_k", ANSWERS, HONOURED, NULL},
    {"top_p", ANSWERS, HONOURED, NULL},
    {"min_p", ANSWERS, HONOURED, NULL},
    {"repeat_penalty", ANSWERS, HONOURED, NULL},
    {"repeat_last_n", ANSWERS, HONOURED, NULL},
    {"frequency_penalty", ANSWERS, HONOURED, NULL},
    {"presence_penalty", ANSWERS, HONOURED, NULL},
    {"logit_bias", ANSWERS, HONOURED, NULL},
    {"seed", ANSWERS, HONOURED, NULL},
    {"repetition_penalty", ANSWERS, REFUSED, "1"},
    {"penalize_newline", ANSWERS, REFUSED, "true"},
    {"penalize_nl", ANSWERS, REFUSED, "true"},
    {"no_repeat_ngram_size", ANSWERS, REFUSED, NULL},
    {"dry_multiplier", ANSWERS, HONOURED, NULL},
    {"dry_base", ANSWERS, HONOURED, NULL},
    {"dry_allowed_length", ANSWERS, HONOURED, NULL},
    {"dry_penalty_last_n", ANSWERS, HONOURED, NULL},
    {"dry_sequence_breakers", ANSWERS, HONOURED, NULL},
    {"xtc_probability", ANSWERS, HONOURED, NULL},
    {"xtc_threshold", ANSWERS, HONOURED, NULL},
    {"typical_p", ANSWERS, HONOURED, NULL},
    {"typ_p", ANSWERS, HONOURED, NULL},
    {"tfs_z", ANSWERS, REFUSED, "1"},
    {"top_a", ANSWERS, REFUSED, NULL},
    {"top_n_sigma", ANSWERS, HONOURED, NULL},
    {"smoothing_factor", ANSWERS, REFUSED, NULL},
    {"smoothing_curve", ANSWERS, REFUSED, "1"},
    {"epsilon_cutoff", ANSWERS, REFUSED, NULL},
    {"eta_cutoff", ANSWERS, REFUSED, NULL},
    {"guidance_scale", ANSWERS, REFUSED, "1"},
    {"negative_prompt", ANSWERS, REFUSED, NULL},
    {"dynamic_temperature", ANSWERS, REFUSED, NULL},
    {"temperature_last", ANSWERS, REFUSED, NULL},
    {"adaptive_target", ANSWERS, REFUSED, "-1"},
    {"mirostat", ANSWERS, HONOURED, NULL},
    {"mirostat_tau", ANSWERS, HONOURED, NULL},
    {"mirostat_eta", ANSWERS, HONOURED, NULL},
    {"dynatemp_range", ANSWERS, HONOURED, NULL},
    {"dynatemp_exponent", ANSWERS, HONOURED, NULL},
    {"min_keep", ANSWERS, REFUSED, "0 1"},
    {"samplers", ANSWERS, REFUSED, NULL},
    {"use_beam_search", ANSWERS, REFUSED, NULL},
    {"length_penalty", ANSWERS, REFUSED, "1"},
    {"bad_words", ANSWERS, REFUSED, NULL},
    {"allowed_token_ids", ANSWERS, REFUSED, NULL},
    {"lora", ANSWERS, HONOURED, NULL},
    {"lora", API_EMBED | API_RERANK, REFUSED, NULL},
    {"verbosity", ANSWERS, REFUSED, "\"medium\""},

    /* its length */
    {"max_tokens", ANSWERS, HONOURED, NULL},
    {"max_completion_tokens", ANSWERS, HONOURED, NULL},
    {"max_output_tokens", API_RESPONSES, HONOURED, NULL},
    {"n_predict", ANSWERS, HONOURED, NULL},
    {"num_predict", ANSWERS, HONOURED, NULL},
    {"stop", ANSWERS, HONOURED, NULL},
    {"stop_sequences", API_MESSAGES, HONOURED, NULL},
    {"stop_token_ids", ANSWERS, REFUSED, NULL},
    {"include_stop_str_in_output", ANSWERS, REFUSED, NULL},
    {"ignore_eos", ANSWERS, HONOURED, NULL},
    {"min_tokens", ANSWERS, HONOURED, NULL},
    {"n_indent", ANSWERS, REFUSED, NULL},
    {"t_max_predict_ms", ANSWERS, REFUSED, "-1 0"},
    {"reasoning_budget", ANSWERS, HONOURED, NULL},
    {"thinking_budget_tokens", ANSWERS, HONOURED, NULL},
    {"stop_loops", ANSWERS, HONOURED, NULL},

    /* its form */
    {"response_format", REQUESTS, HONOURED, NULL},
    {"json_schema", REQUESTS, HONOURED, NULL},
    {"grammar", REQUESTS, HONOURED, NULL},
    {"format", OLLAMA, HONOURED, NULL},
    {"response_format", API_OPTIONS, REFUSED, NULL}, /* they are members of the request itself */
    {"json_schema", API_OPTIONS, REFUSED, NULL},
    {"grammar", API_OPTIONS, REFUSED, NULL},
    {"format", API_OPTIONS, REFUSED, NULL},
    {"output_config", API_MESSAGES, HONOURED, NULL},
    {"text", API_RESPONSES, HONOURED, NULL},
    {"grammar_lazy", ANSWERS, REFUSED, NULL},
    {"regex", ANSWERS, REFUSED, NULL},
    {"guided_json", ANSWERS, REFUSED, NULL},
    {"guided_regex", ANSWERS, REFUSED, NULL},
    {"guided_choice", ANSWERS, REFUSED, NULL},
    {"guided_grammar", ANSWERS, REFUSED, NULL},
    {"structured_outputs", ANSWERS, REFUSED, NULL},
    {"modalities", ANSWERS, REFUSED, "[\"text\"]"},
    {"audio", ANSWERS, ACCEPTED, NULL}, /* of no effect without such a modality */
    {"reasoning_format", ANSWERS, REFUSED, "\"auto\" \"deepseek\""},
    {"parse_tool_calls", ANSWERS, REFUSED, "true"},
    {"skip_special_tokens", ANSWERS, REFUSED, "true"},
    {"spaces_between_special_tokens", ANSWERS, REFUSED, "true"},

    /* the reply */
    {"stream", REQUESTS, HONOURED, NULL},
    {"background", API_RESPONSES, REFUSED, NULL},
    {"include", API_RESPONSES, HONOURED, NULL},
    {"stream_options", OPENAI, HONOURED, NULL},
    {"stream_options", ANSWERS, ACCEPTED, NULL},
    {"return_progress", OPENAI, HONOURED, NULL},
    {"return_progress", ANSWERS, ACCEPTED, NULL},
    {"n", OPENAI, HONOURED, NULL},
    {"n", ANSWERS, REFUSED, "1"},
    {"best_of", ANSWERS, REFUSED, "1"},
    {"echo", API_TEXT, HONOURED, NULL},
    {"echo", ANSWERS, REFUSED, NULL},
    {"logprobs", OPENAI, HONOURED, NULL},
    {"logprobs", ANSWERS, REFUSED, NULL},
    {"top_logprobs", API_CHAT, HONOURED, NULL},
    {"top_logprobs", ANSWERS, REFUSED, NULL},
    {"prompt_logprobs", ANSWERS, REFUSED, "null"},
    {"n_probs", ANSWERS, REFUSED, NULL},
    {"post_sampling_probs", ANSWERS, ACCEPTED, NULL}, /* of no effect without n_probs */
    {"return_tokens", API_NATIVE | API_INFILL, HONOURED, NULL},
    {"return_tokens", ANSWERS, REFUSED, NULL},
    {"options", OLLAMA, HONOURED, NULL},
    {"options", API_EMBED, ACCEPTED, NULL},
    {"timings_per_token", ANSWERS, ACCEPTED, NULL},
    {"response_fields", ANSWERS, ACCEPTED, NULL},

    /* vectors */
    {"encoding_format", API_EMBED, HONOURED, NULL},
    {"dimensions", API_EMBED, HONOURED, NULL},
    {"embd_normalize", API_EMBED, HONOURED, NULL},
    {"normalize", API_EMBED, REFUSED, "true"},
    {"input_type", API_EMBED, HONOURED, NULL},
    {"prompt_name", API_EMBED, HONOURED, NULL},

    /* scores */
    {"query", API_RERANK, HONOURED, NULL},
    {"documents", API_RERANK, HONOURED, NULL},
    {"texts", API_RERANK, HONOURED, NULL},
    {"top_n", API_RERANK, HONOURED, NULL},
    {"return_documents", API_RERANK, HONOURED, NULL},
    {"return_text", API_RERANK, HONOURED, NULL},
    {"truncate", API_RERANK, HONOURED, NULL},
    {"raw_scores", API_RERANK, REFUSED, NULL},
    {"truncation_direction", API_RERANK, REFUSED, "\"Right\" \"right\""},
    {"max_tokens_per_doc", API_RERANK, REFUSED, NULL},
    {"max_chunks_per_doc", API_RERANK, REFUSED, "1"},
    {"rank_fields", API_RERANK, REFUSED, "[\"text\"]"},

    /* who asks, and for how long the model stays: always */
    {"model", ALL, ACCEPTED, NULL},
    {"user", ALL, ACCEPTED, NULL},
    {"store", API_RESPONSES, HONOURED, NULL},
    {"store", ALL, ACCEPTED, NULL},
    {"metadata", ALL, ACCEPTED, NULL},
    {"service_tier", ALL, ACCEPTED, NULL},
    {"safety_identifier", ALL, ACCEPTED, NULL},
    {"inference_geo", API_MESSAGES, ACCEPTED, NULL},
    {"user_profile_id", API_MESSAGES, ACCEPTED, NULL},
    {"workspace_id", API_MESSAGES, ACCEPTED, NULL},
    {"diagnostics", API_MESSAGES, ACCEPTED, NULL},
    {"speed", API_MESSAGES, ACCEPTED, NULL},
    {"priority", ALL, ACCEPTED, NULL},
    {"request_id", ALL, ACCEPTED, NULL},
    {"keep_alive", ALL, ACCEPTED, NULL},

    /* how it is computed: as the program's options say */
    {"cache_prompt", ALL, ACCEPTED, NULL},
    {"cache_control", API_MESSAGES, ACCEPTED, NULL},
    {"cache_salt", ALL, ACCEPTED, NULL},
    {"prompt_cache_key", ALL, ACCEPTED, NULL},
    {"prompt_cache_retention", ALL, ACCEPTED, NULL},
    {"id_slot", ALL, ACCEPTED, NULL},
    {"slot_id", ALL, ACCEPTED, NULL},
    {"n_keep", ALL, ACCEPTED, NULL},
    {"n_discard", ALL, ACCEPTED, NULL},
    {"prediction", ALL, ACCEPTED, NULL},
    {"backend_sampling", ALL, ACCEPTED, NULL},
    {"speculative.n_max", ALL, ACCEPTED, NULL},
    {"speculative.n_min", ALL, ACCEPTED, NULL},
    {"speculative.p_min", ALL, ACCEPTED, NULL},
    {"num_ctx", API_OPTIONS, ACCEPTED, NULL},
    {"num_keep", API_OPTIONS, ACCEPTED, NULL},
    {"num_batch", API_OPTIONS, ACCEPTED, NULL},
    {"num_gpu", API_OPTIONS, ACCEPTED, NULL},
    {"main_gpu", API_OPTIONS, ACCEPTED, NULL},
    {"num_thread", API_OPTIONS, ACCEPTED, NULL},
    {"num_gqa", API_OPTIONS, ACCEPTED, NULL},
    {"numa", API_OPTIONS, ACCEPTED, NULL},
    {"low_vram", API_OPTIONS, ACCEPTED, NULL},
    {"f16_kv", API_OPTIONS, ACCEPTED, NULL},
    {"use_mmap", API_OPTIONS, ACCEPTED, NULL},
    {"use_mlock", API_OPTIONS, ACCEPTED, NULL},
    {"vocab_only", API_OPTIONS, ACCEPTED, NULL},
    {"logits_all", API_OPTIONS, ACCEPTED, NULL},
    {"embedding_only", API_OPTIONS, ACCEPTED, NULL},
    {"rope_frequency_base", API_OPTIONS, REFUSED, NULL},
    {"rope_frequency_scale", API_OPTIONS, REFUSED, "0 1"},
};
enum { ROWS = sizeof table / sizeof *table };

static const char empty[] = "0 false \"\" [] {}";

static const struct parameter *find(const char *name, enum api api)
{
    for (const struct parameter *p = table; p < table + ROWS; p++)
        if (p->apis & api && strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

bool parameters_honours(const char *name, enum api api)
{
    const struct parameter *p = find(name, api);
    return p && p->meaning == HONOURED;
}

/* ---- values without effect */

static bool is_number(const json_t *v, const char *word)
{
    char *end;
    double x = strtod(word, &end);
    return json_is_number(v) && end != word && json_number_value(v) == x;
}

static bool is_idle(const struct parameter *p, const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *word = p->idle ? p->idle : empty;
    size_t n = text ? strlen(text) : 0;
    bool found = json_is_null(v); /* is absent */
    while (*word && !found) {
        size_t len = strcspn(word, " ");
        found = is_number(v, word) || (n == len && memcmp(word, text, n) == 0);
        word += len + strspn(word + len, " ");
    }
    free(text);
    return found;
}

/* ---- names that are not in the table */

enum { SAID = 64, MOST_NAME = 80 };

static uint64_t hash(const char *p)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    return h;
}

/* The clients' thread alone calls this. After SAID names it says nothing more: clients choose the
   names, and standard error may be a file. */
static void say_unknown(const char *name)
{
    static uint64_t said[SAID];
    static size_t n;
    uint64_t h = hash(name);
    size_t i = 0, len = strlen(name);
    while (i < n && said[i] != h)
        i++;
    if (i < n || n == SAID)
        return;
    said[n++] = h;
    fputs("tuffet: unknown parameter ", stderr);
    cli_put_escaped(stderr, name, len < MOST_NAME ? len : MOST_NAME);
    fputs(" of a request is ignored\n", stderr);
}

void parameters_check(struct fields *f, const json_t *all, enum api api)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)all, name, value)
    {
        const struct parameter *p = find(name, api);
        if (!p) {
            say_unknown(name);
        } else if (p->meaning == REFUSED && !is_idle(p, value)) {
            f->unsupported |= !f->failed;
            fields_fail(f, "%s is not supported, and would change the answer", name);
        }
    }
}
