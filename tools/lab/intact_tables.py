#!/usr/bin/env python3
"""Measures what a prefix is worth where weights have 3 or 4 bits: IntactKV's main tables.

    tools/lab/intact_tables.py MODEL --text TEXT --calib OTHER_TEXT \\
        [--tasks lambada=FILE,piqa=FILE] [OPTIONS]

Writes one table: the model of floats, then a row for each number of bits, each rounding (nearest,
GPTQ, AWQ), and no prefix, the prefix, and the prefix calibrated. Activations have a range for each
token, so that the weights are what loses. Columns are the perplexity of TEXT and the accuracy of
`tuffet eval` in each task, normalized by length where that is usual; the last row has the largest
standard error of each. tools/lab/accuracy.md has results.
"""
import os
import re
import tempfile

from measure import Scores, Tuffet, arguments_of, over, percent, print_row, print_titles

ROUNDINGS = {"nearest": "nearest", "gptq": "GPTQ", "awq": "AWQ"}


def rows(a):
    """Each row of the table: its cells, and the options of tuffet quantize."""
    given = ["--intact-tokens", a.pivots] if a.pivots else ["--intact", "bos"]
    prefixes = {"none": ["--intact", "none"], "intact": given,
                "calibrated": [*given, "--calibrate"]}
    for bits in a.bits.split(","):
        for rounding, name in ROUNDINGS.items():
            for prefix, options in prefixes.items():
                yield (f"{bits} bits", name, prefix), ["--bits", bits, "--rounding", rounding,
                                                       *options]


def arguments():
    p = arguments_of(__doc__)
    p.add_argument("--tokenizer", help="tokenizer.bin of a llama2.c model")
    Scores.add_arguments(p)
    p.add_argument("--calib", required=True, help="the text to round weights with")
    p.add_argument("--calib-tokens", default="8192")
    p.add_argument("--calib-window", default="512")
    p.add_argument("--pivots", help='tokens of the prefix, for example "1,13" (BOS)')
    p.add_argument("--bits", default="4,3", help="bits of the weights (4,3)")
    p.add_argument("--group", default="128", help="weights that share a scale (128)")
    p.add_argument("--rotate", default="auto", help="as --rotate of tuffet quantize (auto)")
    p.add_argument("--only", default="",
                   help='only rows whose first cells match, for example "4 bits, (GPTQ|AWQ)"')
    return p.parse_args()


def main():
    a = arguments()
    tuffet = Tuffet(a.tuffet)
    scores = Scores(a, tuffet)
    tokenizer = ["--tokenizer", a.tokenizer] if a.tokenizer else []
    print_titles(["weights", "rounding", "prefix"], ["perplexity", "over floats", *a.tasks])
    base = scores.perplexity(a.model, *tokenizer)

    def cells(model, *args):
        return [f"{figure:.1f}" for figure in scores.accuracies(model, *args)]

    print_row("floats", "", "", f"{base:.3f}", "", *cells(a.model, *tokenizer))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "few.gguf")
        for words, options in rows(a):
            if not re.search(a.only, ", ".join(words)):
                continue
            tuffet("quantize", a.model, "-o", out, "--calib", a.calib, "--calib-tokens",
                   a.calib_tokens, "--calib-window", a.calib_window, "--group", a.group,
                   "--rotate", a.rotate, "--dynamic", "all", *tokenizer, *options)
            ppl = scores.perplexity(out)
            print_row(*words, f"{ppl:.3f}", over(ppl, base), *cells(out))
    if a.tasks:
        print_row("standard error", "", "", "", "", *(percent(e) for e in scores.error.values()))


main()
