/*
 * teach-eval TEXT MODEL [TOKENIZER]
 *
 * Prints the bits per byte of a text by a GGUF model, or by a llama2.c checkpoint and its
 * TOKENIZER.
 */
#include "tool.h"
#include "tuffet.h"

#include <math.h>
#include <stdlib.h>

/*
 * Paragraphs are separated by one newline, as in the text that the teacher learned from, and
 * grouped into pieces of at most this many bytes. The pieces are the same for every model, and
 * short enough for a context of 256 tokens. Each is scored from BOS. So bits per byte can be
 * compared between vocabularies, unlike perplexity per token.
 */
enum { PIECE_BYTES = 700 };

struct evaluation {
    struct tft_model *model;
    struct tft_session *session;
    uint32_t n_vocab;
    double nats;
    size_t bytes, tokens;
};

static size_t drop_blank_lines(char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        if (text[i] != '\n' || (n > 0 && text[n - 1] != '\n'))
            text[n++] = text[i];
    return n;
}

static size_t piece_length(const char *text, size_t left)
{
    if (left <= PIECE_BYTES)
        return left;
    for (size_t n = PIECE_BYTES; n > 0; n--)
        if (text[n] == '\n')
            return n;
    return PIECE_BYTES;
}

/* -ln p of a token. */
static double cost(const float *logits, uint32_t n, int32_t token)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return log(sum) + max - (double)logits[token];
}

static void score(struct evaluation *e, const char *text, size_t len)
{
    int32_t ids[PIECE_BYTES + 2]; /* BOS and the leading space */
    size_t n;
    tft_rewind(e->session, 0);
    if (tft_tokenize(e->model, text, len, TFT_ADD_BOS, ids, sizeof ids / sizeof *ids, &n) ||
        tft_prefill(e->session, ids, n))
        die("%zu bytes do not fit the context: \"%.*s\"", len, (int)len, text);
    for (size_t i = 1; i < n; i++)
        e->nats += cost(tft_logits(e->session, n - i), e->n_vocab, ids[i]);
    e->bytes += len;
    e->tokens += n - 1;
}

static void open_model(struct evaluation *e, const char *path, const char *tokenizer)
{
    struct tft_model_info info = {.size = sizeof info};
    struct tft_model_opts opts = {.size = sizeof opts, .tokenizer = tokenizer};
    struct tft_error err;
    if (tft_model_open(&e->model, path, &opts, &err))
        die("%s", err.msg);
    tft_model_describe(e->model, &info);
    struct tft_session_opts all = {
        .size = sizeof all, .n_batch = info.n_ctx, .n_logits = info.n_ctx, .kv = "f16"};
    if (tft_session_open(&e->session, e->model, &all, &err))
        die("%s", err.msg);
    e->n_vocab = info.n_vocab;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("usage: teach-eval TEXT MODEL [TOKENIZER]");
    struct evaluation e = {0};
    size_t len;
    char *text = read_text(argv[1], &len);
    open_model(&e, argv[2], argv[3]);
    len = drop_blank_lines(text, len);
    for (size_t at = 0, n; at < len; at += n + (text[at + n] == '\n')) {
        n = piece_length(text + at, len - at);
        score(&e, text + at, n);
    }
    printf("%.4f bits per byte, perplexity %.3f per token, %.3f bytes per token; %zu bytes\n",
           e.nats / log(2) / (double)e.bytes, exp(e.nats / (double)e.tokens),
           (double)e.bytes / (double)e.tokens, e.bytes);
    tft_session_close(e.session);
    tft_model_close(e.model);
    free(text);
    return 0;
}
