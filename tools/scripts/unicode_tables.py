#!/usr/bin/env python3
"""Writes src/text/unicode_tables.h: the classes of code points that regular expressions name.

    unicode_tables.py > src/text/unicode_tables.h
    unicode_tables.py --check src/text/unicode_tables.h

--check compares the file with what would be written, and ends with status 1 if they differ, or 77
if this Python has another version of Unicode.

The classes: \\p{Lu} with \\p{Lt}, \\p{Ll}, the other letters, \\p{M}, \\p{N}, \\p{P}, \\p{S}, and
\\s, which is the property White_Space: the categories Z* and the characters U+0009..000D and
U+0085.
"""
import sys
import unicodedata

from table_file import rows, write_or_check

KINDS = ["OTHER", "UPPER", "LOWER", "LETTER", "MARK", "NUMBER", "PUNCTUATION", "SYMBOL", "SPACE"]
KIND = {"Lu": "UPPER", "Lt": "UPPER", "Ll": "LOWER", "L": "LETTER", "M": "MARK", "N": "NUMBER",
        "P": "PUNCTUATION", "S": "SYMBOL", "Z": "SPACE"}


def kind(code):
    category = unicodedata.category(chr(code))
    if 0x09 <= code <= 0x0D or code == 0x85:
        category = "Z"
    return KINDS.index(KIND.get(category, KIND.get(category[0], "OTHER")))


def table():
    ranges = []
    last = None
    for code in range(0x110000):
        this = kind(code)
        if this != last:
            ranges.append("0x%x" % (code << 4 | this))
            last = this
    yield ("/* Classes of characters in Unicode %s, written by tools/scripts/unicode_tables.py. */"
           % unicodedata.unidata_version)
    yield "#ifndef TFT_UNICODE_TABLES_H"
    yield "#define TFT_UNICODE_TABLES_H"
    yield ""
    yield "#include <stdint.h>"
    yield ""
    yield '#define TFT_UNICODE_VERSION "%s"' % unicodedata.unidata_version
    yield ""
    yield "/* LETTER: a letter that is neither upper nor lower case. */"
    yield "enum tft_char_kind {"
    yield from rows(["TFT_CHAR_" + name for name in KINDS])
    yield "};"
    yield ""
    yield "static const unsigned char tft_ascii_kind[128] = {"
    yield from rows([str(kind(code)) for code in range(128)])
    yield "};"
    yield ""
    yield "/* Sorted: code point << 4 | the kind of it and of those up to the next entry. */"
    yield "static const uint32_t tft_char_ranges[%d] = {" % len(ranges)
    yield from rows(ranges)
    yield "};"
    yield ""
    yield "#endif"


if __name__ == "__main__":
    sys.exit(write_or_check(table()))
