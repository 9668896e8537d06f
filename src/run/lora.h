/* The adapters of a session (model/lora.h), and the workspace of their products. */
#ifndef TFT_RUN_LORA_H
#define TFT_RUN_LORA_H

#include "base/arena.h"
#include "model/lora.h"

/* Two inner vectors are needed at a time: of gate and of up. */
enum { TFT_LORA_SLOTS = 2 };

struct tft_session_loras {
    struct tft_lora_use *use; /* [n] with a scale that is not 0 */
    uint32_t n;
    uint32_t stride;            /* numbers of a token in a slot: the sum of the largest ranks */
    uint32_t cols;              /* the longest input */
    float *low[TFT_LORA_SLOTS]; /* [n_batch, stride] scale alpha / r A x of each adapter */
    float *row;                 /* [n_threads, cols] an input that is bytes, as floats */
};

/* Checks the adapters of a session's options. */
enum tft_status tft_session_loras_check(const struct tft_model *m,
                                        const struct tft_session_opts *o, struct tft_error *err);

/* Counts, or places, their memory. */
void tft_session_loras_layout(struct tft_session_loras *l, struct tft_arena *a,
                              const struct tft_session_opts *o);

/* Whether an adapter of the session is for the head. In a pass of several sessions the head's rows
   are no longer side by side (tft_pass_gather), so such a session has passes of its own. */
bool tft_session_loras_of_head(const struct tft_session_loras *l, const struct tft_model *m);

/* CRC-32 of the adapters and their scales; 0: there are none. */
uint32_t tft_session_loras_sum(const struct tft_session_loras *l);

#endif
