#include "tools/quantize/command_prefix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/parts.h"
#include "tools/quantize/round/prefix_pack.h"
#include "tools/quantize/search/cushion_search.h"
#include "tools/quantize/search/pivots.h"
#include "tools/quantize/windows.h"

enum { INTACT_AUTO, INTACT_NONE, INTACT_BOS };
enum { CUSHION_NONE, CUSHION_AUTO, CUSHION_EXHAUSTIVE, CUSHION_PAPER };
enum { LOOK_TOKENS = 4096 }; /* of the text, searched for outliers */

static struct {
    const char *intact_text, *intact_tokens;
    int intact, cushion, bits;
    uint32_t most, sample;
    float tau, cost;
} opt = {.most = 4, .tau = 0.5f, .cost = 0.02f};

const struct cli_option command_prefix_option_list[] = {
    {0, "intact", CLI_WORD, &opt.intact, "auto|none|bos",
     "store the keys and values of BOS as a prefix; auto: of BOS, if the model begins texts with "
     "it, and of tokens that are outliers in the text"},
    {0, "intact-text", CLI_TEXT, &opt.intact_text, "TEXT",
     "store BOS and TEXT as a prefix; <|names|> in TEXT become special tokens"},
    {0, "intact-tokens", CLI_TEXT, &opt.intact_tokens, "IDS",
     "store these tokens as a prefix, such as \"1,13\""},
    {0, "prefix-bits", CLI_WORD, &opt.bits, "16|8|4",
     "store the prefix with this many bits per number: F16, Q8_0 or Q4_1"},
    {0, "cushion", CLI_WORD, &opt.cushion, "none|auto|exhaustive|paper",
     "search tokens for the prefix that take the outliers of activations"},
    {0, "cushion-max", CLI_COUNT, &opt.most, "N",
     "limit the prefix to N tokens, including the tokens of --intact or --intact-tokens"},
    {0, "cushion-tau", CLI_REAL, &opt.tau, "T",
     "refuse a token unless it lowers the error below T times its value"},
    {0, "cushion-cost", CLI_REAL, &opt.cost, "C",
     "refuse a token that raises the loss on the text by more than C nats per token"},
    {0, "cushion-sample", CLI_COUNT, &opt.sample, "N",
     "judge candidates by text samples of N tokens (default 512, or fewer in a short context)"},
    {0},
};

int command_prefix_check(void)
{
    if ((opt.intact != INTACT_AUTO) + !!opt.intact_text + !!opt.intact_tokens > 1)
        return cli_usage("--intact, --intact-text and --intact-tokens exclude each other");
    if (opt.most > CUSHION_MAX)
        return cli_usage("--cushion-max is at most %d", CUSHION_MAX);
    return CLI_OK;
}

enum tft_dtype command_prefix_type(void)
{
    static const enum tft_dtype types[] = {TFT_F16, TFT_Q8_0, TFT_Q4_1};
    return types[opt.bits];
}

bool quantize_take_number(const char **p, uint32_t *n)
{
    size_t digits = strspn(*p, "0123456789");
    if (!digits || digits > 9)
        return false;
    *n = (uint32_t)strtoul(*p, NULL, 10);
    *p += digits;
    return true;
}

bool quantize_take_layers(const char **p, uint32_t *from, uint32_t *to)
{
    if (!quantize_take_number(p, from))
        return false;
    *to = *from;
    if (**p != '-')
        return true;
    ++*p;
    return quantize_take_number(p, to) && *from <= *to;
}

/* ---- given tokens */

static int read_tokens(struct command_prefix *f, const struct tft_model *m)
{
    f->ids = malloc((strlen(opt.intact_tokens) + 1) * sizeof *f->ids);
    if (!f->ids)
        return cli_fail("out of memory");
    for (const char *p = opt.intact_tokens;; p++) {
        uint32_t id;
        if (!quantize_take_number(&p, &id) || id >= m->n_vocab || (*p && *p != ','))
            return cli_usage("--intact-tokens takes token ids below %u like 1,13, not \"%s\"",
                             m->n_vocab, opt.intact_tokens);
        f->ids[f->n++] = (int32_t)id;
        if (!*p)
            return CLI_OK;
    }
}

/* BOS, if texts begin with it, and the given text. A text may spell BOS itself. */
static int read_text(struct command_prefix *f, const struct tft_model *m)
{
    const char *text = opt.intact_text ? opt.intact_text : "";
    int32_t bos = tft_token_bos(m);
    f->ids = cli_tokenize(m, text, strlen(text), TFT_ADD_BOS | TFT_PARSE_SPECIAL, &f->n);
    if (!f->ids)
        return CLI_FAILED;
    if (f->n > 1 && f->ids[0] == bos && f->ids[1] == bos)
        memmove(f->ids, f->ids + 1, --f->n * sizeof *f->ids);
    f->n_text = (uint32_t)f->n - (f->n && f->ids[0] == bos);
    return CLI_OK;
}

static int choose(struct command_prefix *f, const struct tft_model *m)
{
    if (opt.intact_tokens)
        return read_tokens(f, m);
    if (read_text(f, m) != CLI_OK)
        return CLI_FAILED;
    if (opt.intact == INTACT_NONE)
        f->n = 0;
    if (opt.intact != INTACT_BOS)
        return CLI_OK;
    f->ids[0] = tft_token_bos(m);
    f->n = 1;
    return f->ids[0] >= 0
               ? CLI_OK
               : cli_fail("%s: the vocabulary has no BOS for --intact bos", m->source.name);
}

/* Whether the text may determine the tokens of the prefix. */
static bool looks_for_pivots(void)
{
    return opt.intact == INTACT_AUTO && !opt.intact_text && !opt.intact_tokens &&
           opt.cushion != CUSHION_PAPER;
}

int command_prefix_choose(struct command_prefix *f, const struct tft_model *m)
{
    struct tft_error err;
    bool asked = opt.intact != INTACT_AUTO || opt.intact_text || opt.intact_tokens ||
                 opt.cushion != CUSHION_NONE;
    const char *piece =
        tft_parts_unknown(m, ~(TFT_PREFIX_PIECES | TFT_BIT(TFT_PIECE_ROPE_BY_CONTEXT)));
    if (!asked && piece) {
        fprintf(stderr, "tuffet: %s: made without a prefix: %s has %s\n", m->source.name,
                m->arch->name, piece);
        opt.intact = INTACT_NONE;
    }
    int status = choose(f, m);
    if (status == CLI_OK &&
        (f->n || looks_for_pivots() || opt.cushion != CUSHION_NONE) &&
        prefix_check_type(m, command_prefix_type(), &err) != TFT_OK)
        return cli_fail("%s", err.msg); /* before a search that takes minutes */
    return status;
}

/* Number of tokens that the search begins with. The tokens of --intact-text, except BOS, come after
   the found tokens. */
static size_t search_start(const struct command_prefix *f)
{
    return f->n - f->n_text;
}

uint32_t command_prefix_most(const struct command_prefix *f)
{
    bool searches = looks_for_pivots() || opt.cushion != CUSHION_NONE;
    size_t start = search_start(f);
    return (uint32_t)f->n + (searches && opt.most > start ? opt.most - (uint32_t)start : 0);
}

uint32_t command_prefix_start(const struct command_prefix *f, const struct tft_model *m)
{
    bool bos = f->n && f->ids[0] == tft_token_bos(m);
    return opt.intact_text ? (uint32_t)f->n : bos;
}

/* ---- the text's own outliers */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static void add_choice(struct command_prefix *f, const int32_t *token, size_t n)
{
    struct check_prefix *to = &f->choice[f->n_choices++];
    *to = (struct check_prefix){.n = (uint32_t)n};
    memcpy(to->token, token, n * sizeof *token);
}

static int set_tokens(struct command_prefix *f, const int32_t *token, size_t n)
{
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids)
        return cli_fail("out of memory");
    memcpy(ids, token, n * sizeof *ids);
    free(f->ids);
    f->ids = ids;
    f->n = n;
    return CLI_OK;
}

static int take(struct command_prefix *f, uint32_t choice)
{
    f->pivots = choice > 0 && choice <= f->n_pivots;
    return set_tokens(f, f->choice[choice].token, f->choice[choice].n);
}

int command_prefix_take(struct command_prefix *f, uint32_t choice)
{
    f->tried = true;
    return take(f, choice);
}

int command_prefix_look(struct command_prefix *f, struct tft_model *m, const int32_t *ids,
                        size_t n, uint32_t window)
{
    struct cli_progress bar;
    struct tft_error err;
    struct pivots found;
    bool stopped;
    struct pivots_opts o = {
        .n_windows = (uint32_t)(n / window),
        .window = window,
        .start = f->ids,
        .n_start = (uint32_t)f->n,
        .most = opt.most,
        .n_threads = (int)cli_model_options.threads,
        .progress = progress,
        .user = &bar,
    };
    if (!looks_for_pivots() || f->n > opt.most)
        return CLI_OK;
    int32_t *text = malloc((n + 1) * sizeof *text);
    if (!text)
        return cli_fail("out of memory");
    memcpy(text, ids, n * sizeof *text);
    o.n_windows =
        (uint32_t)(quantize_spread_windows(text, n, window, LOOK_TOKENS / window + 1) / window);
    o.text = text;
    cli_progress_begin(&bar, "looking for outliers");
    enum tft_status status = pivots_search(m, &o, &found, &stopped, &err);
    cli_progress_end(&bar);
    free(text);
    if (status != TFT_OK)
        return cli_fail("%s", err.msg);
    if (stopped)
        return CLI_INTERRUPTED;
    add_choice(f, f->ids, f->n);
    for (uint32_t i = 0; i < found.n; i++)
        add_choice(f, found.prefix[i].token, found.prefix[i].n);
    f->n_pivots = found.n;
    return found.n ? take(f, 1) : CLI_OK;
}

static bool is_choice(const struct command_prefix *f, const struct check_prefix *p)
{
    for (uint32_t i = 0; i < f->n_choices; i++)
        if (f->choice[i].n == p->n &&
            memcmp(f->choice[i].token, p->token, p->n * sizeof *p->token) == 0)
            return true;
    return false;
}

void command_prefix_add_first(struct command_prefix *f, const int32_t *token, size_t n)
{
    if (!f->n_choices)
        return;
    struct check_prefix p = f->choice[0];
    for (size_t i = 0; i < n && p.n < opt.most; i++)
        p.token[p.n++] = token[i];
    if (!is_choice(f, &p))
        add_choice(f, p.token, p.n);
}

/* ---- the search */

/* path with a suffix, to be freed; NULL if memory is short. */
static char *beside(const char *path, const char *suffix)
{
    size_t len = strlen(path) + strlen(suffix) + 1;
    char *name = malloc(len);
    if (name)
        snprintf(name, len, "%s%s", path, suffix);
    return name;
}

struct search_bar {
    struct cli_progress bar;
    uint32_t round;
    char title[64];
};

/* Shows a bar for each round, as the number of rounds is not known. */
static bool search_progress(void *user, uint32_t round, double done)
{
    struct search_bar *b = user;
    if (round != b->round) {
        cli_progress_end(&b->bar);
        b->round = round;
        snprintf(b->title, sizeof b->title, "searching, round %u", (unsigned)round + 1);
        cli_progress_begin(&b->bar, b->title);
    }
    cli_progress_at(&b->bar, done);
    return !cli_interrupted();
}

/* Puts the found tokens before the rest of the prefix. */
static int replace_start(struct command_prefix *f)
{
    const struct cushion *c = &f->cushion;
    size_t start = search_start(f), rest = f->n - start;
    int32_t *ids = malloc((c->n + rest + 1) * sizeof *ids);
    if (!ids)
        return cli_fail("out of memory");
    memcpy(ids, c->token, c->n * sizeof *ids);
    memcpy(ids + c->n, f->ids + start, rest * sizeof *ids);
    int status = set_tokens(f, ids, c->n + rest);
    free(ids);
    if (f->n_choices && c->n > start)
        add_choice(f, f->ids, f->n);
    return status;
}

int command_prefix_search(struct command_prefix *f, struct tft_model *m, const char *out,
                           const int32_t *ids, size_t n)
{
    uint32_t room = m->n_ctx > CUSHION_MAX + 1 ? m->n_ctx - CUSHION_MAX - 1 : 0,
             sample = opt.sample ? opt.sample : 512;
    size_t start = search_start(f);
    if (opt.cushion == CUSHION_NONE)
        return CLI_OK;
    if (start > opt.most)
        return cli_usage("--cushion-max %u is less than the %zu tokens that the prefix begins with",
                         opt.most, start);
    sample = opt.sample || sample < room ? sample : room;
    f->checkpoint = beside(out, ".cushion");
    int32_t *text = malloc((n + 1) * sizeof *text);
    if (!text || !f->checkpoint) {
        free(text);
        return cli_fail("out of memory");
    }
    memcpy(text, ids, n * sizeof *text);

    struct search_bar bar = {0};
    struct cushion_opts o = {
        .text = text,
        .n_text = sample ? quantize_spread_windows(text, n, sample, CUSHION_ROUNDS) : n,
        .sample = sample,
        .start = f->ids,
        .n_start = (uint32_t)start,
        .most = opt.most,
        .tau = (double)opt.tau,
        .cost = opt.cushion == CUSHION_PAPER ? (double)INFINITY : (double)opt.cost,
        .exhaustive = opt.cushion == CUSHION_EXHAUSTIVE,
        .paper = opt.cushion == CUSHION_PAPER,
        .n_threads = (int)cli_model_options.threads,
        .checkpoint = f->checkpoint,
        .progress = search_progress,
        .user = &bar,
    };
    struct tft_error err;
    bool stopped;
    cli_progress_begin(&bar.bar, "searching, round 1");
    enum tft_status status = cushion_search(m, &o, &f->cushion, &stopped, &err);
    cli_progress_end(&bar.bar);
    free(text);
    if (status != TFT_OK)
        return cli_fail("%s", err.msg);
    if (stopped)
        return CLI_INTERRUPTED;
    f->searched = true;
    return replace_start(f);
}

void command_prefix_free(struct command_prefix *f, int status)
{
    if (f->checkpoint && status == CLI_OK)
        remove(f->checkpoint);
    if (f->cushion.kept && status == CLI_INTERRUPTED)
        fprintf(stderr, "stopped: the same command resumes from %s\n", f->checkpoint);
    free(f->checkpoint);
    free(f->ids);
}

/* ---- the report */

void command_prefix_report_choice(const struct command_prefix *f, const struct tft_model *m)
{
    for (uint32_t i = 0; i < f->n_choices; i++) {
        const struct check_prefix *p = &f->choice[i];
        fprintf(stderr, "prefix: divergence %.4f nats with", p->nats);
        for (uint32_t t = 0; t < p->n; t++) {
            size_t len;
            const char *piece = tft_token_text(m, p->token[t], true, &len);
            fprintf(stderr, " %d \"", (int)p->token[t]);
            cli_put_escaped(stderr, piece, len);
            putc('"', stderr);
        }
        fputs(p->n ? "\n" : " no prefix\n", stderr);
    }
}

void command_prefix_json_choice(const struct command_prefix *f)
{
    putchar('[');
    for (uint32_t i = 0; f->tried && i < f->n_choices; i++) {
        const struct check_prefix *p = &f->choice[i];
        fputs(i ? ",{\"tokens\":[" : "{\"tokens\":[", stdout);
        for (uint32_t t = 0; t < p->n; t++)
            printf(t ? ",%d" : "%d", (int)p->token[t]);
        putchar(']');
        cli_json_number("divergence", p->nats);
        putchar('}');
    }
    putchar(']');
}

static void report_round(const struct tft_model *m, const struct cushion_round *r)
{
    size_t len;
    const char *piece = tft_token_text(m, r->token, true, &len);
    fprintf(stderr, "cushion: error %.4g -> %.4g, %.2g nats per token: token %d, \"", r->before,
            r->after, r->nats, (int)r->token);
    cli_put_escaped(stderr, piece, len);
    fputs(r->tail ? "\", before the last" : "\"", stderr);
    if (r->taken && r->refused)
        fprintf(stderr, "; %u with less error raised -ln p too much", (unsigned)r->refused);
    else if (!r->taken)
        fputs(r->refused ? ": refused, it raises -ln p too much"
                         : ": refused, the error falls too little",
              stderr);
    fputc('\n', stderr);
}

void command_prefix_report(const struct tft_model *m, const struct cushion *c)
{
    for (uint32_t i = 0; i < c->tried; i++)
        report_round(m, &c->round[i]);
}

static void json_round(const struct cushion_round *r)
{
    printf("{\"token\":%d,\"place\":\"%s\"", (int)r->token, r->tail ? "before last" : "end");
    cli_json_number("before", r->before);
    cli_json_number("after", r->after);
    cli_json_number("nats", r->nats);
    printf(",\"taken\":%s,\"why_not\":%s,\"refused\":%u}", r->taken ? "true" : "false",
           r->taken ? "null" : r->refused ? "\"likelihood\"" : "\"error\"", (unsigned)r->refused);
}

void command_prefix_json(const struct cushion *c)
{
    if (!c) {
        fputs("null", stdout);
        return;
    }
    printf("{\"tau\":%.6g", c->tau);
    cli_json_number("cost", c->cost);
    fputs(",\"rounds\":[", stdout);
    for (uint32_t i = 0; i < c->tried; i++) {
        fputs(i ? "," : "", stdout);
        json_round(&c->round[i]);
    }
    fputs("]}", stdout);
}
