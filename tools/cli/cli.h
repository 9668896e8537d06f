/*
 * What the commands of tuffet share: options, errors, progress, interruption, JSON, opening a
 * model.
 *
 * Conventions: text that was asked for goes to standard output, everything for people to standard
 * error. A command returns its exit status: CLI_OK, CLI_FAILED after one line on standard error,
 * CLI_USAGE for a wrong command line, CLI_INTERRUPTED.
 */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tuffet.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

#define CLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* ---- errors: "tuffet: ..." on standard error */

int cli_fail(const char *fmt, ...) CLI_PRINTF(1, 2);  /* CLI_FAILED */
int cli_usage(const char *fmt, ...) CLI_PRINTF(1, 2); /* CLI_USAGE, and where help is to be found */

/* ---- the command line */

enum cli_type {
    CLI_FLAG,  /* bool */
    CLI_TEXT,  /* const char * */
    CLI_COUNT, /* uint32_t, at least 1 unless the default is 0 */
    CLI_REAL,  /* float, not negative */
    CLI_SEED,  /* uint64_t */
    CLI_WORD,  /* int: index of one of the words in `arg`, "f16|f32" */
};

struct cli_option {
    char letter; /* 0: none */
    const char *name;
    enum cli_type type;
    void *value;      /* holds the default */
    const char *arg;  /* how help names the argument; the words of CLI_WORD */
    const char *help; /* NULL ends the list */
};

struct cli_command {
    const char *name, *operands, *summary; /* "run", "MODEL" ("[MODEL]": or nothing), one line */
    const struct cli_option *const *options; /* lists, then NULL */
    const char *notes;                       /* after the options: examples */
};

/* Parses argv[1..]. Operands are stored in `operand`, exactly as many as the command names. CLI_OK
   to go on; -1 if --help was printed and the command is done; CLI_USAGE. */
int cli_parse(const struct cli_command *c, int argc, char **argv, const char **operand);

/* ---- a model and its session */

struct cli_model_options {
    const char *tokenizer, *cpu, *device;
    int weights;
    uint32_t threads, gpu_layers;
};
extern struct cli_model_options cli_model_options;
extern const struct cli_option cli_model_option_list[], cli_thread_option_list[],
    cli_tokenizer_option_list[];

struct cli_session_options {
    uint32_t ctx;
    const char *kv;
};
extern struct cli_session_options cli_session_options;
extern const struct cli_option cli_session_option_list[];

struct cli_sampling_options {
    float temperature, top_p, min_p, repeat_penalty;
    uint32_t top_k, repeat_last;
    uint64_t seed; /* CLI_ANY_SEED until cli_sampler takes one from the clock */
};
#define CLI_ANY_SEED UINT64_MAX
extern struct cli_sampling_options cli_sampling_options;
extern const struct cli_option cli_sampling_option_list[];

/* Whether there is such a cache as --kv names: CLI_OK or CLI_USAGE. cli_open_model sees to it. */
int cli_check_session(void);

/* With progress; CLI_OK, CLI_FAILED or CLI_USAGE. */
int cli_open_model(struct tft_model **m, const char *path, bool vocab_only);
/* o->size and what the options say is filled in; the rest is the caller's. */
int cli_open_session(struct tft_session **s, const struct tft_model *m, struct tft_session_opts *o);
struct tft_sampler cli_sampler(void);

/* The tokens of a text, to be freed; NULL after an error line. */
int32_t *cli_tokenize(const struct tft_model *m, const char *text, size_t len, unsigned flags,
                      size_t *n);

/* Makes the session hold these tokens, computing what is new in steps that leave room to draw and
   to be interrupted. */
enum tft_status cli_feed(struct tft_session *s, const int32_t *ids, size_t n);

/* ---- text in; "-" is standard input */

/* All of a file with a NUL after it, to be freed; NULL after an error line. */
char *cli_read(const char *path, size_t *len);

/* The same for what a user gives as -p TEXT, as -f FILE, or through a pipe; empty if it is none of
   them. */
char *cli_read_given(const char *text, const char *file, size_t *len);

/* A text that grows. */
struct cli_text {
    char *p;
    size_t n, room;
};
bool cli_text_add(struct cli_text *t, const char *p, size_t n); /* false without memory */

/* ---- text out. A model is a file like any other: its strings and what it generates may be made to
   play with a terminal. */

/* To standard output, at once. On a terminal U+FFFD stands for control characters other than
   newline and tab. False if it could not be written. */
bool cli_put(const char *p, size_t n);

/* Printable on one line: backslash, and what is no character or none that shows, as \n, \t, \\,
   \xHH and \u{HHHH}. */
void cli_put_escaped(FILE *f, const char *p, size_t n);

/* ---- progress: a line with time left on a terminal, once something takes over two seconds */

struct cli_progress {
    const char *what;
    uint64_t start, shown; /* ns */
    bool drawn;
};
void cli_progress_begin(struct cli_progress *p, const char *what);
void cli_progress_at(struct cli_progress *p, double done); /* 0..1 */
void cli_progress_end(struct cli_progress *p);             /* takes the line away */

uint64_t cli_ns(void);

/* ---- Ctrl-C */

/* From now on an interrupt only sets a flag; a second one while it is set ends the program. For
   when there is something to finish: before, and once released, an interrupt ends the program at
   once. */
void cli_catch_interrupts(void);
void cli_release_interrupts(void);
bool cli_interrupted(void);

/* ---- JSON */

/* A string with its quotes. Bytes that are no UTF-8 become U+FFFD, control characters are
   escaped. */
void cli_json_string(FILE *f, const char *s, size_t len);
/* ,"name":x on standard output; null for what is no number, which JSON has no word for. */
void cli_json_number(const char *name, double x);

/* ---- the commands */

int cmd_bench(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_ppl(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);

#endif
