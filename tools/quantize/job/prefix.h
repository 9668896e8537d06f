/* The tokens of the new model's prefix, given by the options or found by a search. */
#ifndef QUANTIZE_JOB_PREFIX_H
#define QUANTIZE_JOB_PREFIX_H

#include "tools/quantize/job/check.h"
#include "tools/quantize/search/pivots.h"

struct job_prefix {
    struct job *j;
    enum tft_quantize_intact intact; /* of the options, or NONE if the model cannot have a prefix */
    int32_t *ids;                    /* [n] */
    size_t n;
    uint32_t n_text; /* the last of the ids: the text of --intact-text */
    bool pivots;     /* the tokens are the text's own outliers */
    bool searched;
    struct cushion cushion;                         /* if searched */
    struct check_prefix choice[PIVOT_PREFIXES + 3]; /* [n_choices] candidates: the start, the
                                                       outliers of the text, the searched prefix,
                                                       and the tokens that all conversations begin
                                                       with */
    uint32_t n_choices, n_pivots;
    bool tried;       /* the choices have losses */
    char *checkpoint; /* path */
};

/* Checks the options. */
enum tft_status job_prefix_check(struct job *j);

/* Type of the prefix in the file. */
enum tft_dtype job_prefix_type(const struct job *j);

/* choose: sets the tokens of the options; f: all zeros. look: then adds tokens that take the
   outliers of the text ids: [n], if the options name none. search: then adds the tokens that the
   search for a cushion finds in the text. take: makes that choice the prefix. */
enum tft_status job_prefix_choose(struct job_prefix *f, struct job *j);
enum tft_status job_prefix_look(struct job_prefix *f, const int32_t *ids, size_t n,
                                uint32_t window);
enum tft_status job_prefix_search(struct job_prefix *f, const int32_t *ids, size_t n);
enum tft_status job_prefix_take(struct job_prefix *f, uint32_t choice);

/* Adds a choice if look has added some: the start, and token[n], with which all conversations
   begin, up to cushion_max tokens. These tokens cost a conversation nothing, as it continues after
   them (job_text_begin). They may be outliers in every conversation, which look does not find. */
void job_prefix_add_first(struct job_prefix *f, const int32_t *token, size_t n);

/* If the new model's cache is f32, *fit becomes false if keys or values of the tokens ids: [n]
   exceed f16. */
enum tft_status job_prefix_check_fit(struct job *j, const int32_t *ids, uint32_t n, bool *fit);

/* If the new model's cache is f32: makes no prefix, and says so, if the keys or values of one of
   the choices exceed f16. */
enum tft_status job_prefix_fit(struct job_prefix *f);

/* The most tokens that the prefix can have after look and search. */
uint32_t job_prefix_most(const struct job_prefix *f);

/* Number of leading prefix tokens that the float model gets in a comparison: BOS, or the given
   text. */
uint32_t job_prefix_start(const struct job_prefix *f);

/* Accepts all zeros. status: of the run. The checkpoint of a search is removed if the model was
   written. */
void job_prefix_free(struct job_prefix *f, enum tft_status status);

#endif
