/*
 * The loss of a W8A8 file against the float model on held-out text, which nothing was fitted to.
 * Static ranges may serve only the calibration text, and so may a searched or tuned prefix. A user
 * has one text: this check is the second opinion.
 *
 * Held-out text has two groups, because a model may predict one well and not the other:
 * conversations in the model's template, and text without a template.
 */
#ifndef QUANTIZE_CHECK_H
#define QUANTIZE_CHECK_H

#include "tools/quantize/options.h"
#include "tools/quantize/sink.h"

enum check_group { CHECK_CONVERSATION, CHECK_TEXT, CHECK_GROUPS };

/* "conversation", "text" */
const char *check_group_name(enum check_group g);

/* Held-out text: [n_windows, window], each window a sequence of its own. */
struct check_text {
    const int32_t *ids;
    uint32_t n_windows, window;
    const int32_t *start; /* [n_start] tokens of the file's prefix, which the float model gets
                             before each window */
    uint32_t n_start;     /* number of such tokens */
};

/* Over all tokens but the first of each window. */
struct check_loss {
    uint32_t tokens;     /* 0: nothing was measured */
    double floats, file; /* the mean of -ln p, for the float model and for the file */
    double divergence;   /* the mean Kullback-Leibler divergence of the file from the float model,
                            in nats; NaN: unknown */
    double same;         /* 0..1 how often the most likely token is the float model's; NaN:
                            unknown */
};

struct check_how {
    int n_threads;                             /* 0: tft_cpu_threads() */
    bool (*progress)(void *user, double done); /* NULL, or told 0..1; false: stop */
    void *user;
};

/* Output of the float model over the texts. */
struct check {
    struct tft_model *m;
    struct check_text text[CHECK_GROUPS];
    float *x[CHECK_GROUPS]; /* [n_windows, window, stride] the output of the last layer */
    size_t stride;
};

/* Runs the float model over the texts; m: opened by tft_model_open_unexpanded. m and the texts must
   outlive c. If *stopped: TFT_OK, and c is not usable. close accepts all zeros. */
enum tft_status check_open(struct check *c, struct tft_model *m,
                           const struct check_text text[CHECK_GROUPS], const struct check_how *how,
                           bool *stopped, struct tft_error *err);
void check_close(struct check *c);

/* Runs another model of the same vocabulary with the prefix of its file, and compares. Stops as
   check_open. */
enum tft_status check_model(const struct check *c, const struct tft_model *file,
                            const struct check_how *how, struct check_loss loss[CHECK_GROUPS],
                            bool *stopped, struct tft_error *err);

/* The same for a file that tuffet quantize wrote. */
enum tft_status check_file(const struct check *c, const char *path, const struct check_how *how,
                           struct check_loss loss[CHECK_GROUPS], bool *stopped,
                           struct tft_error *err);

/* The file's perplexity above the float model's, in percent. */
double check_percent(const struct check_loss *l);

/* Whether the loss is within the bars of quantize, in percent of perplexity and in nats. */
#define CHECK_PERCENT 1.0
#define CHECK_NATS 0.02
bool check_within(const struct check_loss *l, double percent, double nats);

/* Writes an object of JSON with a member for each group that was measured; null if none was. */
void check_json(struct sink *to, const struct check_loss loss[CHECK_GROUPS]);

/* Prints a line for each group. Returns whether one was measured. */
bool check_print_groups(struct sink *to, const struct check_loss loss[CHECK_GROUPS],
                        uint32_t n_vocab);

/* The same, and a warning if the loss is large. n_vocab: 0 if unknown. */
void check_print(struct sink *to, const struct check_loss loss[CHECK_GROUPS], uint32_t n_vocab);

#endif
