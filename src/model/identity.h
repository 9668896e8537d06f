/*
 * The identity of a model, for files that belong to one model, such as saved sessions. It is cheap:
 * a model of gigabytes takes milliseconds. Two files of other values, names, shapes or vocabularies
 * have other identities, as have files that tuffet made (tuffet.checksum is among the values) if
 * any byte of their tensors differs. Of other files, a few bytes of each tensor are compared: other
 * training is noticed, damage of a few bytes is not. A model with its weights in another form
 * computes other numbers, and has another identity.
 */
#ifndef TFT_IDENTITY_H
#define TFT_IDENTITY_H

#include "model/model.h"

struct tft_identity {
    uint64_t file_bytes, weight_bytes; /* of the file; of the weights as they are held */
    uint32_t described; /* CRC-32 of the file before its tensors, and of a llama2.c vocabulary */
    uint32_t sampled;   /* CRC-32 of bytes from the start, middle and end of each tensor, and of the
                           number types that matrices are held in */
};

struct tft_identity tft_identity_of(const struct tft_model *m);

#endif
