#include "steps.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BREAKERS = 16, MOST_BREAKER = 64 }; /* texts; bytes of one */

static float number(struct fields *f, const char *name, double least, double most, float otherwise)
{
    return (float)field_number(f, name, least, most, (double)otherwise);
}

/* In a sampler, 0 stands for a default. */
static float positive(float x) { return x > 0 ? x : FLT_MIN; }

/* ---- DRY */

/* The texts of dry_sequence_breakers, or else of the program. */
static void read_breakers(struct steps *s, struct fields *f, const struct tft_model *m)
{
    const char *own[MOST_BREAKERS];
    const json_t *list = field(f, "dry_sequence_breakers");
    size_t n = json_array_size(list);
    const char *const *texts = list ? own : cli_breaker_texts(&n);
    if (list && (!json_is_array(list) || n > MOST_BREAKERS))
        fields_fail(f, "dry_sequence_breakers must be a list of at most %d texts", MOST_BREAKERS);
    for (size_t i = 0; list && i < n && !f->failed; i++) {
        const json_t *one = json_array_get(list, i);
        size_t len = json_string_length(one);
        own[i] = json_string_value(one);
        if (!len || len > MOST_BREAKER || strlen(own[i]) != len)
            fields_fail(f, "dry_sequence_breakers has a text that is empty or longer than %d bytes",
                        MOST_BREAKER);
    }
    if (f->failed || !(s->more.dry_multiplier > 0))
        return;
    if (!cli_breakers(m, texts, n, &s->breakers, &s->more.n_dry_breakers))
        fields_fail(f, "out of memory");
}

static void read_dry(struct steps *s, struct fields *f, const struct tft_model *m)
{
    struct tft_sampler_more *o = &s->more;
    int64_t last = cli_sampling_options.dry_last;
    last = field_integer(f, "dry_penalty_last_n", -1, INT32_MAX, last);
    o->dry_multiplier = number(f, "dry_multiplier", 0, 100, cli_sampling_options.dry_multiplier);
    o->dry_multiplier = last ? o->dry_multiplier : 0;
    o->dry_last = last < 0 ? 0 : (uint32_t)last;
    o->dry_base = number(f, "dry_base", 1, 100, o->dry_base);
    o->dry_allowed_length =
        (uint32_t)field_integer(f, "dry_allowed_length", 1, INT32_MAX, o->dry_allowed_length);
    read_breakers(s, f, m);
}

/* ---- the others */

static void read_mirostat(struct tft_sampler_more *o, struct fields *f)
{
    int64_t version = field_integer(f, "mirostat", 0, 2, o->mirostat_tau > 0 ? 2 : 0);
    float tau = number(f, "mirostat_tau", 0, 100, cli_sampling_options.mirostat_tau);
    o->mirostat_eta = positive(number(f, "mirostat_eta", 0, 100, o->mirostat_eta));
    o->mirostat_tau = version ? positive(tau) : 0;
    f->unsupported |= version == 1 && !f->failed;
    if (version == 1)
        fields_fail(f, "mirostat 1 is not supported: mirostat 2 is");
}

/* llama.cpp's request has typical_p, its program's option typ_p. */
static float read_typical(struct fields *f, float otherwise)
{
    float p = number(f, "typical_p", 0, 1, otherwise), same = number(f, "typ_p", 0, 1, p);
    if (field(f, "typical_p") && same != p)
        fields_fail(f, "typical_p and typ_p differ: send one of them");
    return same;
}

void steps_read(struct steps *s, struct fields *f, const struct tft_model *m)
{
    struct tft_sampler_more *o = &s->more;
    *s = (struct steps){.more = cli_sampler_more()};
    o->dry_breakers = NULL;
    o->n_dry_breakers = 0;
    o->xtc_probability = number(f, "xtc_probability", 0, 1, o->xtc_probability);
    o->xtc_threshold = positive(number(f, "xtc_threshold", 0, 1, o->xtc_threshold));
    o->typical_p = read_typical(f, o->typical_p);
    o->top_n_sigma = number(f, "top_n_sigma", -1, 100, o->top_n_sigma);
    o->dynatemp_range = number(f, "dynatemp_range", 0, 100, o->dynatemp_range);
    o->dynatemp_exponent = positive(number(f, "dynatemp_exponent", 0, 100, o->dynatemp_exponent));
    read_mirostat(o, f);
    read_dry(s, f, m);
    o->dry_breakers = s->breakers;
}

bool steps_copy(struct steps *to, const struct steps *from, struct tft_sampler *z)
{
    size_t n = from->more.n_dry_breakers;
    *to = *from;
    z->more = cli_has_more(&to->more) ? &to->more : NULL;
    to->breakers = n ? malloc(n * sizeof *to->breakers) : NULL;
    to->more.dry_breakers = to->breakers;
    if (to->breakers)
        memcpy(to->breakers, from->breakers, n * sizeof *to->breakers);
    return !n || to->breakers;
}

void steps_free(struct steps *s) { free(s->breakers); }
