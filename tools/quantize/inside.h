/* The inside of libtuffet-quantize: a run with settings of the laboratory, and results in a file
   that tuffet inspect shows. The program includes no other header of this folder but
   tuffet_quantize.h. */
#ifndef QUANTIZE_INSIDE_H
#define QUANTIZE_INSIDE_H

#include "tools/quantize/check.h"
#include "tools/quantize/inputs.h"
#include "tools/quantize/measure/worst_inputs.h"
#include "tools/quantize/run.h"
#include "tools/quantize/write/in_place.h"

#endif
