/*
 * Shared by the commands of tuffet: the command line and its help, errors, the options that open a
 * model and a session, text in and out, progress, Ctrl-C, JSON.
 *
 * The output that the user asked for goes to standard output. Errors, progress and notes go to
 * standard error. A command returns the exit status of the program: CLI_OK, CLI_FAILED or CLI_USAGE
 * after one error message, or CLI_INTERRUPTED.
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

/* ---- errors: one line "tuffet: ..." on standard error */

/* Something failed while the command ran. Returns CLI_FAILED. */
int cli_fail(const char *fmt, ...) CLI_PRINTF(1, 2);

/* The command line is wrong. A second line tells how to get help. Returns CLI_USAGE. */
int cli_usage(const char *fmt, ...) CLI_PRINTF(1, 2);

/* The last message of these two in this thread, without "tuffet: "; "" if there is none. Until the
   next one. */
const char *cli_last_error(void);

/* ---- the command line */

enum cli_type {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_TEXTS,  /* struct cli_texts: each use of the option adds one */
    CLI_COUNT,  /* uint32_t, at least 1 unless the default is 0 */
    CLI_NUMBER, /* uint32_t, 0 too */
    CLI_LIMIT,  /* int32_t, 0 too, and -1, which stands for no limit */
    CLI_REAL,   /* float, not negative */
    CLI_SHARE,  /* float, from 0 to 1 */
    CLI_SEED,   /* uint64_t */
    CLI_BYTES,  /* uint64_t; K, M and G after the number stand for 2^10, 2^20 and 2^30 */
    CLI_WORD,   /* int: the index of one of the words in `arg`, for example "f16|f32" */
};

enum { CLI_MOST_TEXTS = 64 };
struct cli_texts {
    const char *p[CLI_MOST_TEXTS]; /* [n] */
    uint32_t n;
};

struct cli_option {
    char letter; /* the short form; 0: none */
    const char *name;
    enum cli_type type;
    void *value;      /* place of the value; its initial content is the default */
    /* Name of the value in the help; the words of a CLI_WORD. After a colon: names that completion
       offers, of others or of the listed ones, for example "NAME:c|avx2". */
    const char *arg;
    const char *help; /* its effect; the help adds the default. NULL ends the list */
};

/* Options that the help lists under one title. */
struct cli_option_group {
    const char *title;             /* NULL: they continue the group before */
    const struct cli_option *list; /* NULL ends the groups */
};

/* A command. --help, the manual page and completion are made from this. */
struct cli_command {
    const char *name, *operand; /* "run", "MODEL"; "[MODEL]" may be left out */
    const char *summary;        /* its purpose, in a few words: "generate text" */
    const struct cli_option_group *groups;
    /* Names of the options that most people need, ended by NULL: --help prints these in this order,
       --help all prints every option. NULL: --help prints every option. */
    const char *const *first;
    /* Paragraphs, each in one line; the help wraps them. A line that begins with a space is printed
       unchanged. */
    const char *notes;
    const char *examples;            /* command lines */
    int (*run)(const char *operand); /* NULL if the operand was left out */
    bool has_config; /* the user's defaults count (config.h) */
    struct cli_texts *operands; /* gets all operands, of a command that takes several; or NULL */
};

/* The option with this name, or with this letter if len is 1; NULL: there is none. */
const struct cli_option *cli_find_option(const struct cli_command *c, const char *name, size_t len);

/* Likewise in one list of options. */
const struct cli_option *cli_find_in(const struct cli_option *list, const char *name, size_t len);

/* Sets an option as the command line does, but a CLI_FLAG by "on" and "off". The text must stay.
   where: the beginning of an error message, which is one line. Returns CLI_OK or CLI_USAGE. */
int cli_set_option(const struct cli_option *o, const char *text, const char *where);

/* Whether the command line has set the option. */
bool cli_is_given(const struct cli_option *o);

/* Parses argv[1..] into the options' values and *operand. Returns CLI_OK, CLI_USAGE, or CLI_HELPED:
   --help was among the arguments, and the help has been printed. */
enum { CLI_HELPED = -1 };
int cli_parse(const struct cli_command *c, int argc, char **argv, const char **operand);

/* What tuffet has instead of an option of another program, in a few words; NULL: nothing. arg: the
   argument, "--name=VALUE" too. */
const char *cli_option_habit(const struct cli_command *c, const char *arg);

/* Says that there is no command of this name, and which one may be meant. Returns CLI_USAGE. */
int cli_no_command(const char *name);

/* Refuses what other programs take for a model: a text, a folder, a file of safetensors. Returns
   CLI_OK or CLI_FAILED. cli_open_model does this first, without folders. */
int cli_check_model_path(const char *path, bool takes_folders);

struct cli_program {
    const char *summary, *notes;               /* as in a command */
    const struct cli_command *const *commands; /* NULL ends the list */
};

/* Prints the help of a command on standard output. word: "" or "all". Returns CLI_OK, or CLI_USAGE
   after any other word. */
int cli_print_help(const struct cli_command *c, const char *word);
void cli_print_program_help(FILE *f, const struct cli_program *p);

/* The source of a manual page, in the macros of man(7), on standard output: of a command, or of the
   program itself if c is NULL. */
void cli_print_man(const struct cli_program *p, const struct cli_command *c);

/* The script with which a shell completes command lines, on standard output. Returns false if
   `shell` is not "bash", "zsh" or "fish". */
bool cli_print_completion(const struct cli_program *p, const char *shell);

/* ---- options that several commands have, and the models and sessions that they open */

extern struct cli_model_options {
    const char *tokenizer, *cpu, *device, *ignore_keys;
    int weights; /* enum tft_weights */
    uint32_t threads, gpu_layers;
    uint64_t experts_bytes;
    bool preload, lock; /* resident.c's */
    bool verbose; /* of cli_verbose_option_list: the functions that open say on standard error what
                     they opened */
} cli_model_options;
extern const struct cli_option cli_model_option_list[], cli_thread_option_list[],
    cli_verbose_option_list[], cli_tokenizer_option_list[], cli_cpu_option_list[],
    cli_key_option_list[];

extern struct cli_session_options {
    uint32_t ctx;       /* 0: the model's context length */
    const char *kv;     /* NULL: the model's default */
    const char *prefix; /* of cli_prefix_option_list; NULL: chosen by the prompt */
    uint32_t lookup;    /* of cli_lookup_option_list: guesses, in sessions that generate */
    const char *draft;  /* of cli_lookup_option_list: path of the draft model; "mtp"; or NULL */
} cli_session_options;
extern const struct cli_option cli_session_option_list[], cli_prefix_option_list[],
    cli_lookup_option_list[];

extern struct cli_sampling_options {
    float temperature, top_p, min_p, repeat_penalty;
    uint32_t top_k;
    int32_t repeat_last; /* 0: a penalty is for no token; -1: for all */
    uint64_t seed; /* CLI_ANY_SEED until cli_sampler takes one from the clock */
    float typical_p, top_n_sigma, xtc_probability, xtc_threshold;
    float dynatemp_range, dynatemp_exponent;
    int mirostat; /* 0: off, 1: mirostat 2 */
    float mirostat_tau, mirostat_eta;
    float dry_multiplier, dry_base;
    uint32_t dry_allowed_length;
    int32_t dry_last; /* 0: DRY is off; -1: all of the context */
    struct cli_texts dry_breakers;
    uint32_t min_tokens;
    bool ignore_eos;
} cli_sampling_options;
#define CLI_ANY_SEED UINT64_MAX
extern const struct cli_option cli_sampling_option_list[];

/* The value of --kv, for cli_option.arg. */
#define CLI_KV_ARG "CACHE:f16|f32|i8|tuffet|kivi|logquant|partial-logquant|asymkv|skvq|rtn"

/* Checks a value of --kv without a model. Returns CLI_OK or CLI_USAGE. cli_open_model first does
   this with the value in cli_session_options. */
int cli_check_kv(const char *text);

/* Applies --cpu, of cli_model_option_list or cli_cpu_option_list. Returns CLI_OK or CLI_FAILED.
   cli_open_model does this too. */
int cli_limit_cpu(void);

/* Opens a model by the options above, with progress. Returns CLI_OK, CLI_FAILED or CLI_USAGE. */
int cli_open_model(struct tft_model **m, const char *path, bool vocab_only);

/* The path of the bundled model, stories2M.gguf: beside the program, if it was called by a path, or
   its installed place, or its place in the sources if the program is in a folder of builds there.
   NULL if it is nowhere; cli_shipped_model prints an error message then. */
const char *cli_find_shipped_model(void);
const char *cli_shipped_model(void);
extern const char *cli_program_path; /* by which the program was called; set by main */

/* *info = the named prefix; false if there is none, or name is NULL. */
bool cli_find_prefix(const struct tft_model *m, const char *name, struct tft_prefix_info *info);

/* --ctx, or n without it. */
uint32_t cli_context(uint32_t n);

/* Opens a session. o: the caller's options; the function fills in ->size and the options above, but
   ->capacity and ->kv only if they are 0.
   With a lookup and a draft model, it opens o->draft too, which the caller closes after *s. Returns
   CLI_OK, or CLI_FAILED without either. */
int cli_open_session(struct tft_session **s, const struct tft_model *m, struct tft_session_opts *o);

/* Opens the model of --draft, if it is given and not "mtp", for sessions of m. Returns CLI_OK,
   CLI_FAILED or CLI_USAGE. */
int cli_open_draft(const struct tft_model *m);
void cli_close_draft(void);

/* --lora of cli_lora_option_list: opens the adapters for m, and later closes them, before m and
   after all sessions. cli_open_session gives a session the open adapters by cli_add_loras, unless
   its options have adapters. Returns CLI_OK or CLI_FAILED; close them then, too. */
extern const struct cli_option cli_lora_option_list[];
int cli_open_loras(const struct tft_model *m);
void cli_add_loras(struct tft_session_opts *o);
uint32_t cli_asked_loras(void); /* how many --lora there are */
/* The open adapters, with the scales of the command line: [returned]. */
uint32_t cli_loras(const struct tft_lora_use **use);
char *cli_lora_path(uint32_t i); /* the file of adapter i, to free; NULL: out of memory */
/* Says what makes a file of an adapter that is a folder of PEFT, or its weights: CLI_FAILED. */
int cli_check_lora_path(const char *path);
/* The path of FILE[:SCALE], to free; NULL: out of memory. */
char *cli_split_lora(const char *text, float *scale);
void cli_close_loras(void);

/* Prints the error of the session's last call. Returns CLI_FAILED. */
int cli_fail_session(const struct tft_session *s);

/* The name of the prefix for a session that will get the prompt ids[n]: the prefix of --prefix, or
   else the one that holds most of the prompt. NULL: the model's own. */
const char *cli_prefix(const struct tft_model *m, const int32_t *ids, size_t n);

/* A seed from the clock. Each call gives another one. */
uint64_t cli_random_seed(void);

/* The sampler of the options. If no seed is given, cli_sampler sets a random one in the options;
   cli_sampler_given leaves CLI_ANY_SEED. Call cli_open_sampling before, once, for the breakers of
   DRY: it returns CLI_OK or CLI_FAILED. */
struct tft_sampler cli_sampler(void);
struct tft_sampler cli_sampler_given(void);
int cli_open_sampling(const struct tft_model *m);
void cli_close_sampling(void);

/* Its further settings, also those that are off; and whether one of `o` is on. */
struct tft_sampler_more cli_sampler_more(void);
bool cli_has_more(const struct tft_sampler_more *o);

/* Breakers of DRY: finds the tokens that have one of the texts, at most CLI_MOST_TEXTS, in their
   own, or else the last token of the text. The caller frees *ids: [*n] in ascending order. Returns
   false if memory is short. */
bool cli_breakers(const struct tft_model *m, const char *const *texts, size_t n_texts,
                  int32_t **ids, uint32_t *n);

/* The breakers of the options: [*n] texts. */
const char *const *cli_breaker_texts(size_t *n);

/* An upper bound for the tokens of len bytes. A token takes at least one byte, except BOS and the
   spaces that some vocabularies put before and after special tokens. */
size_t cli_most_tokens(size_t len);

/* The tokens of a text, which the caller frees; NULL after an error message. */
int32_t *cli_tokenize(const struct tft_model *m, const char *text, size_t len, unsigned flags,
                      size_t *n);

/* Number of ids[n] that the session already holds and need not compute. At least one is left to
   compute. */
size_t cli_held(const struct tft_session *s, const int32_t *ids, size_t n);

/* Makes the session of cli_open_session hold ids[..n), as tft_sync does, with progress. After
   Ctrl-C the session has fewer tokens, and perhaps no logits. If n is 0, the logits are the
   prefix's. */
enum tft_status cli_sync(struct tft_session *s, const int32_t *ids, size_t n);

/* ---- numbers at the ends of their ranges (tft_session_ends), in sessions with count_ends */

/* Beginning of a note to the user if cli_unlike_calibration is true. */
#define CLI_UNLIKE_CALIBRATION                                                                     \
    "the text is unlike the text that the model was calibrated with: answers may be worse"

/* Their share among the session's computed numbers, 0..1; NaN if none were counted. */
double cli_session_ends(const struct tft_session *s);

/* Whether a share is above 0.1 %, and more than ten times the share at calibration. False if one of
   the two is NaN. */
bool cli_ends_unlike(double share, double calibrated);

/* Whether the session's share is. */
bool cli_unlike_calibration(const struct tft_model *m, const struct tft_session *s);

/* Prints an object: numbers, at_ends, calibrated, which may be null; or null if the session has
   counted none. */
void cli_ends_json(FILE *f, const struct tft_model *m, const struct tft_session *s);

/* ---- text in; the path "-" is standard input */

/* All of a file of at most CLI_MOST_READ bytes, without a byte order mark, and with a NUL after it,
   which the caller frees; NULL after an error message, also for UTF-16. A device may have no end.
   */
enum { CLI_MOST_READ = 256 << 20 };
char *cli_read(const char *path, size_t *len);

/* Likewise of at most `most` bytes, a number of MiB. */
char *cli_read_most(const char *path, size_t most, size_t *len);

/* Says that the text has more. Returns CLI_FAILED. */
int cli_fail_endless(const char *name, size_t most);

/* Whether a file with these first 8 bytes may be written to `path`: the path has no file, an empty
   one, or one with the same bytes. */
bool cli_may_replace(const char *path, const char *magic);

/* The text of -p TEXT, or else of -f FILE, or else from a pipe to standard input; empty without any
   of the three. Otherwise as cli_read. */
char *cli_read_input(const char *text, const char *file, size_t *len);

/* A text that grows. Starts from all zero; the owner frees p. */
struct cli_text {
    char *p;
    size_t n, room;
};
bool cli_text_append(struct cli_text *t, const char *p, size_t n); /* false: out of memory */

/* p[n] and a NUL, which the caller frees; NULL: out of memory. */
char *cli_copy(const char *p, size_t n);

/* ---- text out. A model file may come from anyone: its strings, and the text that it generates,
   may contain control sequences for the terminal. */

/* Prints to standard output at once. On a terminal, U+FFFD replaces control characters other than
   newline and tab. Returns false if the text could not be written. */
bool cli_put(const char *p, size_t n);

/* A number of bytes, in kB, MB or GB. */
struct cli_amount {
    char text[32];
};
struct cli_amount cli_amount(uint64_t bytes);

/* Prints on one line: a backslash is \\; control characters and bytes that are not UTF-8 are \n, \t
   or \xHH; invisible characters are \u{HHHH}. */
void cli_put_escaped(FILE *f, const char *p, size_t n);
bool cli_text_escaped(struct cli_text *t, const char *p, size_t n); /* false: out of memory */

/* ---- JSON */

/* A string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void cli_json_string(FILE *f, const char *s, size_t len);
bool cli_text_json(struct cli_text *t, const char *s, size_t len); /* false: out of memory */

/* ,"name":x on standard output; null if x is not finite, which JSON cannot express. */
void cli_json_number(const char *name, double x);

/* Checks that writing the file `out` would replace neither the file `input` nor a file that is read
   from the folder `input`, by whichever name or link. input: may be NULL. Returns CLI_OK or
   CLI_FAILED. */
int cli_check_output(const char *out, const char *input);

/* ---- progress: if standard error is a terminal, a line with a turning sign, a bar and the time
   left, which appears after two seconds */

struct cli_progress {
    const char *what;
    bool soon;             /* set by the caller: the line appears after half a second */
    uint64_t start, shown; /* ns */
    bool drawn;
};
void cli_progress_begin(struct cli_progress *p, const char *what);
void cli_progress_at(struct cli_progress *p, double done); /* 0 .. 1 */
void cli_progress_end(struct cli_progress *p);             /* erases the line */

uint64_t cli_ns(void); /* a monotonic clock */

/* ---- Ctrl-C */

/* From now on Ctrl-C only sets a flag, so that the command can finish cleanly; a second Ctrl-C
   before the flag is cleared ends the program. Clears the flag. */
void cli_catch_interrupts(void);

/* Ctrl-C ends the program at once again, as at the start. */
void cli_release_interrupts(void);

bool cli_interrupted(void); /* the flag */

/* Calls f before Ctrl-C ends the program. f may do only what a signal handler may. */
void cli_before_interrupt(void (*f)(void));

#endif
