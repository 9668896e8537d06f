#include "inputs.h"

#include <stdlib.h>
#include <string.h>

void input_free(struct input *in)
{
    free(in->ids);
    free(in->types);
    *in = (struct input){0};
}

struct tft_text_tokens input_tokens(const struct input *in)
{
    return (struct tft_text_tokens){.ids = in->ids, .types = in->types, .n = in->n};
}

/* Fits the tokens into `most`. ends: the last ones stay. */
static enum tft_status fit(struct input *in, size_t most, size_t ends, bool cut)
{
    in->whole = in->n;
    if (!in->n)
        return TFT_ERR_ARG;
    if (in->n <= most)
        return TFT_OK;
    if (!cut || most <= ends)
        return TFT_ERR_FULL;
    for (size_t i = 0; i < ends; i++) {
        in->ids[most - ends + i] = in->ids[in->n - ends + i];
        if (in->types)
            in->types[most - ends + i] = in->types[in->n - ends + i];
    }
    in->n = most;
    return TFT_OK;
}

/* ---- a text */

enum tft_status input_text(struct input *in, const struct tft_model *m, struct cli_text prompt,
                           struct cli_text text, size_t most, bool cut)
{
    struct tft_model_info info = {.size = sizeof info};
    struct cli_text all = {0};
    const unsigned flags = TFT_ADD_BOS | TFT_ADD_EOS;
    tft_model_describe(m, &info);
    if (prompt.n &&
        (!cli_text_append(&all, prompt.p, prompt.n) || !cli_text_append(&all, text.p, text.n))) {
        free(all.p);
        return TFT_ERR_NOMEM;
    }
    const char *p = prompt.n ? all.p : text.n ? text.p : "";
    size_t len = prompt.n ? all.n : text.n, room = cli_most_tokens(len) + 1;
    in->ids = malloc(room * sizeof *in->ids);
    enum tft_status status =
        in->ids ? tft_tokenize(m, p, len, flags, in->ids, room, &in->n) : TFT_ERR_NOMEM;
    free(all.p);
    return status == TFT_OK ? fit(in, most, info.add_eos, cut) : status;
}

/* ---- a pair by the model's special tokens */

static enum tft_status joined(struct input *in, const struct tft_model *m, struct cli_text query,
                              struct cli_text document)
{
    const char *a = query.n ? query.p : "", *b = document.n ? document.p : "";
    size_t n = 0;
    enum tft_status status = tft_tokenize_pair(m, a, query.n, b, document.n, 0, NULL, NULL, 0, &n);
    if (status != TFT_OK)
        return status;
    in->ids = malloc((n + 1) * sizeof *in->ids);
    in->types = malloc(n + 1);
    if (!in->ids || !in->types)
        return TFT_ERR_NOMEM;
    return tft_tokenize_pair(m, a, query.n, b, document.n, 0, in->ids, in->types, n, &in->n);
}

/* The token after the document stays, and all of the query. */
static enum tft_status join(struct input *in, const struct tft_model *m, struct cli_text query,
                            struct cli_text document, size_t most, bool cut)
{
    struct input bare = {0};
    enum tft_status status = joined(in, m, query, document);
    if (status == TFT_OK && cut && in->n > most) {
        status = joined(&bare, m, query, (struct cli_text){0});
        cut = bare.n <= most;
        input_free(&bare);
    }
    return status == TFT_OK ? fit(in, most, 1, cut) : status;
}

/* ---- a pair by the model's template */

/* Appends the template with the texts in it, and adds the spans of the template's own text. Names
   of special tokens count in them alone. */
struct filled {
    struct cli_text text;
    struct tft_span span[16];
    size_t n_spans;
};

static bool fill(struct filled *f, const char *p, size_t n, struct cli_text query,
                 struct cli_text document)
{
    static const char *const names[] = {"{query}", "{document}"};
    const struct cli_text *texts[] = {&query, &document};
    const size_t most = sizeof f->span / sizeof *f->span;
    bool good = true;
    for (size_t at = 0, from = 0; good; at++) {
        size_t which = 0;
        while (which < 2 && (n - at < strlen(names[which]) ||
                             memcmp(p + at, names[which], strlen(names[which])) != 0))
            which++;
        if (which == 2 && at < n)
            continue;
        size_t begin = f->text.n;
        good = f->n_spans < most && cli_text_append(&f->text, p + from, at - from);
        if (good && at > from)
            f->span[f->n_spans++] = (struct tft_span){begin, f->text.n};
        if (which == 2)
            break;
        good = good && cli_text_append(&f->text, texts[which]->p, texts[which]->n);
        from = at + strlen(names[which]);
        at = from - 1;
    }
    return good;
}

static enum tft_status filled(struct input *in, const struct tft_model *m, struct cli_text query,
                              struct cli_text document)
{
    struct filled f = {0};
    size_t len;
    const char *p = tft_model_rerank_template(m, &len);
    enum tft_status status = TFT_ERR_NOMEM;
    input_free(in);
    if (fill(&f, p, len, query, document)) {
        size_t room = cli_most_tokens(f.text.n);
        in->ids = malloc(room * sizeof *in->ids);
        if (in->ids)
            status = tft_tokenize_spans(m, f.text.p ? f.text.p : "", f.text.n, f.span, f.n_spans, 0,
                                        in->ids, room, &in->n);
    }
    free(f.text.p);
    return status;
}

/* A cut document is the longest beginning of whole characters that fits. */
static enum tft_status fill_in(struct input *in, const struct tft_model *m, struct cli_text query,
                               struct cli_text document, size_t most, bool cut)
{
    size_t low = 0, high = document.n, whole;
    enum tft_status status = filled(in, m, query, document);
    whole = in->n;
    if (status != TFT_OK || in->n <= most || !cut)
        return status == TFT_OK ? fit(in, most, 0, false) : status;
    while (low < high && status == TFT_OK) {
        document.n = low + (high - low + 1) / 2;
        status = filled(in, m, query, document);
        if (in->n <= most)
            low = document.n;
        else
            high = document.n - 1;
    }
    while (low && ((unsigned char)document.p[low] & 0xc0) == 0x80)
        low--;
    document.n = low;
    if (status == TFT_OK)
        status = filled(in, m, query, document);
    if (status == TFT_OK)
        status = fit(in, most, 0, false);
    in->whole = whole;
    return status;
}

enum tft_status input_pair(struct input *in, const struct tft_model *m, struct cli_text query,
                           struct cli_text document, size_t most, bool cut)
{
    size_t len;
    if (tft_model_rerank_template(m, &len))
        return fill_in(in, m, query, document, most, cut);
    return join(in, m, query, document, most, cut);
}
