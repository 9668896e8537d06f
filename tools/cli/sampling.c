/* The options of sampling, and the samplers that they make. */
#define _POSIX_C_SOURCE 200809L
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/splitmix64.h"
#include "cli.h"

struct cli_sampling_options cli_sampling_options = {.temperature = 0.8f,
                                                    .top_p = 0.95f,
                                                    .min_p = 0.05f,
                                                    .repeat_last = 64,
                                                    .seed = CLI_ANY_SEED,
                                                    .typical_p = 1,
                                                    .dry_base = 1.75f,
                                                    .dry_allowed_length = 2,
                                                    .dry_last = -1,
                                                    .xtc_threshold = 0.1f,
                                                    .dynatemp_exponent = 1,
                                                    .mirostat_tau = 5,
                                                    .mirostat_eta = 0.1f};

const struct cli_option cli_sampling_option_list[] = {
    {0, "temp", CLI_REAL, &cli_sampling_options.temperature, "T",
     "temperature; 0 always takes the most likely token"},
    {0, "top-k", CLI_NUMBER, &cli_sampling_options.top_k, "K",
     "choose among the K most likely tokens; 0: among all (default all)"},
    {0, "top-p", CLI_SHARE, &cli_sampling_options.top_p, "P",
     "choose among the most likely tokens that together have the probability P; 0 always takes the "
     "most likely, 1 chooses among all"},
    {0, "min-p", CLI_SHARE, &cli_sampling_options.min_p, "P",
     "choose among tokens at least P times as likely as the most likely one"},
    {0, "typical", CLI_SHARE, &cli_sampling_options.typical_p, "P",
     "choose among the tokens with the most typical surprise that together have the probability P; "
     "0 and 1: among all"},
    {0, "top-nsigma", CLI_REAL, &cli_sampling_options.top_n_sigma, "N",
     "choose among tokens with a logit at most N standard deviations below the largest one "
     "(default "
     "off)"},
    {0, "xtc-probability", CLI_SHARE, &cli_sampling_options.xtc_probability, "P",
     "drop the most likely tokens with the probability P, if others that are likely remain "
     "(default "
     "off)"},
    {0, "xtc-threshold", CLI_SHARE, &cli_sampling_options.xtc_threshold, "P",
     "a token is likely for XTC if its probability is at least P"},
    {0, "dynatemp-range", CLI_REAL, &cli_sampling_options.dynatemp_range, "R",
     "move the temperature by at most R, upwards where many tokens are likely (default off)"},
    {0, "dynatemp-exp", CLI_REAL, &cli_sampling_options.dynatemp_exponent, "E",
     "exponent of the share of uncertainty that --dynatemp-range goes by"},
    {0, "mirostat", CLI_WORD, &cli_sampling_options.mirostat, "0|2",
     "2: keep the surprise of the text near --mirostat-ent, in place of the filters --top-k to "
     "--xtc-threshold"},
    {0, "mirostat-ent", CLI_REAL, &cli_sampling_options.mirostat_tau, "BITS",
     "surprise of a token that mirostat aims at"},
    {0, "mirostat-lr", CLI_REAL, &cli_sampling_options.mirostat_eta, "R",
     "how fast mirostat corrects itself"},
    {0, "repeat-penalty", CLI_REAL, &cli_sampling_options.repeat_penalty, "R",
     "divide the logits of recent tokens by R (default off)"},
    {0, "repeat-last", CLI_LIMIT, &cli_sampling_options.repeat_last, "N",
     "count the last N tokens as recent; 0: none, -1: all of the context"},
    {0, "dry-multiplier", CLI_REAL, &cli_sampling_options.dry_multiplier, "M",
     "lower the logits of tokens that would continue a repetition, by M and more the longer it is "
     "(default off)"},
    {0, "dry-base", CLI_REAL, &cli_sampling_options.dry_base, "B",
     "each further token of the repetition multiplies the penalty of DRY by B"},
    {0, "dry-allowed-length", CLI_COUNT, &cli_sampling_options.dry_allowed_length, "N",
     "begin the penalty of DRY with repetitions of N tokens; more than 256: never"},
    {0, "dry-penalty-last-n", CLI_LIMIT, &cli_sampling_options.dry_last, "N",
     "look for repetitions in the last N tokens; 0: none, -1: all of the context"},
    {0, "dry-sequence-breaker", CLI_TEXTS, &cli_sampling_options.dry_breakers, "TEXT",
     "end repetitions at tokens with TEXT in them; none: at no token (default newline, colon, "
     "quote "
     "and asterisk)"},
    {0, "min-tokens", CLI_NUMBER, &cli_sampling_options.min_tokens, "N",
     "do not end a text before it has N tokens"},
    {0, "ignore-eos", CLI_FLAG, &cli_sampling_options.ignore_eos, NULL,
     "do not let the model end a text"},
    {'s', "seed", CLI_SEED, &cli_sampling_options.seed, "N",
     "seed of the random generator; the same seed gives the same text (default -1: from the "
     "clock)"},
    {0},
};

uint64_t cli_random_seed(void)
{
    static uint64_t state;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    state ^= (uint64_t)t.tv_sec * 1000000007 + (uint64_t)t.tv_nsec;
    return tft_splitmix64(&state) % 1000000; /* short enough for a user to type it again */
}

/* ---- breakers of DRY */

const char *const *cli_breaker_texts(size_t *n)
{
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const struct cli_texts *t = &cli_sampling_options.dry_breakers;
    bool none = t->n && strcmp(t->p[t->n - 1], "none") == 0;
    *n = none ? 0 : t->n ? t->n : sizeof usual / sizeof *usual;
    return t->n ? t->p : usual;
}

/* The last token of a text that no token contains; -1: it has none. */
static int32_t last_token(const struct tft_model *m, const char *text)
{
    enum { MOST = 256 };
    int32_t ids[MOST];
    size_t n;
    bool good = tft_tokenize(m, text, strlen(text), TFT_CONTINUE, ids, MOST, &n) == TFT_OK && n;
    return good ? ids[n - 1] : -1;
}

/* The breakers, by their first bytes: most bytes of a vocabulary begin none. */
struct breakers {
    const char *const *texts; /* [n] */
    size_t n;
    bool first[256];
    bool found[CLI_MOST_TEXTS]; /* a token contains the text */
};

/* Whether a token's text contains a breaker. */
static bool breaks(struct breakers *b, const char *p, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; b->first[(unsigned char)p[i]] && t < b->n; t++) {
            size_t len = strlen(b->texts[t]);
            bool here = len && len <= n - i && memcmp(p + i, b->texts[t], len) == 0;
            b->found[t] |= here;
            any |= here;
        }
    return any;
}

/* Marks the tokens that contain a breaker, or else the last token of the breaker. */
static void mark(bool *marked, uint32_t n_vocab, const struct tft_model *m, struct breakers *b)
{
    for (size_t t = 0; t < b->n; t++)
        b->first[(unsigned char)*b->texts[t]] = true;
    for (uint32_t id = 0; id < n_vocab; id++) {
        size_t len;
        const char *p = tft_token_text(m, (int32_t)id, false, &len);
        marked[id] = breaks(b, p, len);
    }
    for (size_t t = 0; t < b->n; t++) {
        int32_t last = b->found[t] ? -1 : last_token(m, b->texts[t]);
        if (last >= 0)
            marked[last] = true;
    }
}

bool cli_breakers(const struct tft_model *m, const char *const *texts, size_t n_texts,
                  int32_t **ids, uint32_t *n)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    bool *marked = calloc(info.n_vocab + 1, sizeof *marked);
    *n = 0;
    if (marked)
        mark(marked, info.n_vocab, m, &(struct breakers){.texts = texts, .n = n_texts});
    for (uint32_t id = 0; marked && id < info.n_vocab; id++)
        *n += marked[id];
    *ids = marked ? malloc((*n + 1) * sizeof **ids) : NULL;
    for (uint32_t id = 0, i = 0; *ids && id < info.n_vocab; id++)
        if (marked[id])
            (*ids)[i++] = (int32_t)id;
    free(marked);
    return *ids;
}

/* ---- samplers */

static int32_t *breakers; /* of the options */
static uint32_t n_breakers;

int cli_open_sampling(const struct tft_model *m)
{
    size_t n;
    const char *const *texts = cli_breaker_texts(&n);
    if (!(cli_sampling_options.dry_multiplier > 0))
        return CLI_OK;
    return cli_breakers(m, texts, n, &breakers, &n_breakers) ? CLI_OK : cli_fail("out of memory");
}

void cli_close_sampling(void)
{
    free(breakers);
    breakers = NULL;
    n_breakers = 0;
}

struct tft_sampler cli_sampler(void)
{
    if (cli_sampling_options.seed == CLI_ANY_SEED)
        cli_sampling_options.seed = cli_random_seed();
    return cli_sampler_given();
}

/* In a sampler, 0 stands for a default. */
static float positive(float x) { return x > 0 ? x : FLT_MIN; }

struct tft_sampler_more cli_sampler_more(void)
{
    const struct cli_sampling_options *o = &cli_sampling_options;
    return (struct tft_sampler_more){
        .size = sizeof(struct tft_sampler_more),
        .dry_multiplier = o->dry_last ? o->dry_multiplier : 0,
        .dry_base = positive(o->dry_base),
        .dry_allowed_length = o->dry_allowed_length,
        .dry_last = o->dry_last < 0 ? 0 : (uint32_t)o->dry_last,
        .dry_breakers = breakers,
        .n_dry_breakers = n_breakers,
        .xtc_probability = o->xtc_probability,
        .xtc_threshold = positive(o->xtc_threshold),
        .typical_p = o->typical_p,
        .top_n_sigma = o->top_n_sigma,
        .mirostat_tau = o->mirostat ? positive(o->mirostat_tau) : 0,
        .mirostat_eta = positive(o->mirostat_eta),
        .dynatemp_range = o->dynatemp_range,
        .dynatemp_exponent = positive(o->dynatemp_exponent),
    };
}

bool cli_has_more(const struct tft_sampler_more *o)
{
    return o->dry_multiplier > 0 || o->xtc_probability > 0 || o->top_n_sigma > 0 ||
           o->mirostat_tau > 0 || o->dynatemp_range > 0 || (o->typical_p > 0 && o->typical_p < 1);
}

struct tft_sampler cli_sampler_given(void)
{
    const struct cli_sampling_options *o = &cli_sampling_options;
    static struct tft_sampler_more more; /* the samplers point to it */
    more = cli_sampler_more();
    return (struct tft_sampler){
        .temperature = o->temperature,
        .top_k = (int32_t)o->top_k,
        .top_p = positive(o->top_p),
        .min_p = o->min_p,
        .repeat_penalty = o->repeat_last ? o->repeat_penalty : 0,
        .repeat_last = o->repeat_last < 0 ? INT32_MAX : o->repeat_last,
        .seed = o->seed,
        .more = cli_has_more(&more) ? &more : NULL,
        .min_tokens = o->ignore_eos ? UINT32_MAX : o->min_tokens,
    };
}
