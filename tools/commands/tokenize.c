/* tuffet tokenize: text to tokens, and back. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cli.h"

static struct {
    const char *text, *file;
    bool pieces, decode, bos, special, json;
} opt;

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.text, "TEXT", "the text"},
    {'f', "file", CLI_TEXT, &opt.file, "FILE", "the text is in this file, - for standard input"},
    {0, "pieces", CLI_FLAG, &opt.pieces, NULL,
     "a line for each token: its id, a tab, what it stands for"},
    {0, "decode", CLI_FLAG, &opt.decode, NULL,
     "the other way round: the text is ids, and what they stand for is written"},
    {0, "bos", CLI_FLAG, &opt.bos, NULL,
     "put the token for the beginning first, if the model was trained with one"},
    {0, "special", CLI_FLAG, &opt.special, NULL,
     "<|names|> stand for special tokens; --decode writes their names"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "one JSON object: tokens and pieces; with --decode, text"},
    {0, "tokenizer", CLI_TEXT, &cli_model_options.tokenizer, "FILE",
     "tokenizer.bin of a llama2.c model"},
    {0},
};

static const struct cli_command command = {
    "tokenize",
    "MODEL",
    "text to tokens, and back",
    (const struct cli_option *const[]){options, NULL},
    "Without -p or -f the text is what comes from a pipe on standard input. Only the vocabulary of "
    "MODEL is opened, so any GGUF file\n"
    "with a tokenizer of a known kind will do. In pieces, bytes that are no printable character "
    "are written \\xHH; in JSON they are U+FFFD.\n\n"
    "  tuffet tokenize model.gguf -p \"Once upon a time\" --pieces\n"
    "  tuffet tokenize model.gguf -f book.txt | wc -w\n"
    "  echo 1 9038 2501 263 931 | tuffet tokenize model.gguf --decode\n",
};

static void print_ids(const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i ? " " : "", ids[i]);
    putchar('\n');
}

static void print_pieces(const struct tft_model *m, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *p = tft_token_text(m, ids[i], true, &len);
        printf("%d\t", ids[i]);
        cli_put_escaped(stdout, p, len);
        putchar('\n');
    }
}

static void print_json(const struct tft_model *m, const int32_t *ids, size_t n)
{
    printf("{\"tokens\":[");
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i ? "," : "", ids[i]);
    printf("],\"pieces\":[");
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *p = tft_token_text(m, ids[i], true, &len);
        fputs(i ? "," : "", stdout);
        cli_json_string(stdout, p, len);
    }
    puts("]}");
}

static int encode(const struct tft_model *m, const char *text, size_t len)
{
    size_t n;
    int32_t *ids = cli_tokenize(
        m, text, len, (opt.bos ? TFT_ADD_BOS : 0) | (opt.special ? TFT_PARSE_SPECIAL : 0), &n);
    if (!ids)
        return CLI_FAILED;
    if (opt.json)
        print_json(m, ids, n);
    else if (opt.pieces)
        print_pieces(m, ids, n);
    else
        print_ids(ids, n);
    free(ids);
    return CLI_OK;
}

static bool separates(char c)
{
    return c == ' ' || c == ',' || (c >= '\t' && c <= '\r');
}

/* The id at text[*at], which is moved past it; false if there is none, or the model has no such
   token. The text ends in NUL. */
static bool next_id(const struct tft_model *m, const char *text, size_t len, size_t *at,
                    int32_t *id)
{
    char *end;
    size_t ignored;
    errno = 0;
    long n = strtol(text + *at, &end, 10);
    bool whole = end == text + len || separates(*end);
    if (end == text + *at || !whole || errno || n < 0 || n > INT32_MAX ||
        !tft_token_text(m, (int32_t)n, true, &ignored))
        return false;
    *at = (size_t)(end - text);
    *id = (int32_t)n;
    return true;
}

/* What the token completes; with --special its name if it has no text. */
static bool add_token(const struct tft_model *m, struct tft_text *state, int32_t id,
                      struct cli_text *out)
{
    char piece[TFT_TEXT_MAX];
    size_t len = 0;
    const char *name = opt.special ? tft_token_text(m, id, false, &len) : NULL;
    if (!name || len)
        return cli_text_add(out, piece, tft_text_push(state, m, id, piece));
    name = tft_token_text(m, id, true, &len);
    return cli_text_add(out, piece, tft_text_push(state, m, -1, piece)) &&
           cli_text_add(out, name, len);
}

static int collect(const struct tft_model *m, const char *text, size_t len, struct cli_text *out)
{
    struct tft_text state = {0};
    char piece[TFT_TEXT_MAX];
    int32_t id;
    bool good = true;
    for (size_t at = 0; good;) {
        while (at < len && separates(text[at]))
            at++;
        if (at == len)
            break;
        if (!next_id(m, text, len, &at, &id))
            return cli_fail("what is at byte %zu of the text is not the id of a token", at);
        good = add_token(m, &state, id, out);
    }
    good = good && cli_text_add(out, piece, tft_text_push(&state, m, -1, piece));
    return good ? CLI_OK : cli_fail("out of memory");
}

static int decode(const struct tft_model *m, const char *text, size_t len)
{
    struct cli_text out = {0};
    int status = collect(m, text, len, &out);
    if (status == CLI_OK && opt.json) {
        printf("{\"text\":");
        cli_json_string(stdout, out.p, out.n);
        puts("}");
    } else if (status == CLI_OK) {
        if (!cli_put(out.p, out.n))
            status = cli_fail("standard output: %s", strerror(errno));
        else if (isatty(STDOUT_FILENO))
            putchar('\n'); /* elsewhere the text is exactly what the ids stand for */
    }
    free(out.p);
    return status;
}

int cmd_tokenize(int argc, char **argv)
{
    const char *path;
    struct tft_model *m = NULL;
    size_t len;
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (opt.text && opt.file)
        return cli_usage("-p and -f are two texts");
    if (opt.decode && (opt.pieces || opt.bos))
        return cli_usage("--decode does not go with --%s", opt.pieces ? "pieces" : "bos");
    if (!opt.text && !opt.file && isatty(STDIN_FILENO))
        return cli_usage("a text is missing: -p TEXT, -f FILE, or a pipe");

    char *text = cli_read_given(opt.text, opt.file, &len);
    status = text ? cli_open_model(&m, path, true) : CLI_FAILED;
    if (status == CLI_OK)
        status = (opt.decode ? decode : encode)(m, text, len);
    free(text);
    tft_model_close(m);
    return status;
}
