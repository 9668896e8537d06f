/* A model as a folder of Hugging Face, made of a GGUF file: the way back of tools/import, written
   from the classes of transformers. */
#ifndef TFT_TEST_AS_FOLDER_H
#define TFT_TEST_AS_FOLDER_H

#include "toy.h"

/* as_folder takes bitnet matrices in which one number of each pair is 0 and the other has this
   magnitude, as f32. */
#define AS_FOLDER_TERNARY 0.125f

/* Writes t, which is the GGUF file `gguf`, into the folder `path`, which exists. shards: files
   with weights; above 1, there is an index. Call it in a test: a failure is one of the test. */
void as_folder(const struct toy *t, const char *gguf, const char *path, unsigned shards);

#endif
