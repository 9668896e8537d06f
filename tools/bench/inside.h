/* The inside of the library for tuffet bench: kernels, whose speed is the machine's; layers, whose
   sizes tell the time that a pass must take; the weights of a file, to write random ones; and the
   device. No other header of this folder or of the other front ends includes the inside. */
#ifndef BENCH_INSIDE_H
#define BENCH_INSIDE_H

#include "file/file.h"
#include "model/keys.h"
#include "model/model.h"
#include "run/backend.h"
#include "run/session.h"
#include "simd/kernels.h"

#endif
