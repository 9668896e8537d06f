#!/usr/bin/env python3
"""Writes src/text/nfc_tables.h: what composing characters (NFC) needs to know of code points.

    nfc_tables.py > src/text/nfc_tables.h
    nfc_tables.py --check src/text/nfc_tables.h

--check compares the file with what would be written, and ends with status 1 if they differ, or 77
if this Python has another version of Unicode. Hangul syllables are not in the tables: Unicode
computes them (chapter 3.12).
"""
import sys
import unicodedata

from table_file import rows, write_or_check

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)
JAMO = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]  # vowels, final consonants


def decomposition(code):
    """The one or two code points of the canonical decomposition, one step."""
    text = unicodedata.decomposition(chr(code))
    return [] if not text or text.startswith("<") else [int(c, 16) for c in text.split()]


def table():
    parts = [(c, decomposition(c)) for c in ALL if c not in HANGUL and decomposition(c)]
    pairs = sorted((p[0], p[1], c) for c, p in parts
                   if len(p) == 2 and unicodedata.normalize("NFC", chr(c)) == chr(c))
    seconds = {p[1] for p in pairs} | set(JAMO)
    ranges, last = [], None
    for c in ALL:
        order = unicodedata.combining(chr(c))
        open_ = order or c in seconds or unicodedata.normalize("NFC", chr(c)) != chr(c)
        if (order, bool(open_)) != last:
            last = order, bool(open_)
            ranges.append("0x%x" % (c << 9 | order << 1 | bool(open_)))
    yield ("/* Composition of characters in Unicode %s, written by tools/scripts/nfc_tables.py. */"
           % unicodedata.unidata_version)
    yield "#ifndef TFT_NFC_TABLES_H"
    yield "#define TFT_NFC_TABLES_H"
    yield ""
    yield "#include <stdint.h>"
    yield ""
    yield '#define TFT_NFC_VERSION "%s"' % unicodedata.unidata_version
    yield ""
    yield "/* Sorted: code point << 9 | canonical combining class << 1 | whether NFC may change it"
    yield "   or join it with the one before it. Of this code point and those up to the next. */"
    yield "static const uint32_t tft_nfc_ranges[%d] = {" % len(ranges)
    yield from rows(ranges)
    yield "};"
    yield ""
    yield "/* Sorted by the first number: a code point, the one (0) or two that it stands for. */"
    yield "static const uint32_t tft_nfc_parts[%d][3] = {" % len(parts)
    yield from rows(["{0x%x, 0x%x, 0x%x}" % (c, p[0], p[1] if len(p) == 2 else 0)
                     for c, p in parts])
    yield "};"
    yield ""
    yield "/* Sorted: two code points and the one that they are together. */"
    yield "static const uint32_t tft_nfc_pairs[%d][3] = {" % len(pairs)
    yield from rows(["{0x%x, 0x%x, 0x%x}" % p for p in pairs])
    yield "};"
    yield ""
    yield "#endif"


if __name__ == "__main__":
    sys.exit(write_or_check(table()))
