/* tuffet tokenize: text to tokens, and tokens to text. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/system.h"
#include "tools/commands/commands.h"

static struct {
    const char *text, *file, *pair;
    bool pieces, decode, bos, eos, special, json;
} opt;

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.text, "TEXT", "convert this text"},
    {'f', "file", CLI_TEXT, &opt.file, "FILE", "convert the text of FILE; - is standard input"},
    {0, "bos", CLI_FLAG, &opt.bos, NULL, "put BOS first, if the model was trained with it"},
    {0, "eos", CLI_FLAG, &opt.eos, NULL,
     "put EOS last, if the model wants it after a text to embed; [SEP] of BERT"},
    {0, "pair", CLI_TEXT, &opt.pair, "TEXT",
     "convert the text and TEXT to one input, as for a reranker, with all special tokens"},
    {0, "special", CLI_FLAG, &opt.special, NULL,
     "read <|names|> of special tokens as these tokens; with --decode, print the names"},
    {0, "decode", CLI_FLAG, &opt.decode, NULL,
     "convert token ids, separated by spaces or commas, to their text"},
    {0, "pieces", CLI_FLAG, &opt.pieces, NULL,
     "print a line for each token: its id, a tab, and its text"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: tokens and pieces, with --pair types of tokens; with --decode, text"},
    {0},
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

/* types: NULL if there are none. */
static void print_json(const struct tft_model *m, const int32_t *ids, const unsigned char *types,
                       size_t n)
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
    for (size_t i = 0; types && i < n; i++)
        printf("%s%d", i ? "," : "],\"types\":[", types[i]);
    puts("]}");
}

static void print_tokens(const struct tft_model *m, const int32_t *ids, const unsigned char *types,
                         size_t n)
{
    if (opt.json)
        print_json(m, ids, types, n);
    else if (opt.pieces)
        print_pieces(m, ids, n);
    else
        print_ids(ids, n);
}

static int encode_pair(const struct tft_model *m, const char *text, size_t len)
{
    size_t n = 0, len_pair = strlen(opt.pair);
    const unsigned flags = opt.special ? TFT_PARSE_SPECIAL : 0;
    enum tft_status status =
        tft_tokenize_pair(m, text, len, opt.pair, len_pair, flags, NULL, NULL, 0, &n);
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    unsigned char *types = malloc(n + 1);
    if (status == TFT_OK && (!ids || !types))
        status = TFT_ERR_NOMEM;
    if (status == TFT_OK)
        status = tft_tokenize_pair(m, text, len, opt.pair, len_pair, flags, ids, types, n, &n);
    if (status == TFT_OK)
        print_tokens(m, ids, types, n);
    free(ids);
    free(types);
    if (status == TFT_ERR_UNSUPPORTED)
        return cli_fail("the model's vocabulary has no token between the texts of a pair");
    return status == TFT_OK ? CLI_OK
                            : cli_fail("cannot tokenize the texts: %s", tft_status_text(status));
}

static int encode(const struct tft_model *m, const char *text, size_t len)
{
    if (opt.pair)
        return encode_pair(m, text, len);
    size_t n;
    int32_t *ids = cli_tokenize(m, text, len,
                                (opt.bos ? TFT_ADD_BOS : 0) | (opt.eos ? TFT_ADD_EOS : 0) |
                                    (opt.special ? TFT_PARSE_SPECIAL : 0),
                                &n);
    if (!ids)
        return CLI_FAILED;
    print_tokens(m, ids, NULL, n);
    free(ids);
    return CLI_OK;
}

static bool separates(char c)
{
    return c == ' ' || c == ',' || (c >= '\t' && c <= '\r');
}

/* Reads the id at text[*pos], and moves *pos past it. text: [len], and NUL after it. Returns false
   if there is no number, or the model has no token of that id. */
static bool next_id(const struct tft_model *m, const char *text, size_t len, size_t *pos,
                    int32_t *id)
{
    char *end;
    size_t ignored;
    errno = 0;
    long n = strtol(text + *pos, &end, 10);
    bool whole = end == text + len || separates(*end);
    if (end == text + *pos || !whole || errno || n < 0 || n > INT32_MAX ||
        !tft_token_text(m, (int32_t)n, true, &ignored))
        return false;
    *pos = (size_t)(end - text);
    *id = (int32_t)n;
    return true;
}

/* Appends the text that the token completes; with --special, the name of a token without text. */
static bool append_token(const struct tft_model *m, struct tft_text *state, int32_t id,
                         struct cli_text *out)
{
    char piece[TFT_TEXT_MAX];
    size_t len = 0;
    const char *name = opt.special ? tft_token_text(m, id, false, &len) : NULL;
    if (!name || len)
        return cli_text_append(out, piece, tft_text_push(state, m, id, piece));
    name = tft_token_text(m, id, true, &len);
    return cli_text_append(out, piece, tft_text_push(state, m, -1, piece)) &&
           cli_text_append(out, name, len);
}

/* Appends the text of all ids in `text`. */
static int append_tokens(const struct tft_model *m, const char *text, size_t len,
                         struct cli_text *out)
{
    struct tft_text state = {0};
    char piece[TFT_TEXT_MAX];
    int32_t id;
    bool good = true;
    for (size_t pos = 0; good;) {
        while (pos < len && separates(text[pos]))
            pos++;
        if (pos == len)
            break;
        if (!next_id(m, text, len, &pos, &id))
            return cli_fail("byte %zu of the text is not the start of a token's id", pos);
        good = append_token(m, &state, id, out);
    }
    good = good && cli_text_append(out, piece, tft_text_push(&state, m, -1, piece));
    return good ? CLI_OK : cli_fail("out of memory");
}

static int decode(const struct tft_model *m, const char *text, size_t len)
{
    struct cli_text out = {0};
    int status = append_tokens(m, text, len, &out);
    if (status == CLI_OK && opt.json) {
        printf("{\"text\":");
        cli_json_string(stdout, out.p, out.n);
        puts("}");
    } else if (status == CLI_OK) {
        if (!cli_put(out.p, out.n))
            status = cli_fail("standard output: %s", strerror(errno));
        else if (system_is_terminal(STDOUT_FILENO))
            putchar('\n'); /* a file or pipe gets the exact text */
    }
    free(out.p);
    return status;
}

static int tokenize(const char *path)
{
    struct tft_model *m = NULL;
    size_t len;
    if (opt.text && opt.file)
        return cli_usage("-p and -f give two texts: use one of them");
    if (opt.decode && (opt.pieces || opt.bos || opt.eos || opt.pair))
        return cli_usage("--decode cannot be combined with --%s", opt.pieces ? "pieces"
                                                                  : opt.bos  ? "bos"
                                                                  : opt.eos  ? "eos"
                                                                             : "pair");
    if (!opt.text && !opt.file && system_is_terminal(STDIN_FILENO))
        return cli_usage("there is no text: give one with -p TEXT or -f FILE, or through a pipe");

    char *text = cli_read_input(opt.text, opt.file, &len);
    int status = text ? cli_open_model(&m, path, true) : CLI_FAILED;
    if (status == CLI_OK)
        status = (opt.decode ? decode : encode)(m, text, len);
    free(text);
    tft_model_close(m);
    return status;
}

const struct cli_command command_tokenize = {
    .name = "tokenize",
    .operand = "MODEL",
    .summary = "convert text to tokens, or tokens to text",
    .groups =
        (const struct cli_option_group[]){
            {"Text and output", options},
            {"Model", cli_tokenizer_option_list},
            {0},
        },
    .notes = "Without -p and -f, the text comes from a pipe on standard input. Only the vocabulary "
             "of MODEL is read, so the model may have any architecture. In the lines of --pieces, "
             "bytes that are not a printable character are \\xHH; in JSON they are U+FFFD.\n",
    .examples = "tuffet tokenize model.gguf -p \"Once upon a time\" --pieces\n"
                "tuffet tokenize model.gguf -f book.txt | wc -w\n"
                "tuffet tokenize bert.gguf --bos --eos -p \"A text to embed\"\n"
                "tuffet tokenize bert.gguf -p \"A question\" --pair \"A passage\" --json\n"
                "echo 1 9038 2501 263 931 | tuffet tokenize model.gguf --decode\n",
    .run = tokenize,
};
