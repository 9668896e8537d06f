#!/usr/bin/env python3
"""Writes src/text/wordpiece_tables.h: the marks that WordPiece drops, and the lower cases.

    wordpiece_tables.py > src/text/wordpiece_tables.h
    wordpiece_tables.py --check src/text/wordpiece_tables.h

--check compares the file with what would be written, and ends with status 1 if they differ, or 77
if this Python has another version of Unicode. The lower case of a character is its own, without a
look at its neighbours: a capital sigma has one. U+0130 becomes two characters and is not in the
table.
"""
import sys
import unicodedata

from table_file import rows, write_or_check


def marks():
    """The ranges of the category Mn."""
    found = []
    for code in range(0x110000):
        if unicodedata.category(chr(code)) != "Mn":
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def lower_cases():
    """Runs of characters: first, last, distance between neighbours, what to add."""
    runs = []
    for code in range(0x110000):
        low = chr(code).lower()
        if len(low) != 1 or ord(low) == code:
            continue
        add = ord(low) - code
        if runs and runs[-1][3] == add:
            run = runs[-1]
            step = code - run[1]
            if step <= 2 and (run[0] == run[1] or step == run[2]):
                run[1], run[2] = code, step
                continue
        runs.append([code, code, 1, add])
    return runs


def table():
    low, mn = lower_cases(), marks()
    yield ("/* Marks and lower cases of Unicode %s, written by "
           "tools/scripts/wordpiece_tables.py. */" % unicodedata.unidata_version)
    yield "#ifndef TFT_WORDPIECE_TABLES_H"
    yield "#define TFT_WORDPIECE_TABLES_H"
    yield ""
    yield "#include <stdint.h>"
    yield ""
    yield "/* Sorted: first and last code point of each range of nonspacing marks (category Mn). */"
    yield "static const uint32_t tft_mark_ranges[%d][2] = {" % len(mn)
    yield from rows(["{0x%x, 0x%x}" % tuple(r) for r in mn])
    yield "};"
    yield ""
    yield ("/* Sorted: of the code points first, first + step, ... last, each plus `add` is the "
           "lower")
    yield "   case. */"
    yield "static const struct {"
    yield "    uint32_t first, last;"
    yield "    int32_t step, add;"
    yield "} tft_lower_cases[%d] = {" % len(low)
    yield from rows(["{0x%x, 0x%x, %d, %d}" % tuple(r) for r in low])
    yield "};"
    yield ""
    yield "#endif"


if __name__ == "__main__":
    sys.exit(write_or_check(table()))
