#include "tools/quantize/job/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/quantize/calibration_text.h"
#include "tools/quantize/job/format.h"
#include "tools/quantize/text/chat_file.h"
#include "tools/quantize/text/own_text.h"
#include "tools/quantize/windows.h"

/* Held-out tokens of each group, the largest held-out part of a short text, and the least tokens of
   a file. */
enum { KEEP_TOKENS = 2048, KEEP_PART = 5, LEAST_TOKENS = 512 };

/* Whether the text has conversations: by its name, or by its first line. */
static bool has_conversations(const char *name, const char *text)
{
    static const char suffix[] = ".jsonl";
    text += tft_utf8_mark(text, strlen(text));
    size_t n = strlen(name), len = strcspn(text, "\n");
    const char *messages = *text == '{' ? strstr(text, "\"messages\"") : NULL;
    return (n >= sizeof suffix && strcmp(name + n + 1 - sizeof suffix, suffix) == 0) ||
           (messages && messages < text + len);
}

/* Whether conversations are in a list of JSON, or on several lines each. */
static bool has_list(const char *text)
{
    text += tft_utf8_mark(text, strlen(text));
    bool list = *text == '[';
    size_t blank = *text ? strspn(text + 1, " \t\r\n") : 0;
    if (!list && (*text != '{' || !blank || !memchr(text + 1, '\n', blank)))
        return false;
    return text[1 + blank] == (list ? '{' : '"') &&
           (strstr(text, "\"messages\"") || strstr(text, "\"conversations\""));
}

enum tft_status job_text_check(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    if (o->calib && has_list(o->calib))
        return tft_fail(j->err, TFT_ERR_FORMAT,
                        "%s: conversations must be one a line: jq -c '.[]' makes lines of a list, "
                        "jq -c . of indented JSON",
                        o->calib_name);
    if (o->special && !o->calib)
        return job_misuse(j, "--special is for the text of --calib");
    if (o->special && has_conversations(o->calib_name, o->calib))
        return job_misuse(j,
                          "--special is for text: %s has conversations, whose special tokens the "
                          "template writes",
                          o->calib_name);
    return TFT_OK;
}

void job_text_free(struct job_text *t)
{
    talks_free(&t->talks);
    talks_free(&t->first);
    free(t->prose);
    free(t->kept_prose);
    free(t->ids);
    free(t->start);
    for (int g = 0; g < CHECK_GROUPS; g++)
        free(t->kept[g]);
    *t = (struct job_text){0};
}

/* ---- conversations of a file */

static enum tft_status read_conversations(struct job_text *t)
{
    struct job *j = t->j;
    enum tft_status status = job_format_need(j);
    if (status == TFT_OK)
        status = chat_file_read(&t->talks, j);
    if (status == TFT_OK && (t->talks.n < KEPT_TALK || t->talks.n_ids < LEAST_TOKENS))
        return tft_fail(j->err, TFT_ERR_ARG,
                        "%s: has %zu conversations of %zu tokens in all: calibration needs at "
                        "least %d of %d",
                        j->o->calib_name, t->talks.n, t->talks.n_ids, KEPT_TALK, LEAST_TOKENS);
    return status;
}

/* ---- how conversations begin */

/* Adds a conversation to t->first, unless the template refuses it. */
static enum tft_status add_first(struct job_text *t, const struct tft_chat_message *message,
                                 size_t n_message)
{
    struct job *j = t->j;
    struct tft_chat_input in = {.size = sizeof in,
                                .message = message,
                                .n_message = n_message,
                                .has_time = true,
                                .time = TALKS_TIME};
    struct tft_chat_text text;
    struct tft_error err;
    int32_t *ids;
    size_t n;
    if (tft_chat_render_for(&text, j->format, j->m, &in, &err) != TFT_OK)
        return TFT_OK;
    enum tft_status status = job_format_tokenize(j, &ids, &n, &text);
    tft_chat_text_free(&text);
    if (status != TFT_OK)
        return status;
    size_t skip = talks_lead(j->m, ids, n);
    bool good = talks_add(&t->first, ids + skip, n - skip);
    free(ids);
    return good ? TFT_OK : job_no_memory(j);
}

/* For a text without conversations: the new model may still have some. */
static enum tft_status make_first(struct job_text *t)
{
    static const struct tft_chat_message said[] = {
        {.role = "system", .text = "Be brief.", .n = 9},
        {.role = "user", .text = "Hello", .n = 5},
        {.role = "user", .text = "what", .n = 4}};
    enum tft_status status = TFT_OK;
    for (size_t i = 0; i < 3 && t->j->format && status == TFT_OK; i++)
        status = add_first(t, said + i, i ? 1 : 2);
    return status;
}

const int32_t *job_text_first(const struct job_text *t, size_t *n)
{
    *n = t->conversations ? talks_same(&t->talks) : 0;
    return t->talks.ids;
}

/* Whether all conversations begin with these tokens. bos: or with bos and these tokens; -1: not */
static bool all_begin_with(const struct job_text *t, int32_t bos, const int32_t *ids, size_t n)
{
    const struct talks *all = t->conversations ? &t->talks : &t->first;
    size_t same = talks_same(all), at = same && bos >= 0 && all->ids[0] == bos;
    return n && at + n <= same && memcmp(all->ids + at, ids, n * sizeof *ids) == 0;
}

/* ---- windows */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Most held-out windows of each group. Nothing is predicted in a window of one token. */
static size_t kept_windows(const struct job_text *t)
{
    size_t window = t->window;
    return window < 2 ? 0 : (least(KEEP_TOKENS, t->j->o->calib_tokens) + window - 1) / window;
}

/* The largest window that both the held-out conversations and the others fill, although the first
   may continue after its tokens in the prefix. At least 1. */
static size_t window_of_few(const struct job_text *t, uint32_t most_prefix)
{
    size_t n = least(talks_tokens(&t->talks, true), talks_tokens(&t->talks, false));
    return n > most_prefix ? n - most_prefix : 1;
}

/* Sets the window. Fails unless prefix, window and text fit the model and each other. */
static enum tft_status choose_window(struct job_text *t, uint32_t most_prefix)
{
    struct job *j = t->j;
    const struct tft_quantize_opts *o = j->o;
    const struct tft_model *m = j->m;
    size_t room = most_prefix < m->n_ctx ? m->n_ctx - most_prefix : 0,
           wanted = m->encoder ? 128 : 512; /* a passage */
    bool given = o->calib && t->conversations;
    if (given) /* one window of each kind, if there are few */
        wanted = least(wanted, window_of_few(t, most_prefix));
    t->window = o->calib_window ? o->calib_window : (uint32_t)least(room, wanted);
    if (!t->window || t->window > room)
        return tft_fail(j->err, TFT_ERR_ARG,
                        "%s: the context of %u has no room for a window of %u after a prefix of %u",
                        m->source.name, m->n_ctx, t->window ? t->window : 1, most_prefix);
    if (t->window > o->calib_tokens)
        return job_misuse(j, "--calib-tokens %u is less than the window of %u", o->calib_tokens,
                          t->window);
    if (t->n_prose < t->window)
        return tft_fail(j->err, TFT_ERR_ARG,
                        "%s: a text of %zu tokens is too short for a window of %u", o->calib_name,
                        t->n_prose, t->window);
    if (given && talks_tokens(&t->talks, true) < t->window)
        return tft_fail(j->err, TFT_ERR_ARG,
                        "%s: the held-out conversations have %zu tokens: too few for a window of "
                        "%u",
                        o->calib_name, talks_tokens(&t->talks, true), t->window);
    return TFT_OK;
}

/* How many windows of `have` are held out if `wanted` are for calibration. */
static size_t windows_to_keep(const struct job_text *t, size_t have, size_t wanted)
{
    size_t keep = kept_windows(t), unused = have > wanted ? have - wanted : 0;
    size_t most = have < KEEP_PART ? have / 3 : have / KEEP_PART; /* one window of three or four */
    return unused >= keep ? keep : least(keep, most);
}

/* Moves windows of the prose to the held-out ones: spread evenly, never the first. */
static enum tft_status keep_prose_out(struct job_text *t)
{
    size_t window = t->window, have = t->n_prose / window,
           keep = windows_to_keep(t, have, t->j->o->calib_tokens / window), to = 0;
    int32_t *out = t->kept_prose = malloc((keep * window + 1) * sizeof *out);
    if (!out)
        return job_no_memory(t->j);
    for (size_t i = 0; i < have; i++) {
        bool kept = keep && (i + 1) * keep / have > i * keep / have;
        int32_t *at = kept ? out : t->prose + to++ * window;
        memmove(at, t->prose + i * window, window * sizeof *at);
        out += kept ? window : 0;
    }
    t->n_prose = to * window;
    t->n_kept_prose = keep * window;
    return TFT_OK;
}

/* ---- text that the model writes */

/* Half of the calibration text is written by the model. */
static size_t own_windows(const struct job_text *t)
{
    return (t->j->o->calib_tokens / t->window + 1) / 2;
}

static enum tft_status write_own(struct job_text *t, const struct tft_model *runs)
{
    static const char step[] = "writing calibration text";
    struct job *j = t->j;
    bool stopped;
    size_t kept = kept_windows(t), own = own_windows(t),
           windows = own > 2 * kept ? own : 2 * kept; /* two texts of three are for calibration */
    struct own_text_opts o = {
        .conversation = j->format,
        .beginnings = (const char *)calibration_text,
        .n_beginnings = calibration_bytes,
        /* tokens that do not fill a window are dropped */
        .tokens = windows * t->window * 5 / 4,
        .n_threads = j->o->n_threads,
        .progress = job_progress,
        .user = j,
    };
    if (!o.conversation && tft_model_chat_template(j->m))
        job_note(j,
                 "%s: calibrated without conversations: its chat template cannot be read; see "
                 "--template",
                 j->m->source.name);
    enum tft_status status = job_begin(j, step, 0.8);
    if (status != TFT_OK)
        return status;
    status = own_text_write(&t->talks, runs, &o, &stopped, j->err);
    if (status == TFT_ERR_ARG && o.conversation) { /* the template refuses the conversations */
        job_note(j, "%s: calibrated without conversations: %s", j->m->source.name, j->err->msg);
        o.conversation = NULL;
        status = job_begin(j, step, 1);
        if (status == TFT_OK)
            status = own_text_write(&t->talks, runs, &o, &stopped, j->err);
    }
    t->conversations = o.conversation;
    return job_end(j, status, stopped);
}

/* The file of the options, or the program's text. */
static enum tft_status read_prose(struct job_text *t)
{
    struct job *j = t->j;
    bool given = j->o->calib && !t->conversations;
    const char *text = given ? j->o->calib : (const char *)calibration_text;
    enum tft_status status =
        job_tokenize(j, &t->prose, &t->n_prose, text, given ? j->o->n_calib : calibration_bytes,
                     j->o->special ? TFT_PARSE_SPECIAL : 0);
    if (status == TFT_OK && given && t->n_prose < LEAST_TOKENS)
        return tft_fail(j->err, TFT_ERR_ARG,
                        "%s: has %zu tokens: a calibration text needs at least %d",
                        j->o->calib_name, t->n_prose, LEAST_TOKENS);
    return status;
}

enum tft_status job_text_make(struct job_text *t, struct job *j, const struct tft_model *runs,
                              uint32_t most_prefix)
{
    t->j = j;
    t->conversations = j->o->calib && has_conversations(j->o->calib_name, j->o->calib);
    enum tft_status status = read_prose(t);
    if (status == TFT_OK && t->conversations)
        status = read_conversations(t);
    if (status == TFT_OK)
        status = choose_window(t, most_prefix);
    if (status == TFT_OK)
        status = keep_prose_out(t);
    if (status == TFT_OK && runs)
        status = write_own(t, runs);
    if (status == TFT_OK && !t->conversations)
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
static uint32_t text_of_prefix(const struct job_text *t, const int32_t *prefix, uint32_t n_prefix,
                               uint32_t n_text)
{
    bool has_bos = n_prefix && prefix[0] == tft_token_bos(t->j->m);
    if (n_text)
        return n_text;
    if (bos_of_windows(t->j->m, prefix, n_prefix) >= 0)
        return 0;
    return all_begin_with(t, has_bos ? prefix[0] : -1, prefix + has_bos, n_prefix - has_bos)
               ? n_prefix - has_bos
               : 0;
}

/* Held-out windows that the model wrote, after the n windows of the group. */
static void add_kept_own(struct job_text *t, enum check_group g, const struct talks_start *start)
{
    struct check_text *text = &t->group[g];
    text->n_windows += (uint32_t)talks_windows(&t->talks, true, start, t->window, kept_windows(t),
                                               t->kept[g] + (size_t)text->n_windows * t->window);
}

static void make_kept(struct job_text *t, const struct talks_start *start, uint32_t n_prefix,
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

/* A window of an encoder is a whole text, which ends as texts do at run time. */
static void end_texts(const struct job_text *t, int32_t *ids, size_t n)
{
    size_t with_eos = 0;
    const struct tft_model *m = t->j->m;
    tft_tokenize(m, "", 0, TFT_ADD_EOS, NULL, 0, &with_eos);
    for (size_t i = t->window; m->encoder && with_eos && i <= n; i += t->window)
        ids[i - 1] = tft_token_eos(m);
}

static bool alloc_windows(struct job_text *t, size_t most)
{
    size_t own = kept_windows(t) * t->window;
    free(t->ids);
    t->ids = malloc(most * t->window * sizeof *t->ids);
    for (int g = 0; g < CHECK_GROUPS; g++)
        if (!t->kept[g])
            t->kept[g] = malloc((own + t->n_kept_prose + 1) * sizeof *t->kept[g]);
    return t->ids && t->kept[CHECK_CONVERSATION] && t->kept[CHECK_TEXT];
}

enum tft_status job_text_begin(struct job_text *t, const int32_t *prefix, uint32_t n_prefix,
                               uint32_t n_text, uint32_t n_start)
{
    size_t window = t->window, prose = t->n_prose / window,
           most = t->talks.n_ids / window + 1 + prose;
    t->n_prefix_text = text_of_prefix(t, prefix, n_prefix, n_text);
    struct talks_start start = {.bos = bos_of_windows(t->j->m, prefix, n_prefix),
                                .held = held_bos(t->j->m, prefix, n_prefix),
                                .prefix = prefix + n_prefix - t->n_prefix_text,
                                .n_prefix = t->n_prefix_text};
    free(t->start);
    t->start = malloc((n_prefix + 1) * sizeof *t->start);
    if (!t->start || !alloc_windows(t, most))
        return job_no_memory(t->j);
    memcpy(t->start, prefix, n_prefix * sizeof *t->start);
    size_t own = talks_windows(&t->talks, false, &start, t->window, most - prose, t->ids);
    if (t->j->o->calib && t->conversations && !own)
        return tft_fail(t->j->err, TFT_ERR_ARG,
                        "%s: the conversations for calibration fill no window of %u",
                        t->j->o->calib_name, t->window);
    memcpy(t->ids + own * window, t->prose, prose * window * sizeof *t->ids);
    for (size_t i = own; i < own + prose && start.bos >= 0; i++)
        t->ids[i * window] = start.bos;
    t->n_own = own * window;
    t->n = (own + prose) * window;
    make_kept(t, &start, n_prefix, n_start);
    end_texts(t, t->ids, t->n);
    end_texts(t, t->kept[CHECK_TEXT], t->n_kept_prose);
    return TFT_OK;
}

void job_text_spread(struct job_text *t, uint32_t tokens)
{
    size_t window = t->window,
           wanted = (tokens ? tokens + window - 1 : t->j->o->calib_tokens) / window,
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
