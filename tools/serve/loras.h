/* The adapters of --lora: their scales by request. */
#ifndef SERVE_LORAS_H
#define SERVE_LORAS_H

#include "fields.h"

/* In the order of the command line, 0 after the last one. All zero: the model alone. */
struct loras {
    float scale[CLI_MOST_TEXTS];
};

/* The scales of the command line. */
struct loras loras_given(void);

bool loras_same(const struct loras *a, const struct loras *b);

/* Gives the options of a session the adapters, which lie in use[CLI_MOST_TEXTS]. */
void loras_put(const struct loras *l, struct tft_lora_use *use, struct tft_session_opts *o);

/* Sets the scales by a list of {"id", "scale"}. An adapter that the list lacks has the scale 0. */
void loras_set(struct loras *l, struct fields *f, const json_t *list);

/* The same by the member `lora` of a request. Without the member, the scales stay as they are. */
void loras_read(struct loras *l, struct fields *f);

#endif
