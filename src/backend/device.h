/*
 * Cuts a model into stages and opens their backends. The CPU is built in; a device is a plug-in,
 * libtuffet-NAME.so, which is loaded when a model is opened for NAME. A plug-in is built from the
 * same sources as the library and sees the inside of models, sessions and passes.
 */
#ifndef TFT_DEVICE_H
#define TFT_DEVICE_H

#include "run/backend.h"
#include "run/session.h"

/* "1.2.3 (build 0123456789abcdef)": the version and a hash of all headers. build_id.py generates
   it; the library and each plug-in have their own. It differs where their structs may differ. */
extern const char tft_build_id[];

/* The one symbol of a plug-in, a tft_device_fn. */
typedef const struct tft_backend *tft_device_fn(void);
#define TFT_DEVICE_SYMBOL "tft_device"


/* Gives m, which is complete, its stages. name: NULL or "cpu"; or "mpi", "cuda", or "cuda:1" for
   another device than the first, which gets the last n_layers layers (0: all) and the head. On
   failure there are no stages. */
enum tft_status tft_stages_open(struct tft_model *m, const char *name, uint32_t n_layers,
                                struct tft_error *err);
void tft_stages_close(struct tft_model *m);

#endif
