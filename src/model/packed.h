/* The additions of a packed file of `tuffet pack` to a GGUF file of its architecture: matrices that
   are packed already (simd/packed.h). keys.h names the keys; load.c uses the matrices. */
#ifndef TFT_MODEL_PACKED_H
#define TFT_MODEL_PACKED_H

#include "model/load.h"

/* Before the architecture loads: sets ld->packed. Refuses another version of the layout, types that
   cannot be packed, and options that need other weights than packed ones. */
void tft_packed_version(struct tft_load *ld);

#endif
