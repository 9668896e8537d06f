/* v_load_i8(p): 16 int8 as floats. Parameters: lanes.h, and r_load_i8(p), LANES of them; or
   v_load_i8 itself, if HAVE_LOAD_I8. */
#ifndef TFT_TEMPLATE_LOAD_I8_H
#define TFT_TEMPLATE_LOAD_I8_H

#include "lanes.h"

#ifndef HAVE_LOAD_I8
FORCE_INLINE v16 v_load_i8(const int8_t *x) { EACH_PART(r_load_i8(x + p * LANES)); }
#endif

#endif
