#include "template.h"

#include <stdlib.h>
#include <string.h>

struct template_format {
    const char *name;
    /* before and after a message; {bos} and {eos} are the model's */
    const char *system[2], *user[2], *assistant[2];
    bool system_in_user; /* the system message stands inside the first message of the user */
    bool trim;           /* white space around messages is removed */
    bool thinks;         /* of earlier answers, the part up to </think> is removed */
};

/* Sources: the chat templates of the models named, except
   - llama2: Meta's llama/generation.py, chat_completion, where each question and its answer are a
     sequence of their own;
   - mistral: version 1 of mistral-common's docs/usage/tokenizer.md. A SentencePiece vocabulary puts
     a space after a special token, so the space before [INST] is not written here. */
static const struct template_format formats[] = {
    { /* Qwen 1 to 2.5, SmolLM, OpenHermes */
        .name = "chatml",
        .system = {"<|im_start|>system\n", "<|im_end|>\n"},
        .user = {"<|im_start|>user\n", "<|im_end|>\n"},
        .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
    },
    {
        .name = "qwen3",
        .system = {"<|im_start|>system\n", "<|im_end|>\n"},
        .user = {"<|im_start|>user\n", "<|im_end|>\n"},
        .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
        .thinks = true,
    },
    {
        .name = "llama2",
        .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
        .user = {"[INST] ", " [/INST]"},
        .assistant = {" ", " {eos}{bos}"},
        .system_in_user = true,
        .trim = true,
    },
    {
        .name = "llama3",
        .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
        .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
        .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
        .trim = true,
    },
    { /* Zephyr, StableLM Zephyr, TinyLlama */
        .name = "zephyr",
        .system = {"<|system|>\n", "{eos}\n"},
        .user = {"<|user|>\n", "{eos}\n"},
        .assistant = {"<|assistant|>\n", "{eos}\n"},
    },
    {
        .name = "phi3",
        .system = {"<|system|>\n", "<|end|>\n"},
        .user = {"<|user|>\n", "<|end|>\n"},
        .assistant = {"<|assistant|>\n", "<|end|>\n"},
    },
    { /* Gemma 1 to 3 */
        .name = "gemma",
        .system = {"", "\n\n"},
        .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
        .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
        .system_in_user = true,
        .trim = true,
    },
    {
        .name = "mistral",
        .system = {"", "\n\n"},
        .user = {"[INST] ", " [/INST]"},
        .assistant = {" ", "{eos}"},
        .system_in_user = true,
    },
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *template_names(void)
{
    return "chatml, qwen3, llama2, llama3, zephyr, phi3, gemma or mistral";
}

const struct template_format *template_named(const char *name)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

const char *template_name(const struct template_format *f)
{
    return f->name;
}

bool template_thinks(const struct template_format *f)
{
    return f->thinks;
}

/* ---- recognizing */

static bool has(const char *jinja, const char *mark)
{
    return strstr(jinja, mark) != NULL;
}

/* Zephyr ends the user's message with EOS. Falcon 3 and GLM do not, and look the same otherwise. */
static bool user_ends_with_eos(const char *jinja)
{
    const char *user = strstr(jinja, "<|user|>");
    if (!user)
        return false;
    size_t n = strcspn(user, "}");
    const char *const ends[] = {"eos_token", "</s>", "<|endoftext|>"};
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(user, ends[i]);
        if (at && (size_t)(at - user) < n)
            return true;
    }
    return false;
}

const struct template_format *template_recognize(const char *jinja)
{
    const char *name = NULL;
    if (has(jinja, "<|im_start|>"))
        name = has(jinja, "<|im_sep|>") || has(jinja, "<end_of_utterance>") ? NULL
               : has(jinja, "</think>")                                     ? "qwen3"
                                                                            : "chatml";
    /* Later Mistral formats have markup for tools or system prompts, and other spaces. */
    else if (has(jinja, "[INST]"))
        name = has(jinja, "[AVAILABLE_TOOLS]") || has(jinja, "[SYSTEM_PROMPT]") ? NULL
               : has(jinja, "<<SYS>>")                                          ? "llama2"
                                                                                : "mistral";
    else if (has(jinja, "<|start_header_id|>") && has(jinja, "<|end_header_id|>"))
        name = "llama3";
    else if (has(jinja, "<|assistant|>") && has(jinja, "<|end|>"))
        name = "phi3";
    else if (has(jinja, "<|assistant|>") && user_ends_with_eos(jinja))
        name = "zephyr";
    else if (has(jinja, "<start_of_turn>"))
        name = "gemma";
    return name ? template_named(name) : NULL;
}

const struct template_format *template_choose(const struct tft_model *m, const char *name,
                                              const char *path)
{
    const char *jinja = tft_model_chat_template(m);
    const struct template_format *f =
        name ? template_named(name) : jinja ? template_recognize(jinja) : NULL;
    if (!f)
        cli_fail("%s: %s: name the format with --template: %s", path,
                 jinja ? "its chat template is not a known one" : "the file has no chat template",
                 template_names());
    return f;
}

/* ---- rendering */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The text of a message, or a part of it. */
struct words {
    const char *p;
    size_t n;
};

/* Without white space at its start, and at its end if `end`. */
static struct words trimmed(struct words w, bool end)
{
    while (w.n && is_space(*w.p))
        w.p++, w.n--;
    while (end && w.n && is_space(w.p[w.n - 1]))
        w.n--;
    return w;
}

/* The part of an answer after its thoughts. */
static struct words without_thoughts(struct words w)
{
    static const char close[] = "</think>";
    const size_t n = sizeof close - 1;
    for (size_t i = w.n; i-- > 0;)
        if (w.n - i >= n && memcmp(w.p + i, close, n) == 0) {
            w = (struct words){w.p + i + n, w.n - i - n};
            while (w.n && *w.p == '\n')
                w.p++, w.n--;
            break;
        }
    return w;
}

static bool add_mark(struct template_text *t, size_t begin)
{
    if (t->n_mark == t->room) {
        size_t room = t->room ? t->room * 2 : 16;
        struct template_mark *more = realloc(t->mark, room * sizeof *more);
        if (!more)
            return false;
        t->mark = more;
        t->room = room;
    }
    t->mark[t->n_mark++] = (struct template_mark){begin, t->text.n};
    return true;
}

/* Appends n bytes of markup, with {bos} and {eos} replaced. */
static bool append_markup(struct template_text *t, const struct tft_model *m, const char *p,
                          size_t n)
{
    size_t begin = t->text.n, len;
    bool good = true;
    while (n && good) {
        bool bos = n >= 5 && memcmp(p, "{bos}", 5) == 0, eos = n >= 5 && memcmp(p, "{eos}", 5) == 0;
        const char *name = bos || eos ? tft_token_text(m, bos ? tft_token_bos(m) : tft_token_eos(m),
                                                       true, &len)
                                      : NULL;
        size_t taken = bos || eos ? 5 : 1;
        good = name ? cli_text_append(&t->text, name, len)
                    : taken == 5 || cli_text_append(&t->text, p, 1);
        p += taken;
        n -= taken;
    }
    return good && (t->text.n == begin || add_mark(t, begin));
}

/* Appends a message with the markup before and after it. */
static bool append_message(struct template_text *t, const struct tft_model *m,
                           const char *const around[2], struct words x)
{
    return append_markup(t, m, around[0], strlen(around[0])) &&
           cli_text_append(&t->text, x.p, x.n) && append_markup(t, m, around[1], strlen(around[1]));
}

/* Appends the answer that the model is to continue. If the answer is empty, the space that the
   format puts before it is left out: the model's first word begins with it. */
static bool append_answer(struct template_text *t, const struct template_format *f,
                          const struct tft_model *m, struct words x, bool no_think)
{
    static const char empty[] = "<think>\n\n</think>\n\n";
    size_t n = strlen(f->assistant[0]);
    while (!x.n && n && f->assistant[0][n - 1] == ' ')
        n--;
    return append_markup(t, m, f->assistant[0], n) &&
           (!no_think || append_markup(t, m, empty, sizeof empty - 1)) &&
           cli_text_append(&t->text, x.p, x.n);
}

/* Appends a message of the user. system: the system message that stands inside it, or NULL. */
static bool append_user(struct template_text *t, const struct template_format *f,
                        const struct tft_model *m, struct words x, const struct words *system)
{
    if (!system)
        return append_message(t, m, f->user, x);
    return append_markup(t, m, f->user[0], strlen(f->user[0])) &&
           append_message(t, m, f->system, *system) && cli_text_append(&t->text, x.p, x.n) &&
           append_markup(t, m, f->user[1], strlen(f->user[1]));
}

bool template_render(struct template_text *t, const struct template_format *f,
                     const struct tft_model *m, const struct template_message *message, size_t n,
                     bool no_think)
{
    struct words system = {0};
    bool good = true, pending = false; /* pending: the system message is still to be appended */
    t->text.n = t->n_mark = 0;
    for (size_t i = 0; i < n && good; i++) {
        bool last = i + 1 == n;
        enum template_role role = message[i].role;
        struct words x = {message[i].text.p, message[i].text.n};
        if (f->trim)
            x = trimmed(x, !last);
        if (role == TEMPLATE_SYSTEM && f->system_in_user) {
            system = x;
            pending = true;
        } else if (role == TEMPLATE_SYSTEM) {
            good = append_message(t, m, f->system, x);
        } else if (role == TEMPLATE_USER) {
            good = append_user(t, f, m, x, pending ? &system : NULL);
            pending = false;
        } else {
            good = last ? append_answer(t, f, m, x, no_think)
                        : append_message(t, m, f->assistant, f->thinks ? without_thoughts(x) : x);
        }
    }
    return good;
}

size_t template_lead(const struct template_format *f, const char *answer, size_t n)
{
    size_t open = strlen(f->assistant[0]);
    return n && *answer == ' ' && f->assistant[0][open - 1] == ' ';
}

/* ---- tokenizing */

/* Tokens that are collected. */
struct ids {
    const struct tft_model *m;
    const char *text;
    int32_t *p, *of_mark; /* [room] of_mark: scratch */
    size_t n, room;
    enum tft_status status; /* of the first failure */
};

/* Appends the tokens of the text [begin, end), without special tokens. */
static void tokenize(struct ids *out, size_t begin, size_t end, unsigned flags)
{
    size_t n = 0;
    if (out->status == TFT_OK && (begin < end || flags))
        out->status = tft_tokenize(out->m, out->text + begin, end - begin, flags, out->p + out->n,
                                   out->room - out->n, &n);
    if (out->status == TFT_OK)
        out->n += n;
}

/* The name of a special token, which has no text; NULL for another token. */
static const char *special_name(const struct tft_model *m, int32_t id, size_t *n)
{
    size_t text;
    tft_token_text(m, id, false, &text);
    return text ? NULL : tft_token_text(m, id, true, n);
}

/* Appends the special tokens of a mark, and the text before each of them, from *begin on. The names
   of the special tokens stand in the mark in the order of the tokens. */
static void tokenize_mark(struct ids *out, struct template_mark k, size_t *begin)
{
    size_t n = 0, len, at = k.begin;
    if (out->status == TFT_OK)
        out->status = tft_tokenize(out->m, out->text + k.begin, k.end - k.begin, TFT_PARSE_SPECIAL,
                                   out->of_mark, out->room, &n);
    for (size_t i = 0; i < n && out->status == TFT_OK; i++) {
        const char *name = special_name(out->m, out->of_mark[i], &len);
        size_t found = at;
        while (name && found + len <= k.end && memcmp(out->text + found, name, len) != 0)
            found++;
        if (!name || !len || found + len > k.end)
            continue;
        tokenize(out, *begin, found, 0);
        out->p[out->n++] = out->of_mark[i];
        *begin = at = found + len;
    }
}

int32_t *template_tokenize(const struct template_text *t, const struct tft_model *m, size_t *n,
                           bool *text_goes_on)
{
    /* a token has at least one byte, except BOS and a space that is put after a special token */
    size_t room = 2 * t->text.n + 2, begin = 0;
    struct ids out = {.m = m, .text = t->text.p, .room = room, .p = malloc(room * sizeof *out.p),
                      .of_mark = malloc(room * sizeof *out.of_mark)};
    if (!out.p || !out.of_mark)
        out.status = TFT_ERR_NOMEM;
    tokenize(&out, 0, 0, TFT_ADD_BOS);
    for (size_t i = 0; i < t->n_mark; i++)
        tokenize_mark(&out, t->mark[i], &begin);
    tokenize(&out, begin, t->text.n, 0);
    *n = out.n;
    *text_goes_on = begin < t->text.n;
    free(out.of_mark);
    if (out.status == TFT_OK && out.n)
        return out.p;
    free(out.p);
    if (out.status == TFT_ERR_UNSUPPORTED)
        cli_fail("the model has no tokenizer; a llama2.c model needs --tokenizer FILE");
    else
        cli_fail("cannot tokenize the conversation: %s",
                 out.status != TFT_OK ? tft_status_text(out.status) : "it has no tokens");
    return NULL;
}

/* ---- a system message */

/* What a user may begin with. A tokenizer may merge the last of the markup with the first of it. */
static const char *const openings[] = {"Hello", "what", "7",   "\n\n\n",
                                       "  1",   "\"A",  "- b", "\xc3\xa9"};
enum { OPENINGS = sizeof openings / sizeof *openings };

/* The tokens of a conversation in which the user says `opening` first. system: or NULL */
static int32_t *begin(const struct template_format *f, const struct tft_model *m,
                      const char *system, const char *opening, size_t *n)
{
    struct template_text t = {0};
    bool goes_on;
    struct template_message all[] = {
        {TEMPLATE_SYSTEM, {.p = (char *)(uintptr_t)system, .n = system ? strlen(system) : 0}},
        {TEMPLATE_USER, {.p = (char *)(uintptr_t)opening, .n = strlen(opening)}},
        {.role = TEMPLATE_ASSISTANT},
    };
    size_t first = system ? 0 : 1;
    int32_t *ids = NULL;
    if (template_render(&t, f, m, all + first, 3 - first, false))
        ids = template_tokenize(&t, m, n, &goes_on);
    else
        cli_fail("out of memory");
    template_free(&t);
    return ids;
}

static size_t common(const int32_t *a, size_t n, const int32_t *b, size_t n_b)
{
    size_t i = 0;
    while (i < n && i < n_b && a[i] == b[i])
        i++;
    return i;
}

int32_t *template_system_tokens(const struct template_format *f, const struct tft_model *m,
                                const char *system, size_t *n)
{
    int32_t *ids = begin(f, m, system, openings[0], n);
    size_t without = 0; /* as many of them do not depend on the system message */
    for (int i = 0; i < OPENINGS && ids; i++) {
        size_t n_other, n_bare;
        int32_t *other = begin(f, m, system, openings[i], &n_other),
                *bare = begin(f, m, NULL, openings[i], &n_bare);
        size_t same = other && bare ? common(ids, *n, bare, n_bare) : 0;
        without = same > without ? same : without;
        *n = other ? common(ids, *n, other, n_other) : 0;
        if (!other || !bare) {
            free(ids);
            ids = NULL;
        }
        free(other);
        free(bare);
    }
    if (!ids || without < *n)
        return ids;
    free(ids);
    cli_fail("the chat format %s ignores the system message", f->name);
    return NULL;
}

void template_free(struct template_text *t)
{
    free(t->text.p);
    free(t->mark);
    *t = (struct template_text){0};
}
