/* --dynamic of tuffet quantize: which inputs get a range for each token. */
#ifndef QUANTIZE_COMMAND_RANGES_H
#define QUANTIZE_COMMAND_RANGES_H

#include "tools/quantize/command_check.h"
#include "tools/quantize/search/range_search.h"

struct command_ranges {
    struct range_search found; /* if searched: what each input loses with a static range */
    uint32_t n, most;          /* how many of them got a range by token; at most */
    bool searched;
};

extern const struct cli_option command_ranges_option_list[];

/* All that return an int: CLI_OK, or the exit status after a message. take: sets range: [inputs] as
   the command line says. */
int command_ranges_take(const struct tft_model *m, enum tft_range *range);
void command_ranges_free(struct command_ranges *c);

/* Whether the file that was measured last is within the bars, in all groups. */
bool command_ranges_hold(const struct command_check *check);

/* With --dynamic auto, gives ranges by token to the inputs that lose most, in the file `path`,
   which check has measured, and in range, until the loss is within the bars, a quarter of the
   inputs has them, or more of them gain little. Called again, for a file of the same model, it goes
   on from there. t: the text that is kept out, on which check is open. */
int command_ranges_choose(struct command_ranges *c, struct command_check *check,
                          const struct command_text *t, const char *path, enum tft_range *range,
                          int n_threads);

/* Prints what was chosen: lines on standard error; a JSON array on standard output. */
void command_ranges_report(const struct command_ranges *c, const struct command_check *check,
                           const struct tft_model *m);
void command_ranges_json(const struct command_ranges *c, const struct tft_model *m);

#endif
