#include "tools/quantize/command_text.h"

#include <stdlib.h>
#include <string.h>

#include "tools/chat/template.h"
#include "tools/quantize/calibration_text.h"
#include "tools/quantize/text/chat_file.h"
#include "tools/quantize/text/own_text.h"
#include "tools/quantize/windows.h"

/* Held-out tokens of each group, the largest held-out part of a short text, and the least tokens of
   a file. */
enum { KEEP_TOKENS = 2048, KEEP_PART = 5, LEAST_TOKENS = 512 };

static struct {
    const char *calib;
    uint32_t tokens, window;
    bool special;
} opt = {.tokens = 8192};

const struct cli_option command_text_option_list[] = {
    {0, "calib", CLI_TEXT, &opt.calib, "FILE",
     "calibrate on the text in FILE, or on its conversations (lines of JSON with OpenAI's "
     "messages) and prose inside the program (default: conversations that the model writes, and "
     "that prose); evaluate on other text"},
    {0, "special", CLI_FLAG, &opt.special, NULL,
     "read names of special tokens in the text of --calib, such as <|im_start|>, as these tokens"},
    {0, "calib-tokens", CLI_COUNT, &opt.tokens, "N",
     "use N tokens of the calibration text, in windows spread evenly over it"},
    {0, "calib-window", CLI_COUNT, &opt.window, "N",
     "cut the text into windows of N tokens, each a sequence (default 512, or fewer in a short "
     "context)"},
    {0},
};

int command_text_check(void)
{
    return !opt.special || opt.calib ? CLI_OK : cli_usage("--special is for the text of --calib");
}

const char *command_text_path(void) { return opt.calib; }

uint32_t command_text_tokens(void) { return opt.tokens; }

bool command_text_wants_own(void) { return !opt.calib; }

/* Whether the file has conversations: by its name, or by its first line. */
static bool has_conversations(const char *path, const char *text)
{
    static const char suffix[] = ".jsonl";
    text += chat_file_mark(text);
    size_t n = strlen(path), len = strcspn(text, "\n");
    const char *messages = *text == '{' ? strstr(text, "\"messages\"") : NULL;
    return (n >= sizeof suffix && strcmp(path + n + 1 - sizeof suffix, suffix) == 0) ||
           (messages && messages < text + len);
}

int command_text_read(struct command_text *t)
{
    if (!opt.calib)
        return CLI_OK;
    t->file = cli_read(opt.calib, &t->n_file);
    t->conversations = t->file && has_conversations(opt.calib, t->file);
    if (t->conversations && opt.special)
        return cli_usage("--special is for text: %s has conversations, whose special tokens the "
                         "template writes",
                         opt.calib);
    return t->file ? CLI_OK : CLI_FAILED;
}

void command_text_free(struct command_text *t)
{
    talks_free(&t->talks);
    talks_free(&t->first);
    free(t->file);
    free(t->prose);
    free(t->kept_prose);
    free(t->ids);
    free(t->start);
    for (int g = 0; g < CHECK_GROUPS; g++)
        free(t->kept[g]);
    *t = (struct command_text){0};
}

/* ---- conversations of a file */

static int read_conversations(struct command_text *t)
{
    const struct tft_model *m = t->m;
    const struct tft_chat_template *format = template_quietly(m);
    if (!format) {
        template_choose(m, m->source.name); /* prints the reason */
        return CLI_FAILED;
    }
    int status = chat_file_read(&t->talks, m, format, opt.calib, t->file, t->n_file);
    if (status == CLI_OK && (t->talks.n < KEPT_TALK || t->talks.n_ids < LEAST_TOKENS))
        status = cli_fail("%s: has %zu conversations of %zu tokens in all: calibration needs at "
                          "least %d of %d",
                          opt.calib, t->talks.n, t->talks.n_ids, KEPT_TALK, LEAST_TOKENS);
    return status;
}

/* ---- how conversations begin */

/* Adds a conversation to t->first, unless the template refuses it. */
static int add_first(struct command_text *t, const struct tft_chat_template *format,
                     const struct tft_chat_message *message, size_t n_message)
{
    struct tft_chat_input in = {.size = sizeof in,
                                .message = message,
                                .n_message = n_message,
                                .has_time = true,
                                .time = TALKS_TIME};
    struct tft_chat_text text;
    struct tft_error err;
    size_t n;
    if (tft_chat_render_for(&text, format, t->m, &in, &err) != TFT_OK)
        return CLI_OK;
    int32_t *ids = template_tokenize(&text, t->m, &n, NULL);
    tft_chat_text_free(&text);
    if (!ids)
        return CLI_FAILED;
    size_t skip = talks_lead(t->m, ids, n);
    bool good = talks_add(&t->first, ids + skip, n - skip);
    free(ids);
    return good ? CLI_OK : cli_fail("out of memory");
}

/* For a text without conversations: the new model may still have some. */
static int make_first(struct command_text *t)
{
    static const struct tft_chat_message said[] = {
        {"system", "Be brief.", 9}, {"user", "Hello", 5}, {"user", "what", 4}};
    const struct tft_chat_template *format = template_quietly(t->m);
    int status = CLI_OK;
    for (size_t i = 0; i < 3 && format && status == CLI_OK; i++)
        status = add_first(t, format, said + i, i ? 1 : 2);
    return status;
}

const int32_t *command_text_first(const struct command_text *t, size_t *n)
{
    *n = t->conversations ? talks_same(&t->talks) : 0;
    return t->talks.ids;
}

/* Whether all conversations begin with these tokens. bos: or with bos and these tokens; -1: not */
static bool all_begin_with(const struct command_text *t, int32_t bos, const int32_t *ids, size_t n)
{
    const struct talks *all = t->conversations ? &t->talks : &t->first;
    size_t same = talks_same(all), at = same && bos >= 0 && all->ids[0] == bos;
    return n && at + n <= same && memcmp(all->ids + at, ids, n * sizeof *ids) == 0;
}

/* ---- windows */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Most held-out windows of each group. Nothing is predicted in a window of one token. */
static size_t kept_windows(uint32_t window)
{
    return window < 2 ? 0 : (least(KEEP_TOKENS, opt.tokens) + window - 1) / window;
}

/* The largest window that both the held-out conversations and the others fill, although the first
   may continue after its tokens in the prefix. At least 1. */
static size_t window_of_few(const struct command_text *t, uint32_t most_prefix)
{
    size_t n = least(talks_tokens(&t->talks, true), talks_tokens(&t->talks, false));
    return n > most_prefix ? n - most_prefix : 1;
}

/* Sets the window. Fails unless prefix, window and text fit the model and each other. */
static int choose_window(struct command_text *t, uint32_t most_prefix)
{
    const struct tft_model *m = t->m;
    size_t room = most_prefix < m->n_ctx ? m->n_ctx - most_prefix : 0, wanted = 512;
    if (t->file && t->conversations) /* one window of each kind, if there are few */
        wanted = least(wanted, window_of_few(t, most_prefix));
    t->window = opt.window ? opt.window : (uint32_t)least(room, wanted);
    if (!t->window || t->window > room)
        return cli_fail("%s: the context of %u has no room for a window of %u after a prefix of %u",
                        m->source.name, m->n_ctx, t->window ? t->window : 1, most_prefix);
    if (t->window > opt.tokens)
        return cli_usage("--calib-tokens %u is less than the window of %u", opt.tokens, t->window);
    if (t->n_prose < t->window)
        return cli_fail("%s: a text of %zu tokens is too short for a window of %u",
                        opt.calib ? opt.calib : "the calibration text", t->n_prose, t->window);
    if (t->file && t->conversations && talks_tokens(&t->talks, true) < t->window)
        return cli_fail("%s: the held-out conversations have %zu tokens: too few for a window of "
                        "%u",
                        opt.calib, talks_tokens(&t->talks, true), t->window);
    return CLI_OK;
}

/* How many windows of `have` are held out if `wanted` are for calibration. */
static size_t windows_to_keep(size_t have, size_t wanted, uint32_t window)
{
    size_t keep = kept_windows(window), unused = have > wanted ? have - wanted : 0;
    size_t most = have < KEEP_PART ? have / 3 : have / KEEP_PART; /* one window of three or four */
    return unused >= keep ? keep : least(keep, most);
}

/* Moves windows of the prose to the held-out ones: spread evenly, never the first. */
static int keep_prose_out(struct command_text *t)
{
    size_t window = t->window, have = t->n_prose / window,
           keep = windows_to_keep(have, opt.tokens / window, t->window), to = 0;
    int32_t *out = t->kept_prose = malloc((keep * window + 1) * sizeof *out);
    if (!out)
        return cli_fail("out of memory");
    for (size_t i = 0; i < have; i++) {
        bool kept = keep && (i + 1) * keep / have > i * keep / have;
        int32_t *at = kept ? out : t->prose + to++ * window;
        memmove(at, t->prose + i * window, window * sizeof *at);
        out += kept ? window : 0;
    }
    t->n_prose = to * window;
    t->n_kept_prose = keep * window;
    return CLI_OK;
}

/* ---- text that the model writes */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

/* Half of the calibration text is written by the model. */
static size_t own_windows(const struct command_text *t)
{
    return (opt.tokens / t->window + 1) / 2;
}

static int write_own(struct command_text *t, const struct tft_model *runs)
{
    struct cli_progress bar;
    struct tft_error err;
    bool stopped;
    size_t kept = kept_windows(t->window), own = own_windows(t),
           windows = own > 2 * kept ? own : 2 * kept; /* two texts of three are for calibration */
    struct own_text_opts o = {
        .conversation = template_quietly(t->m),
        .beginnings = (const char *)calibration_text,
        .n_beginnings = calibration_bytes,
        /* tokens that do not fill a window are dropped */
        .tokens = windows * t->window * 5 / 4,
        .n_threads = (int)cli_model_options.threads,
        .progress = progress,
        .user = &bar,
    };
    if (!o.conversation && tft_model_chat_template(t->m))
        fprintf(stderr, "tuffet: %s: calibrated without conversations: its chat template cannot be "
                "read; see --template\n", t->m->source.name);
    cli_progress_begin(&bar, "writing calibration text");
    enum tft_status status = own_text_write(&t->talks, runs, &o, &stopped, &err);
    if (status == TFT_ERR_ARG && o.conversation) { /* the template refuses the conversations */
        cli_progress_end(&bar);
        fprintf(stderr, "tuffet: %s: calibrated without conversations: %s\n", t->m->source.name,
                err.msg);
        cli_progress_begin(&bar, "writing calibration text");
        o.conversation = NULL;
        status = own_text_write(&t->talks, runs, &o, &stopped, &err);
    }
    cli_progress_end(&bar);
    t->conversations = o.conversation;
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

int command_text_make(struct command_text *t, const struct tft_model *m,
                      const struct tft_model *runs, uint32_t most_prefix)
{
    bool prose = t->file && !t->conversations;
    const char *text = prose ? t->file : (const char *)calibration_text;
    size_t n = prose ? t->n_file : calibration_bytes;
    t->m = m;
    t->prose = cli_tokenize(m, text, n, opt.special ? TFT_PARSE_SPECIAL : 0, &t->n_prose);
    if (!t->prose)
        return CLI_FAILED;
    if (prose && t->n_prose < LEAST_TOKENS)
        return cli_fail("%s: has %zu tokens: a calibration text needs at least %d", opt.calib,
                        t->n_prose, LEAST_TOKENS);
    int status = t->conversations ? read_conversations(t) : CLI_OK;
    if (status == CLI_OK)
        status = choose_window(t, most_prefix);
    if (status == CLI_OK)
        status = keep_prose_out(t);
    if (status == CLI_OK && runs)
        status = write_own(t, runs);
    if (status == CLI_OK && !t->conversations)
        status = make_first(t);
    return status;
}

/* ---- after a prefix */

/* BOS, if sequences begin with it at run time and the prefix does not contain it; else -1. */
static int32_t bos_of_windows(const struct tft_model *m, const int32_t *prefix, uint32_t n_prefix)
{
    size_t with_bos = 0;
    int32_t bos = tft_token_bos(m);
    bool given = tft_tokenize(m, "", 0, TFT_ADD_BOS, NULL, 0, &with_bos) != TFT_OK || !with_bos;
    for (uint32_t i = 0; i < n_prefix; i++)
        given |= prefix[i] == bos;
    return given ? -1 : bos;
}

/* BOS, if the prefix has it; else -1. */
static int32_t held_bos(const struct tft_model *m, const int32_t *prefix, uint32_t n_prefix)
{
    int32_t bos = tft_token_bos(m);
    for (uint32_t i = 0; i < n_prefix; i++)
        if (prefix[i] == bos)
            return bos;
    return -1;
}

/* Number of the prefix's last tokens that are text. The file stores this number, and a prompt that
   begins with these tokens continues after the prefix (tft_prefix_held): so does each text here.
   Tokens with which only some conversations begin are not text: the prefix has them to take
   outliers, and how often a conversation is fed them would depend on its first words. Nor are the
   tokens text if BOS comes between the prefix and the text. */
static uint32_t text_of_prefix(const struct command_text *t, const int32_t *prefix,
                               uint32_t n_prefix, uint32_t n_text)
{
    bool has_bos = n_prefix && prefix[0] == tft_token_bos(t->m);
    if (n_text)
        return n_text;
    if (bos_of_windows(t->m, prefix, n_prefix) >= 0)
        return 0;
    return all_begin_with(t, has_bos ? prefix[0] : -1, prefix + has_bos, n_prefix - has_bos)
               ? n_prefix - has_bos
               : 0;
}

/* Held-out windows that the model wrote, after the n windows of the group. */
static void add_kept_own(struct command_text *t, enum check_group g,
                         const struct talks_start *start)
{
    struct check_text *text = &t->group[g];
    text->n_windows += (uint32_t)talks_windows(
        &t->talks, true, start, t->window, kept_windows(t->window),
        t->kept[g] + (size_t)text->n_windows * t->window);
}

static void make_kept(struct command_text *t, const struct talks_start *start, uint32_t n_prefix,
                      uint32_t n_start)
{
    int32_t *prose = t->kept[CHECK_TEXT];
    enum check_group own = t->conversations ? CHECK_CONVERSATION : CHECK_TEXT;
    for (int g = 0; g < CHECK_GROUPS; g++)
        t->group[g] = (struct check_text){
            .ids = t->kept[g], .window = t->window, .start = t->start, .n_start = n_start};
    memcpy(prose, t->kept_prose, t->n_kept_prose * sizeof *prose);
    for (size_t i = 0; i < t->n_kept_prose && start->bos >= 0; i += t->window)
        prose[i] = start->bos;
    t->group[CHECK_TEXT].n_windows = (uint32_t)(t->n_kept_prose / t->window);
    add_kept_own(t, own, start);
    if (start->n_prefix && t->conversations)
        t->group[own].n_start = n_prefix; /* all of them contain it */
}

static bool alloc_windows(struct command_text *t, size_t most)
{
    size_t own = kept_windows(t->window) * t->window;
    free(t->ids);
    t->ids = malloc(most * t->window * sizeof *t->ids);
    for (int g = 0; g < CHECK_GROUPS; g++)
        if (!t->kept[g])
            t->kept[g] = malloc((own + t->n_kept_prose + 1) * sizeof *t->kept[g]);
    return t->ids && t->kept[CHECK_CONVERSATION] && t->kept[CHECK_TEXT];
}

int command_text_begin(struct command_text *t, const int32_t *prefix, uint32_t n_prefix,
                       uint32_t n_text, uint32_t n_start)
{
    size_t window = t->window, prose = t->n_prose / window,
           most = t->talks.n_ids / window + 1 + prose;
    t->n_prefix_text = text_of_prefix(t, prefix, n_prefix, n_text);
    struct talks_start start = {.bos = bos_of_windows(t->m, prefix, n_prefix),
                                .held = held_bos(t->m, prefix, n_prefix),
                                .prefix = prefix + n_prefix - t->n_prefix_text,
                                .n_prefix = t->n_prefix_text};
    free(t->start);
    t->start = malloc((n_prefix + 1) * sizeof *t->start);
    if (!t->start || !alloc_windows(t, most))
        return cli_fail("out of memory");
    memcpy(t->start, prefix, n_prefix * sizeof *t->start);
    size_t own = talks_windows(&t->talks, false, &start, t->window, most - prose, t->ids);
    if (t->file && t->conversations && !own)
        return cli_fail("%s: the conversations for calibration fill no window of %u", opt.calib,
                        t->window);
    memcpy(t->ids + own * window, t->prose, prose * window * sizeof *t->ids);
    for (size_t i = own; i < own + prose && start.bos >= 0; i++)
        t->ids[i * window] = start.bos;
    t->n_own = own * window;
    t->n = (own + prose) * window;
    make_kept(t, &start, n_prefix, n_start);
    return CLI_OK;
}

void command_text_spread(struct command_text *t, uint32_t tokens)
{
    size_t window = t->window, wanted = (tokens ? tokens + window - 1 : opt.tokens) / window,
           own = t->n_own / window, prose = (t->n - t->n_own) / window,
           half = least(own, (wanted + 1) / 2);
    if (own + prose <= wanted)
        return;
    quantize_spread_windows(t->ids, t->n_own, window, half);
    int32_t *rest = t->ids + t->n_own;
    size_t n = quantize_spread_windows(rest, t->n - t->n_own, window, wanted - half);
    memmove(t->ids + half * window, rest, n * sizeof *rest);
    t->n_own = half * window;
    t->n = half * window + n;
}
