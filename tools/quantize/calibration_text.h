/* The default calibration text of tuffet quantize, calibration.txt: some thirty pieces of prose,
   conversation, code, tables and other languages, written for this purpose. */
#ifndef QUANTIZE_CALIBRATION_TEXT_H
#define QUANTIZE_CALIBRATION_TEXT_H

#include <stddef.h>

extern const unsigned char calibration_text[]; /* [calibration_bytes] UTF-8 */
extern const size_t calibration_bytes;

#endif
