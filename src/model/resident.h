/*
 * Experts in memory, for a mixture of experts in a mapped file that is larger than memory. Each
 * token reads few of the experts, but other tokens read others. The system notices only that a page
 * is missing, and has to guess which pages to free. Here the passes say which matrices they are
 * going to multiply: missing ones are read ahead of their use, many at once, and the least recently
 * used ones give their memory back.
 *
 * Reading and freeing is advice to the system: weights that are used without advice are read by
 * page faults, so results never depend on it. The bookkeeping is shared by all sessions of the
 * model.
 */
#ifndef TFT_RESIDENT_H
#define TFT_RESIDENT_H

#include "model/model.h"

/* A unit is the matrices of an expert that are used together. */
enum tft_expert_half { TFT_EXPERT_HIDDEN, TFT_EXPERT_DOWN, TFT_EXPERT_HALVES }; /* gate and up */

static inline uint32_t tft_expert_unit(const struct tft_model *m, uint32_t layer,
                                       enum tft_expert_half half, uint32_t expert)
{
    return (layer * TFT_EXPERT_HALVES + half) * m->n_expert + expert;
}

/* Sets m->resident, if at most `most` bytes of experts may stay in memory and they are more. 0: if
   the file is larger than the memory of the process, as many as that leaves. TFT_ERR_UNSUPPORTED:
   `most` is not 0, and the experts are not in a mapped file in the form that they are used in.
   TFT_ERR_ARG: one layer of one token needs more than `most`. */
enum tft_status tft_resident_open(struct tft_model *m, uint64_t most, struct tft_error *err);
void tft_resident_close(struct tft_model *m);

/* Frees the memory of all experts: after something has read the whole file. */
void tft_resident_clear(struct tft_model *m);

/* A pass is going to use the unit: reads the unit if it is not in memory, and frees others first.
   likely: the pass may not use it after all. */
void tft_resident_use(struct tft_resident *r, uint32_t unit, bool likely);

/* Whether to read likely units: not while most of them are not used after all. For one thread of a
   pass, once a layer. */
bool tft_resident_guesses(struct tft_resident *r);

/* How many units to read ahead of the one in use. */
uint32_t tft_resident_ahead(const struct tft_resident *r);

/* The bytes of experts for which there is memory, at least 1: an eighth of the memory is for
   sessions and for the system. file, experts: their bytes. 0: there is enough for the whole file,
   or `memory` is 0, which is unknown. */
uint64_t tft_resident_room(uint64_t memory, uint64_t file, uint64_t experts);

/* Bytes of experts that are in memory by the bookkeeping, and that have been read so far. While no
   pass runs. */
uint64_t tft_resident_bytes(const struct tft_resident *r);
uint64_t tft_resident_read(const struct tft_resident *r);

#endif
