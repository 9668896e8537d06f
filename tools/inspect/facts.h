/*
 * The facts of tuffet inspect about a model file. Only the file's description is read: this is
 * fast, and works for files that tuffet cannot run, such as other architectures and vocabularies
 * without weights. The memory for the model and a session is computed, not allocated.
 */
#ifndef INSPECT_FACTS_H
#define INSPECT_FACTS_H

#include "fisher_bits.h"
#include "kv/policy.h"
#include "model/model.h"
#include "tools/quantize/inside.h"

enum { FACTS_ROLES = 3 };

struct facts {
    struct tft_source s;
    struct tft_tokenizer *tokenizer;  /* NULL: the file has none, or an unknown one */
    struct tft_str name, arch, vocab; /* n is 0: the file has none */
    const char *chat_template;        /* "runs", or the reason why the template in the file cannot
                                         be run; NULL: no template */
    const char *tool_template;        /* the same of the template named tool_use */
    const char *chat_drops[FACTS_ROLES]; /* [n_chat_drops] roles of messages that it drops */
    size_t n_chat_drops;
    struct tft_error chat_err, tool_template_err;
    bool verified;                    /* the checksum is correct; the caller sets this */
    /* 0: unknown */
    uint64_t parameters, context, width, layers, heads, kv_heads, head, feed_forward;

    const struct tft_value *packed; /* [tensors] the types of packed ones, else -1; NULL: the file
                                       is not packed, or cannot run */

    bool runs;                /* whether tuffet can run the model */
    struct tft_error why_not; /* if it cannot */
    double bits;              /* of the file for each parameter, scales and padding included */
    size_t weights;           /* bytes to open the model: packed or expanded weights */
    char kv[TFT_KV_TEXT];     /* the cache of the next three */
    size_t kv_per_token;      /* bytes of a token in the layers without a window */
    uint32_t cached, windows; /* layers that have keys and values; how many of them have a window */
    struct fisher_bits fisher; /* of the channels, if kv is that cache */
    bool encoder;             /* instead of a session it has an embedder */
    size_t session;           /* bytes; 0: such a session is not possible */
    uint32_t session_context; /* tokens */

    bool quantized; /* tuffet quantize made the file, which has the following */
    struct tft_str weights_are, prefix_method, calibration_method;
    struct tft_str prefix_loss; /* the loss that tuned the prefix; n is 0: it is not tuned */
    uint64_t rotate_values, rotate_down; /* blocks of the transforms; 0: none */
    uint64_t calibration_tokens, calibration_window;
    uint64_t inputs[TFT_RANGE_TOKEN + 1]; /* inputs with each kind of range */
    bool rotate_residual;
    double smooth;
    bool checked;                   /* the file has its loss, or a note that it was not measured */
    struct check_loss held_out[CHECK_GROUPS];
    const struct tft_value *prefix; /* its tokens; NULL: none */
    const struct tft_value *names;  /* of named prefixes, an array of strings; NULL: none */
    struct worst_inputs worst_inputs;
};

/* Reads the facts of f->s, which is open. Memory is computed for a model with weights expanded to
   `weights`, and a session with so->capacity and so->kv. Apart from s and verified, *f is zero
   before. */
void facts_read(struct facts *f, enum tft_weights weights, const struct tft_session_opts *so);

/* Number of packed tensors of this type (file/dtype.h) in a packed file. */
size_t facts_packed(const struct facts *f, uint32_t type);

/* Number of tokens of text in the named prefix, after the prefix of the model. */
uint64_t facts_named_tokens(const struct facts *f, struct tft_str name);

/* Prints the facts of the file `path` to standard output, as text or as a JSON object. */
void facts_print(const struct facts *f, const char *path);
void facts_print_json(const struct facts *f, const char *path);

/* Closes f->s too. */
void facts_close(struct facts *f);

#endif
