/*
 * What tuffet inspect finds out about a file. It reads the file's description only, so that it is
 * quick and takes what tuffet cannot run: other architectures, vocabularies without weights. What
 * it says about memory is what opening would take, counted and not taken.
 */
#ifndef INSPECT_FACTS_H
#define INSPECT_FACTS_H

#include "kv/kv_policy.h"
#include "tools/quantize/measure/worst_inputs.h"
#include "model/model.h"

struct facts {
    struct tft_source s;
    struct tft_tokenizer *tokenizer; /* NULL: none, or none that is known */
    struct tft_str name, arch, vocab, jinja; /* n is 0 where there is none */
    /* 0: unknown */
    uint64_t parameters, context, width, layers, heads, kv_heads, head, feed_forward;

    bool runs;
    struct tft_error why_not;
    size_t weights; /* bytes that opening takes */
    char kv[TFT_KV_TEXT]; /* the cache that these are of */
    size_t kv_per_token, session;
    uint32_t session_context;

    bool quantized; /* by tuffet: what follows is known */
    struct tft_str weights_are, prefix_method, calibration_method;
    struct tft_str prefix_loss; /* that it was tuned by; n is 0 if it was not */
    uint64_t rotate_values, rotate_down, calibration_tokens, calibration_window,
        inputs[TFT_RANGE_TENSOR + 1];
    bool rotate_residual;
    double smooth;
    const struct tft_value *prefix; /* its tokens, or NULL */
    struct worst_inputs lossy;
};

/* From f->s, which is open, as a model with weights expanded to `weights` and a session of
   so->capacity and so->kv. All else in *f is zero before. */
void facts_read(struct facts *f, enum tft_weights weights, const struct tft_session_opts *so);

/* Closes f->s too. */
void facts_close(struct facts *f);

#endif
