/* The lines of --verbose, on standard error. Without the option these functions do nothing. */
#ifndef CLI_VERBOSE_H
#define CLI_VERBOSE_H

#include "tuffet.h"

/* An allocator that counts the memory of a model that is opened next; NULL without --verbose. */
const struct tft_allocator *verbose_allocator(void);

/* File, weights and kernels of a model that was opened with verbose_allocator. */
void verbose_model(const struct tft_model *m, const char *path);

/* Threads, cache, prefix and memory of a session that was opened with o. Lines that would repeat
   those of the session before are left out. */
void verbose_session(const struct tft_session *s, const struct tft_model *m,
                     const struct tft_session_opts *o);

/* With --verbose, says how many tokens of a prompt ids[n] the session s has already, `cached`, and
   where the first difference is. text: the tokens that differ are shown. */
void verbose_prompt(const struct tft_model *m, const int32_t *ids, size_t n,
                    const struct tft_session *s, size_t cached, bool text);

#endif
