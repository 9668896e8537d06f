/*
 * Calibration text that the model writes. The closest text to a model's use is its own, in the
 * template of its conversations: the tokens of the template come in every turn, and in some models
 * they are outliers. So the model answers messages that the program contains (first_messages.txt),
 * in as many sessions at a time as share a pass; a model without a template continues short
 * beginnings.
 *
 * (LLM-QAT, Liu et al. 2023, section 3.1, trains on data that the model generates, since such data
 * "better preserves the output distribution" than data from elsewhere; here it calibrates ranges.)
 *
 * The text is the same on every machine: draws are fixed, and logits have the same bits.
 */
#ifndef QUANTIZE_TEXT_OWN_TEXT_H
#define QUANTIZE_TEXT_OWN_TEXT_H

#include "chat/tuffet_chat.h"
#include "tools/quantize/text/talks.h"

struct own_text_opts {
    const struct tft_chat_template *conversation; /* NULL: texts without a template */
    const char *beginnings; /* [n_beginnings] a text; texts begin with words of it */
    size_t n_beginnings;
    size_t tokens; /* for calibration, at least, and half as many to hold out; fewer if the model
                      ends its texts early */
    int n_threads;
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

/* Writes the text. m: opened for computing. Conversations that the template refuses, such as some
   with tools, are left out. TFT_ERR_ARG: the template refuses all, and err has its message. TFT_OK,
   and *out is not usable, if *stopped. The caller frees *out. */
enum tft_status own_text_write(struct talks *out, const struct tft_model *m,
                               const struct own_text_opts *o, bool *stopped, struct tft_error *err);

#endif
