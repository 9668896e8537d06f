/*
 * The input is a conversation in a chat format, with the vocabulary of a toy, which has the marks
 * of the formats, or with one that the input makes up.
 *
 *      byte 0: which vocabulary; if it is made up, its parts follow (see vocab.h)
 *      then the format, its options, the number of questions, and for each message its length and
 *      its text
 *
 * Text of users never becomes a special token: a conversation of other words has the same ones.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "models.h"
#include "vocab.h"

#include "text/tokenizer.h"
#include "tools/cli/template.h"

enum { MOST = 8, LENGTH = 48 };

struct chat {
    const struct tft_model *m;
    const struct template_format *format;
    struct template_message message[MOST];
    size_t n;
    struct template_options o;
    bool lossless; /* lossless: tokens are decoded to the text as it was */
};

static const struct tft_model *toy_model(bool spm)
{
    static struct tft_model *m[2];
    static const struct toy toy = {.arch = "llama", .n_vocab = TOY_VOCAB, .n_ctx = 64,
                                   .n_embd = 8, .n_layer = 1, .n_head = 1, .n_head_kv = 1,
                                   .head_dim = 8, .n_ff = 8, .n_rot = 8, .type = TFT_F32};
    struct toy t = toy;
    t.vocab = spm ? "llama" : "gpt2";
    if (!m[spm])
        m[spm] = fuzz_toy(&t);
    return m[spm];
}

static const struct template_format *named(unsigned which)
{
    static const char *const names[] = {"chatml", "qwen3", "llama2", "llama3",
                                        "zephyr", "phi3",  "gemma",  "mistral"};
    const struct template_format *f = template_named(names[which % 8]);
    MUST(f && strcmp(template_name(f), names[which % 8]) == 0);
    MUST(strstr(template_names(), names[which % 8]));
    return f;
}

static void take_messages(struct input *in, struct chat *c)
{
    unsigned how = take(in);
    bool system = how % 2;
    c->o.no_think = how / 2 % 2;
    c->n = system + 2 + how / 4 % 3 * 2;
    for (size_t i = 0; i < c->n; i++) {
        size_t n = take(in) % LENGTH;
        n = n < in->n ? n : in->n;
        c->message[i].role = system && !i                ? TEMPLATE_SYSTEM
                             : (i - system) % 2 == 0 ? TEMPLATE_USER
                                                     : TEMPLATE_ASSISTANT;
        MUST(cli_text_append(&c->message[i].text, (const char *)in->p, n));
        in->p += n;
        in->n -= n;
    }
}

static int32_t *tokens_of(const struct chat *c, const struct template_message *message,
                          struct tft_chat_text *t, size_t *n)
{
    bool goes_on;
    MUST(template_render(t, c->format, c->m, message, c->n, &c->o));
    for (size_t i = 0; i < t->n_trusted; i++)
        MUST(t->trusted[i].begin < t->trusted[i].end && t->trusted[i].end <= t->n &&
             (!i || t->trusted[i - 1].end < t->trusted[i].begin));
    return template_tokenize(t, c->m, n, &goes_on);
}

/* The special tokens among ids: [n], moved to its beginning. */
static size_t special(const struct tft_tokenizer *t, int32_t *ids, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        if (t->token[ids[i]].kind == TFT_TOKEN_CONTROL && ids[i] != t->unknown)
            ids[found++] = ids[i];
    return found;
}

/* The same conversation, but all say "so". */
static void check_special(const struct chat *c, int32_t *ids, size_t n)
{
    struct template_message other[MOST];
    struct tft_chat_text t;
    char so[] = "so";
    size_t n_other;
    for (size_t i = 0; i < c->n; i++)
        other[i] = (struct template_message){.role = c->message[i].role,
                                             .text = {.p = so, .n = 2}};
    int32_t *want = tokens_of(c, other, &t, &n_other);
    size_t found = special(c->m->tokenizer, ids, n);
    MUST(!want || special(c->m->tokenizer, want, n_other) == found);
    MUST(!want || memcmp(want, ids, found * sizeof *ids) == 0);
    free(want);
    tft_chat_text_free(&t);
}

/* A conversation begins with the tokens of its system message. */
static void check_system(const struct chat *c, const int32_t *ids, size_t n)
{
    size_t n_system;
    char system[LENGTH] = "";
    if (c->message[0].role != TEMPLATE_SYSTEM ||
        memchr(c->message[0].text.p, 0, c->message[0].text.n))
        return;
    memcpy(system, c->message[0].text.p, c->message[0].text.n);
    int32_t *want = template_system_tokens(c->format, c->m, system, &c->o, &n_system);
    if (want)
        MUST(n_system <= n && memcmp(want, ids, n_system * sizeof *ids) == 0);
    free(want);
}

static void check_text(const struct chat *c, const struct tft_chat_text *t, const int32_t *ids,
                       size_t n)
{
    size_t at = 0, len;
    for (size_t i = 0; c->lossless && i < n; at += len, i++) {
        const char *p = tft_token_text(c->m, ids[i], true, &len);
        MUST(p && len <= t->n - at && memcmp(p, t->p + at, len) == 0);
    }
    MUST(!c->lossless || at == t->n);
}

static void check(const struct chat *c)
{
    struct tft_chat_text t;
    size_t n;
    int32_t *ids = tokens_of(c, c->message, &t, &n);
    for (size_t i = 0; ids && i < n; i++)
        MUST(ids[i] >= 0 && (uint32_t)ids[i] < c->m->n_vocab);
    MUST(!ids || n <= 2 * t.n + 2);
    if (ids) {
        check_text(c, &t, ids, n);
        check_system(c, ids, n);
        check_special(c, ids, n);
    }
    free(ids);
    tft_chat_text_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct chat c = {0};
    struct tft_model made_up = {0};
    unsigned which = take(&in);
    if (which % 4 < 2) {
        c.m = toy_model(which % 4);
        c.lossless = which % 4 == 0;
    } else {
        values_start(&values);
        make_up(&in);
        if (tft_tokenizer_open(&made_up.tokenizer, values_source(&values), NULL, NULL) != TFT_OK)
            return 0;
        made_up.n_vocab = tft_tokenizer_size(made_up.tokenizer);
        c.m = &made_up;
    }
    c.format = named(take(&in));
    take_messages(&in, &c);
    check(&c);
    for (size_t i = 0; i < c.n; i++)
        free(c.message[i].text.p);
    tft_tokenizer_close(made_up.tokenizer);
    return 0;
}
