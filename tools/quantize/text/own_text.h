/*
 * A model's own text. What a model is used for is closest to what it writes itself, in the template
 * of its conversations: the tokens of the template come in every turn, and so do the outliers that
 * some models have at them. So the model answers messages that the program contains
 * (first_messages.txt), in as many sessions at a time as share a pass; a model without a template
 * goes on with short beginnings.
 *
 * (LLM-QAT, Liu et al. 2023, section 3.1, trains on data that the model generates, since it "better
 * preserves the output distribution" than data from elsewhere; here it calibrates ranges.)
 *
 * Draws are fixed, and logits have the same bits on every machine: so has the text.
 */
#ifndef QUANTIZE_TEXT_OWN_TEXT_H
#define QUANTIZE_TEXT_OWN_TEXT_H

#include "chat/tuffet_chat.h"
#include "tools/quantize/text/talks.h"

struct own_text_opts {
    const struct tft_chat_template *conversation; /* NULL: texts without a template */
    const char *beginnings; /* [n_beginnings] a text, words of which texts begin with */
    size_t n_beginnings;
    size_t tokens; /* to calibrate with, at least, and half as many to keep out; fewer if the model
                      has no more to say */
    int n_threads;
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

/* Writes the text. m: a model that computes. Conversations that the template refuses, such as those
   with tools, are left out. TFT_ERR_ARG: it refuses all, and err has its words. TFT_OK, and *out is
   of no use, if *stopped. The caller frees *out. */
enum tft_status own_text_write(struct talks *out, const struct tft_model *m,
                               const struct own_text_opts *o, bool *stopped, struct tft_error *err);

#endif
