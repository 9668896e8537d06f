/* --dynamic of tuffet quantize: chooses the inputs that get per-token ranges. */
#ifndef QUANTIZE_COMMAND_RANGES_H
#define QUANTIZE_COMMAND_RANGES_H

#include "tools/quantize/command_check.h"
#include "tools/quantize/search/range_search.h"

struct command_ranges {
    struct range_search found; /* if searched: the loss of each input with a static range */
    uint32_t n, most;          /* inputs with per-token ranges; at most */
    bool searched;
};

extern const struct cli_option command_ranges_option_list[];

/* All functions that return an int return CLI_OK, or the exit status after a message. take: sets
   range: [inputs] from the command line. */
int command_ranges_take(const struct tft_model *m, enum tft_range *range);
void command_ranges_free(struct command_ranges *c);

/* Whether the file that was measured last is within the bars, in all groups. */
bool command_ranges_hold(const struct command_check *check);

/* With --dynamic auto, gives per-token ranges to the inputs that lose most, in `range` and in the
   file `path`, which check has measured. Stops when the loss is within the bars, a quarter of the
   inputs have them, or more of them gain little. Called again, for a file of the same model, it
   continues from there. t: the held-out text, on which check is open. */
int command_ranges_choose(struct command_ranges *c, struct command_check *check,
                          const struct command_text *t, const char *path, enum tft_range *range,
                          int n_threads);

/* Prints the choice: lines on standard error; a JSON array on standard output. */
void command_ranges_report(const struct command_ranges *c, const struct command_check *check,
                           const struct tft_model *m);
void command_ranges_json(const struct command_ranges *c, const struct tft_model *m);

#endif
