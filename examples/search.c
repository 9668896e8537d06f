/*
 * Answers questions from a folder of text files:
 *
 *     search index DB EMBED FOLDER           keeps the paragraphs of FOLDER's files, with vectors
 *     search ask DB EMBED QUESTION [CHAT]    the nearest five, and CHAT's answer, which cites them
 *
 * EMBED is a model for embeddings, CHAT one with a chat template, DB a file of SQLite. A search
 * multiplies all vectors with the question's.
 */
#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tuffet_chat.h"

enum { MOST_FILE = 1 << 24, MOST_ANSWER = 300 };

struct app {
    sqlite3 *db;
    struct tft_model *m;
    struct tft_embedder *e;
    struct tft_embedder_info info;
    float *vector; /* [info.width] of the last text */
};

static void die(const char *why)
{
    fprintf(stderr, "search: %s\n", why);
    exit(1);
}

static void check_sql(struct app *x, int status)
{
    if (status != SQLITE_OK && status != SQLITE_DONE)
        die(sqlite3_errmsg(x->db));
}

static struct tft_model *open_model(const char *path)
{
    struct tft_model *m = NULL;
    struct tft_error err;
    if (tft_model_open(&m, path, NULL, &err) != TFT_OK)
        die(err.msg);
    return m;
}

/* x->vector = that of a text after the file's prompt of this name. A text that is too long is cut,
   but for the token at its end. */
static void embed(struct app *x, const char *name, const char *text)
{
    struct tft_model_info info = {.size = sizeof info};
    size_t n = 0, most = x->info.max_text;
    const char *prompt = tft_model_prompt(x->m, name, &n);
    char *all = sqlite3_mprintf("%.*s%s", (int)n, prompt ? prompt : "", text);
    size_t room = 2 * strlen(all) + 3;
    int32_t *ids = malloc(room * sizeof *ids);
    tft_model_describe(x->m, &info);
    if (tft_tokenize(x->m, all, strlen(all), TFT_ADD_BOS | TFT_ADD_EOS, ids, room, &n) != TFT_OK)
        die("a text cannot be tokenized");
    if (n > most && info.add_eos)
        ids[most - 1] = ids[n - 1];
    struct tft_text_tokens tokens = {.ids = ids, .n = n > most ? most : n};
    if (tft_embed(x->e, &tokens, 1, x->vector) != TFT_OK)
        die(tft_embedder_error(x->e)->msg);
    sqlite3_free(all);
    free(ids);
}

/* Adds the paragraphs of a file. */
static void add_passages(struct app *x, sqlite3_stmt *add, const char *file, char *text)
{
    for (char *at = text, *end; *(at += strspn(at, " \t\r\n")); at = end) {
        end = strstr(at, "\n\n");
        size_t n = end ? (size_t)(end - at) : strlen(at);
        end = at + n + (end != NULL);
        while (strchr(" \t\r\n", at[n - 1])) /* at[0] is no space */
            n--;
        at[n] = 0;
        embed(x, "document", at);
        sqlite3_bind_text(add, 1, file, -1, SQLITE_STATIC);
        sqlite3_bind_text(add, 2, at, -1, SQLITE_STATIC);
        sqlite3_bind_blob(add, 3, x->vector, (int)(x->info.width * sizeof(float)), SQLITE_STATIC);
        check_sql(x, sqlite3_step(add));
        sqlite3_reset(add);
    }
}

static void make_index(struct app *x, const char *folder)
{
    static char text[MOST_FILE + 1];
    char path[4096];
    DIR *dir = opendir(folder);
    sqlite3_stmt *add;
    if (!dir)
        die("the folder cannot be read");
    check_sql(x, sqlite3_exec(x->db, "PRAGMA page_size = 65536; /* a search reads all pages */"
                                     "BEGIN; DROP TABLE IF EXISTS passage; CREATE TABLE "
                                     "passage(file, text, vector)", NULL, NULL, NULL));
    check_sql(x, sqlite3_prepare_v2(x->db, "INSERT INTO passage VALUES(?, ?, ?)", -1, &add, NULL));
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        FILE *f = *d->d_name == '.' ? NULL : fopen(path, "rb");
        text[f ? fread(text, 1, MOST_FILE, f) : 0] = 0; /* nothing of a folder */
        add_passages(x, add, d->d_name, text);
        if (f)
            fclose(f);
    }
    sqlite3_finalize(add);
    check_sql(x, sqlite3_exec(x->db, "COMMIT", NULL, NULL, NULL));
    closedir(dir);
}

/* near(vector) in SQL: its product with the question's. */
static void near_question(sqlite3_context *result, int n, sqlite3_value **blob)
{
    const struct app *x = sqlite3_user_data(result);
    const float *v = sqlite3_value_blob(blob[0]), *q = x->vector;
    float lane[16] = {0}, sum = 0; /* a compiler keeps lanes in a vector */
    if (n != 1 || (size_t)sqlite3_value_bytes(blob[0]) != x->info.width * sizeof *v)
        return;
    for (size_t i = 0; i < x->info.width; i++)
        lane[i % 16] += v[i] * q[i];
    for (size_t i = 0; i < 16; i++)
        sum += lane[i];
    sqlite3_result_double(result, (double)sum);
}

/* Prints the nearest passages. Returns the message for the chat model. */
static char *find(struct app *x, const char *question, int *n)
{
    char *ask = sqlite3_mprintf("Answer the question in a sentence from these passages, and name "
                                "the passage after it, such as [1].\n\n");
    sqlite3_stmt *s;
    embed(x, "query", question);
    sqlite3_create_function(x->db, "near", 1, SQLITE_UTF8, x, near_question, NULL, NULL);
    check_sql(x, sqlite3_prepare_v2(x->db, "SELECT near(vector) AS score, file, text FROM passage "
                                           "ORDER BY score DESC LIMIT 5", -1, &s, NULL));
    for (*n = 0; sqlite3_step(s) == SQLITE_ROW;) {
        const unsigned char *file = sqlite3_column_text(s, 1), *text = sqlite3_column_text(s, 2);
        printf("[%d] %.4f %s: %s\n", ++*n, sqlite3_column_double(s, 0), file, text);
        ask = sqlite3_mprintf("%z[%d] %s\n\n", ask, *n, text);
    }
    sqlite3_finalize(s);
    return sqlite3_mprintf("%zQuestion: %s", ask, question);
}

/* Prints the answer: by its grammar one sentence, and then the numbers of passages. */
static void answer(const char *path, const char *ask, int n_passages)
{
    struct tft_model *m = open_model(path);
    const char *jinja = tft_model_chat_template(m) ? tft_model_chat_template(m) : "";
    struct tft_chat_message said = {.role = "user", .text = ask, .n = strlen(ask)};
    struct tft_chat_input in = {sizeof in, .message = &said, .n_message = 1};
    struct tft_error err = {0};
    struct tft_chat_template *t = NULL;
    struct tft_chat_text prompt = {0};
    struct tft_lexicon *words = NULL;
    struct tft_grammar *g = NULL;
    struct tft_sampler z = {0};
    struct tft_session *s = NULL;
    struct tft_text text = {0};
    char gbnf[128], piece[TFT_TEXT_MAX];
    size_t n, most = 2 * strlen(ask) + 4096;
    int32_t id, *ids = malloc(most * sizeof *ids);
    snprintf(gbnf, sizeof gbnf, "root ::= ([^[\\].!?\n] | [.] [^[\\] \n]){1,250} [.!?] [ ] "
                                "([[] [1-%d] [\\]]){1,3}", n_passages);
    enum tft_status e = tft_chat_open(&t, jinja, strlen(jinja), &err);
    e = e ? e : tft_chat_render_for(&prompt, t, m, &in, &err);
    e = e ? e : tft_chat_tokenize(&prompt, m, ids, most, &n, &text.started);
    e = e ? e : tft_session_open(&s, m, NULL, &err);
    e = e ? e : tft_lexicon_open(&words, m, &err);
    e = e ? e : tft_grammar_open(&g, words, TFT_GBNF, gbnf, strlen(gbnf), &err);
    e = e ? e : tft_grammar_begin(&z.grammar, g, &err);
    size_t held = e ? 0 : tft_prefix_held(m, NULL, ids, n); /* the model's prefix has these */
    e = e ? e : tft_sync(s, ids + held, n - held);
    for (int i = 0; !e && i < MOST_ANSWER; i++) {
        if ((id = tft_sample(&z, s)) < 0 || tft_token_ends(m, id))
            break;
        fwrite(piece, 1, tft_text_push(&text, m, id, piece), stdout);
        e = tft_decode(s, id);
    }
    puts("");
    if (e)
        die(*err.msg ? err.msg : tft_status_text(e));
    tft_grammar_end(z.grammar);
    tft_grammar_close(g);
    tft_lexicon_close(words);
    tft_session_close(s);
    tft_chat_text_free(&prompt);
    tft_chat_close(t);
    tft_model_close(m);
    free(ids);
}

int main(int argc, char **argv)
{
    struct app x = {.info = {.size = sizeof x.info}};
    struct tft_error err;
    bool index = argc == 5 && strcmp(argv[1], "index") == 0;
    if (!index && (argc < 5 || argc > 6 || strcmp(argv[1], "ask") != 0))
        die("usage: search index DB EMBED FOLDER, or search ask DB EMBED QUESTION [CHAT]");
    check_sql(&x, sqlite3_open(argv[2], &x.db));
    x.m = open_model(argv[3]);
    if (tft_embedder_open(&x.e, x.m, NULL, &err) != TFT_OK)
        die(err.msg);
    tft_embedder_describe(x.e, &x.info);
    x.vector = malloc(x.info.width * sizeof *x.vector);
    int n = 0;
    char *ask = index ? make_index(&x, argv[4]), NULL : find(&x, argv[4], &n);
    if (argc == 6)
        answer(argv[5], ask, n);
    sqlite3_free(ask);
    free(x.vector);
    tft_embedder_close(x.e);
    tft_model_close(x.m);
    sqlite3_close(x.db);
    return 0;
}
