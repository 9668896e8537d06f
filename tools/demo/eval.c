/* teach-eval CHECKPOINT TOKENIZER TEXT [--f16]: bits per byte of a text, with the weights as they are or rounded to f16. */
#include "checkpoint.h"
#include "half.h"
#include "spm.h"
#include "tool.h"

#include <stdlib.h>

/* Paragraphs are separated by one newline, as in the text that the models learned from, and grouped into pieces of at most
   this many bytes: the same for every model and short enough for a context of 256 tokens. Each is scored from BOS. */
enum { PIECE_BYTES = 700 };

struct evaluation {
    struct shape shape;
    struct params w;
    struct tape *tape;
    struct spm spm;
    double bits;
    size_t bytes, tokens, pieces;
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

static void score(struct evaluation *e, const char *text, size_t len)
{
    char spaced[PIECE_BYTES + 1] = " "; /* SentencePiece's leading space */
    uint16_t token[PIECE_BYTES + 2] = {ID_BOS};
    double cost[PIECE_BYTES + 2];
    memcpy(spaced + 1, text, len);
    int n = 1 + spm_encode(&e->spm, spaced, (int)len + 1, token + 1, NULL);
    if (n > e->shape.context)
        die("%d tokens do not fit the context: \"%.*s\"", n, (int)len, text);
    llama_forward(e->tape, &e->w, token, n);
    llama_cost(e->tape, &e->w, token, n, cost);
    for (int i = 0; i < n - 1; i++)
        e->bits += cost[i] / log(2);
    e->bytes += len;
    e->tokens += (size_t)n - 1;
    e->pieces++;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: teach-eval CHECKPOINT TOKENIZER TEXT [--f16]");
    struct evaluation e = {0};
    float *flat = checkpoint_read(&e.shape, argv[1]);
    if (argc > 4)
        for (size_t i = 0; i < params_count(&e.shape); i++)
            flat[i] = tft_f16_to_f32(tft_f32_to_f16(flat[i]));
    e.w = params_at(&e.shape, flat);
    e.tape = tape_open(&e.shape);
    spm_read(&e.spm, argv[2]);
    if (e.spm.n != e.shape.vocab)
        die("%s: has %d pieces, the checkpoint %d", argv[2], e.spm.n, e.shape.vocab);
    size_t len;
    char *text = read_text(argv[3], &len);
    len = drop_blank_lines(text, len);
    for (size_t at = 0; at < len;) {
        size_t n = piece_length(text + at, len - at);
        score(&e, text + at, n);
        for (at += n; at < len && text[at] == '\n'; at++)
            ;
    }
    printf("%.4f bits per byte, perplexity %.3f per token, %.3f bytes per token; %zu pieces, %zu bytes, %zu parameters\n",
           e.bits / (double)e.bytes, exp2(e.bits / (double)e.tokens), (double)e.bytes / (double)e.tokens, e.pieces, e.bytes,
           params_count(&e.shape));
    return 0;
}
