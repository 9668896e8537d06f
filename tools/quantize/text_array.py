#!/usr/bin/env python3
"""text_array.py TEXT OUT HEADER NAME: writes the bytes of a text as the C array NAME_text, of
NAME_bytes, that the header declares."""
import sys

COLUMNS = 20

path, out, header, name = sys.argv[1:]
with open(path, "rb") as f:
    text = f.read()
rows = [", ".join(str(byte) for byte in text[i:i + COLUMNS]) for i in range(0, len(text), COLUMNS)]
with open(out, "w", encoding="ascii") as f:
    f.write(f'#include "{header}"\n\n'
            f"const unsigned char {name}_text[] = {{\n    " + ",\n    ".join(rows) + "};\n"
            f"const size_t {name}_bytes = sizeof {name}_text;\n")
