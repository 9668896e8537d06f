/* Settings of a request for the sampler's further steps (struct tft_sampler_more). */
#ifndef SERVE_STEPS_H
#define SERVE_STEPS_H

#include "fields.h"

struct steps {
    struct tft_sampler_more more;
    int32_t *breakers; /* of DRY; the owner of more.dry_breakers */
};

/* Reads the settings by llama.cpp's names. The defaults are the program's options. */
void steps_read(struct steps *s, struct fields *f, const struct tft_model *m);

/* Makes `to` a copy, and z its sampler. Returns false if memory is short. */
bool steps_copy(struct steps *to, const struct steps *from, struct tft_sampler *z);

void steps_free(struct steps *s);

#endif
