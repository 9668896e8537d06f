#!/usr/bin/env python3
"""calibration_text.py TEXT OUT: writes the bytes of a text as a C array, for calibration_text.h."""
import sys

COLUMNS = 20

with open(sys.argv[1], "rb") as f:
    text = f.read()
rows = [", ".join(str(byte) for byte in text[i:i + COLUMNS]) for i in range(0, len(text), COLUMNS)]
with open(sys.argv[2], "w", encoding="ascii") as f:
    f.write('#include "tools/quantize/calibration_text.h"\n\n'
            "const unsigned char quantize_calibration_text[] = {\n    " + ",\n    ".join(rows) +
            "};\n"
            "const size_t quantize_calibration_bytes = sizeof quantize_calibration_text;\n")
