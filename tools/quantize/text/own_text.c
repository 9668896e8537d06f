#include "tools/quantize/text/own_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/quantize/text/first_messages.h"

enum {
    LANES = 16,         /* sessions that share a pass */
    PIECE = 64,         /* tokens of a prompt fed at a time */
    ANSWER = 128,       /* most tokens of an answer */
    TEXT = 250,         /* of a text without a template */
    BEGINNING = 6,      /* of a beginning */
    CAPACITY = 512,     /* of a session */
    MOST_MESSAGES = 12, /* of a conversation */
};

/* Two functions, for templates that know tools. */
static const char TOOLS[] =
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":"
    "\"The current weather of a city\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}},{\"type\":\"function\","
    "\"function\":{\"name\":\"calculator\",\"description\":\"Computes an expression\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"expression\":{\"type\":\"string\"}},"
    "\"required\":[\"expression\"]}}}]";

/* ------------------------------------------------------------------------------------- messages */

/* A conversation of first_messages.txt. */
struct said {
    struct tft_chat_message system; /* role is NULL: no system message */
    struct tft_chat_message user[MOST_MESSAGES / 2];
    size_t n_user;
    bool tools;
};

static bool begins(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0;
}

/* Start of the first line that equals `mark`, from p on; end if there is none. */
static const char *line_of(const char *p, const char *end, const char *mark)
{
    size_t n = strlen(mark);
    for (; p < end; p++) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        line = line ? line : end;
        if ((size_t)(line - p) == n && memcmp(p, mark, n) == 0)
            return p;
        p = line;
    }
    return end;
}

/* The messages p..end, without the newline before a mark. */
static void read_said(struct said *s, const char *p, const char *end)
{
    static const char system[] = "system: ", tools[] = "tools\n";
    *s = (struct said){.tools = begins(p, end, tools)};
    if (s->tools)
        p += sizeof tools - 1;
    if (begins(p, end, system)) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        p += sizeof system - 1;
        s->system = (struct tft_chat_message){
            .role = "system", .text = p, .n = (size_t)(line - p)};
        p = line + 1;
    }
    while (p < end && s->n_user < MOST_MESSAGES / 2) {
        const char *next = line_of(p, end, "+++");
        size_t n = (size_t)(next - p);
        s->user[s->n_user++] =
            (struct tft_chat_message){
                .role = "user", .text = p, .n = n && p[n - 1] == '\n' ? n - 1 : n};
        p = next < end ? next + strlen("+++\n") : end;
    }
}

/* Conversation number i; false if there are fewer. */
static bool said_at(struct said *s, size_t i)
{
    const char *p = (const char *)first_messages_text, *end = p + first_messages_bytes;
    for (; p < end; i--) {
        const char *next = line_of(p, end, "---");
        if (i == 0) {
            read_said(s, p, next);
            return true;
        }
        p = next < end ? next + strlen("---\n") : end;
    }
    return false;
}

static size_t said_count(void)
{
    struct said s;
    size_t n = 0;
    while (said_at(&s, n))
        n++;
    return n;
}

/* The i-th of n chosen conversations: in steps of a prime that does not divide n, so that a few of
   them are of all kinds. */
static size_t spread(size_t i, size_t n)
{
    enum { STEP = 71 };
    return i * STEP % n;
}

/* ---------------------------------------------------------------------------------------- lanes */

/* A session, and the text that the model writes in it. */
struct lane {
    struct tft_session *s;
    struct tft_sampler z;
    bool busy;
    size_t number; /* of the text, in the order of beginning */
    struct said said;
    size_t turn;                     /* the user's message that the model answers */
    char *answer[MOST_MESSAGES / 2]; /* [turn + 1] NUL at the end */
    struct tft_text text;            /* of the answer so far */
    size_t n_answer, most;           /* its tokens; their maximum */
    int32_t *ids;                    /* [n_ids] tokens for the session, and then the answer */
    size_t n_ids;
    int32_t next;                    /* the answer's newest token; fed after ids */
};

struct writer {
    const struct tft_model *m;
    const struct own_text_opts *o;
    struct tft_batch *batch;
    struct lane lane[LANES];
    struct talks *out;
    struct talks beginnings; /* without a template: beginnings of texts, as tokens */
    size_t n_said, begun, refused;
    struct tft_error *err;
    bool stopped;
};

static bool failed(const struct writer *w) { return w->err->code != TFT_OK || w->stopped; }

static bool fail_memory(struct writer *w)
{
    tft_fail(w->err, TFT_ERR_NOMEM, "out of memory to write calibration text");
    return false;
}

static void free_answers(struct lane *l)
{
    for (size_t i = 0; i < MOST_MESSAGES / 2; i++) {
        free(l->answer[i]);
        l->answer[i] = NULL;
    }
}

/* Appends to the answer the characters that token `id` completes; -1 ends the answer. */
static bool write_token(struct writer *w, struct lane *l, int32_t id)
{
    char piece[TFT_TEXT_MAX], **answer = &l->answer[l->turn];
    size_t n = tft_text_push(&l->text, w->m, id, piece), have = *answer ? strlen(*answer) : 0;
    const char *nul = memchr(piece, 0, n);
    n = nul ? (size_t)(nul - piece) : n;
    char *longer = realloc(*answer, have + n + 1);
    if (!longer)
        return fail_memory(w);
    memcpy(longer + have, piece, n);
    longer[have + n] = 0;
    *answer = longer;
    return true;
}

/* -------------------------------------------------------------------------------- conversations */

/* The variables of a conversation's template, beside its messages. Thinking is on in every other
   conversation, if the template can turn it off. */
static void put_variables(const struct writer *w, const struct lane *l, char *json, size_t size)
{
    const struct tft_chat_template *t = w->o->conversation;
    const char *tools = l->said.tools && tft_chat_uses(t, "tools") ? TOOLS : "",
               *thinks = !tft_chat_uses(t, "enable_thinking") ? ""
                         : l->number % 2                      ? "\"enable_thinking\":true"
                                                              : "\"enable_thinking\":false";
    snprintf(json, size, "{%s%s%s}", tools, *tools && *thinks ? "," : "", thinks);
}

/* The conversation up to the next answer, as tokens. False if the template refuses it: *err has the
   template's message. */
static bool render(struct writer *w, struct lane *l, struct tft_error *err)
{
    struct tft_chat_message message[MOST_MESSAGES + 1];
    struct tft_chat_text text;
    char json[sizeof TOOLS + 64];
    size_t n = 0;
    if (l->said.system.role)
        message[n++] = l->said.system;
    for (size_t i = 0; i <= l->turn; i++) {
        message[n++] = l->said.user[i];
        if (i < l->turn) {
            const char *answer = l->answer[i];
            message[n++] = (struct tft_chat_message){
                .role = "assistant", .text = answer, .n = strlen(answer)};
        }
    }
    put_variables(w, l, json, sizeof json);
    struct tft_chat_input in = {.size = sizeof in,
                                .message = message,
                                .n_message = n,
                                .json = json,
                                .n_json = strlen(json),
                                .has_time = true,
                                .time = TALKS_TIME};
    if (tft_chat_render_for(&text, w->o->conversation, w->m, &in, err) != TFT_OK)
        return false;
    bool goes_on = false;
    enum tft_status status = tft_chat_tokenize(&text, w->m, NULL, 0, &l->n_ids, NULL);
    free(l->ids);
    l->ids = status == TFT_OK ? malloc((l->n_ids + 1) * sizeof *l->ids) : NULL;
    if (l->ids)
        status = tft_chat_tokenize(&text, w->m, l->ids, l->n_ids, &l->n_ids, &goes_on);
    else if (status == TFT_OK)
        fail_memory(w);
    tft_chat_text_free(&text);
    l->text = (struct tft_text){.started = goes_on};
    if (status != TFT_OK)
        tft_fail(err, status, "a conversation cannot be tokenized: %s", tft_status_text(status));
    return status == TFT_OK && l->ids;
}

/* Begins to answer the message of l->turn. False if the template refuses the conversation, or if
   there is no room for the answer. */
static bool begin_turn(struct writer *w, struct lane *l, struct tft_error *err)
{
    l->n_answer = 0;
    l->most = ANSWER;
    if (!render(w, l, err))
        return false;
    if (l->n_ids + 2 < tft_capacity(l->s))
        return true;
    tft_fail(err, TFT_ERR_ARG, "the context has no room for an answer");
    return false;
}

/* --------------------------------------------------------------------- texts without a template */

/* Texts begin with BOS alone, if the model has it, or with BOS and a few words of a text, as far as
   there is room. */
static bool begin_text(struct writer *w, struct lane *l)
{
    const struct talks *t = &w->beginnings;
    size_t i = l->number % t->n, from = i ? t->end[i - 1] : 0, bare = 0;
    tft_tokenize(w->m, "", 0, TFT_ADD_BOS, NULL, 0, &bare);
    l->n_ids = 0;
    free(l->ids);
    l->ids = malloc((BEGINNING + 2) * sizeof *l->ids);
    if (!l->ids)
        return fail_memory(w);
    if (bare)
        l->ids[l->n_ids++] = tft_token_bos(w->m);
    if (!bare || l->number % 2) {
        memcpy(l->ids + l->n_ids, t->ids + from, (t->end[i] - from) * sizeof *l->ids);
        l->n_ids += t->end[i] - from;
    }
    if (l->n_ids > tft_capacity(l->s))
        l->n_ids = tft_capacity(l->s);
    l->n_answer = 0;
    l->most = TEXT;
    l->text = (struct tft_text){0};
    return true;
}

/* Cuts beginnings out of the text: a few tokens from each of 64 lines, spread evenly over it. */
static bool find_beginnings(struct writer *w)
{
    enum { BEGINNINGS = 64 };
    const char *p = w->o->beginnings, *end = p + w->o->n_beginnings;
    for (size_t i = 0; i < BEGINNINGS && w->o->n_beginnings; i++) {
        const char *at = p + w->o->n_beginnings / BEGINNINGS * i, *line = at;
        int32_t ids[512];
        size_t n;
        if (i) /* the next line with text on it */
            line = memchr(at, '\n', (size_t)(end - at));
        while (line && line < end && *line == '\n')
            line++;
        if (!line || line == end)
            continue;
        size_t len = strcspn(line, "\n");
        len = len < 200 ? len : 200;
        while (len && ((unsigned char)line[len] & 0xc0) == 0x80) /* amid a character */
            len--;
        if (tft_tokenize(w->m, line, len, 0, ids, sizeof ids / sizeof *ids, &n) != TFT_OK || !n)
            continue;
        if (!talks_add(&w->beginnings, ids, n < BEGINNING ? n : BEGINNING))
            return fail_memory(w);
    }
    if (!w->beginnings.n)
        tft_fail(w->err, TFT_ERR_ARG, "there is no text for beginnings of calibration text");
    return w->beginnings.n;
}

/* -------------------------------------------------------------------------------------- a text */

/* Begins the next text on an idle lane, if any text is left. */
static void begin_next(struct writer *w, struct lane *l)
{
    struct tft_error err = {0};
    while (!failed(w) && !l->busy && (!w->o->conversation || w->begun < w->n_said)) {
        l->number = w->begun++;
        free_answers(l);
        l->turn = 0;
        l->z = (struct tft_sampler){
            .temperature = 0.8f, .top_p = 0.95f, .min_p = 0.05f, .seed = l->number + 1};
        if (!w->o->conversation) {
            l->busy = begin_text(w, l);
            continue;
        }
        said_at(&l->said, spread(l->number, w->n_said));
        l->busy = begin_turn(w, l, &err);
        w->refused += !l->busy;
        if (w->refused == w->n_said && !failed(w))
            *w->err = err;
    }
}

/* The text is complete: `last` is the token that ended it, which no session has; below 0: none. */
static void finish(struct writer *w, struct lane *l, int32_t last)
{
    size_t n = tft_pos(l->s), skip = talks_lead(w->m, tft_tokens(l->s), n);
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    l->busy = false;
    if (!ids) {
        fail_memory(w);
        return;
    }
    memcpy(ids, tft_tokens(l->s), n * sizeof *ids);
    if (last >= 0)
        ids[n++] = last;
    if (!talks_add(w->out, ids + skip, n - skip))
        fail_memory(w);
    free(ids);
}

/* An answer, or a text, has ended. */
static void end_answer(struct writer *w, struct lane *l, int32_t last)
{
    struct tft_error err;
    if (!write_token(w, l, -1))
        return;
    if (w->o->conversation && l->turn + 1 < l->said.n_user) {
        l->turn++;
        if (begin_turn(w, l, &err))
            return; /* the session's text is the beginning of the next turn's, or is removed */
    }
    finish(w, l, last);
}

/* Takes the next token. */
static void take_token(struct writer *w, struct lane *l)
{
    int32_t id = tft_sample(&l->z, l->s);
    if (id < 0 || tft_token_ends(w->m, id)) {
        end_answer(w, l, id);
        return;
    }
    if (!write_token(w, l, id))
        return;
    if (++l->n_answer == l->most || tft_pos(l->s) + 1 >= tft_capacity(l->s))
        end_answer(w, l, id);
    else
        l->next = id;
}

/* ----------------------------------------------------------------------------------- all texts */

/* The next tokens to feed to the lane's session: a piece of the prompt, or the newest token. */
static struct tft_step step_of(struct lane *l)
{
    size_t have = tft_pos(l->s), same = 0;
    if (l->n_answer)
        return (struct tft_step){.session = l->s, .tokens = &l->next, .n = 1};
    while (same < have && same + 1 < l->n_ids && tft_tokens(l->s)[same] == l->ids[same])
        same++;
    if (same < have)
        tft_rewind(l->s, same);
    size_t left = l->n_ids - same;
    return (struct tft_step){
        .session = l->s, .tokens = l->ids + same, .n = left < PIECE ? left : PIECE};
}

static double share_done(const struct writer *w)
{
    size_t kept = w->o->tokens / 2;
    double calibrate = (double)talks_tokens(w->out, false) / (double)w->o->tokens,
           keep = kept ? (double)talks_tokens(w->out, true) / (double)kept : 1,
           done = calibrate < keep ? calibrate : keep;
    return done < 1 ? done : 1;
}

/* One pass of all lanes. False if all lanes are idle. */
static bool pass(struct writer *w)
{
    struct tft_step step[LANES];
    struct lane *of[LANES];
    size_t n = 0;
    for (int i = 0; i < LANES && !failed(w); i++) {
        struct lane *l = &w->lane[i];
        if (!l->busy)
            begin_next(w, l);
        if (l->busy) {
            of[n] = l;
            step[n++] = step_of(l);
        }
    }
    if (!n || failed(w))
        return false;
    tft_step(w->batch, step, n);
    for (size_t i = 0; i < n && !failed(w); i++) {
        if (step[i].status != TFT_OK)
            *w->err = *tft_session_error(of[i]->s);
        else if (of[i]->n_answer || tft_pos(of[i]->s) == of[i]->n_ids)
            take_token(w, of[i]);
    }
    return true;
}

static void write_all(struct writer *w)
{
    while (!failed(w) && share_done(w) < 1 && pass(w))
        w->stopped = w->o->progress && !w->o->progress(w->o->user, share_done(w));
}

static void open_all(struct writer *w)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(w->m, &info);
    struct tft_batch_opts bo = {
        .size = sizeof bo, .n_sessions = LANES, .n_threads = w->o->n_threads};
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = info.n_ctx < CAPACITY ? info.n_ctx : CAPACITY,
                                  .n_batch = PIECE,
                                  .n_threads = w->o->n_threads,
                                  .kv = strcmp(info.kv, "f32") == 0 ? "f32" : "f16"};
    tft_batch_open(&w->batch, w->m, &bo, w->err);
    so.batch = w->batch;
    for (int i = 0; i < LANES && !failed(w); i++)
        tft_session_open(&w->lane[i].s, w->m, &so, w->err);
    w->n_said = said_count();
    if (!failed(w) && !w->o->conversation)
        find_beginnings(w);
}

static void close_all(struct writer *w)
{
    for (int i = 0; i < LANES; i++) {
        free_answers(&w->lane[i]);
        free(w->lane[i].ids);
        tft_session_close(w->lane[i].s);
    }
    tft_batch_close(w->batch);
    talks_free(&w->beginnings);
}

enum tft_status own_text_write(struct talks *out, const struct tft_model *m,
                               const struct own_text_opts *o, bool *stopped, struct tft_error *err)
{
    struct tft_error bad = {0};
    struct writer w = {.m = m, .o = o, .out = out, .err = &bad};
    *out = (struct talks){0};
    open_all(&w);
    if (!failed(&w))
        write_all(&w);
    close_all(&w);
    *stopped = w.stopped;
    if (bad.code != TFT_OK) {
        talks_free(out);
        if (err)
            *err = bad;
    }
    return bad.code;
}
