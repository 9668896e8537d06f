#!/usr/bin/env python3
"""Measures what a prefix is worth where weights have 3 or 4 bits: IntactKV's main tables.

    tools/scripts/intact_tables.py MODEL --text TEXT --calib OTHER_TEXT \\
        [--tasks lambada=FILE,piqa=FILE] [OPTIONS]

Writes one table: the model of floats, then a row for each number of bits, each rounding (nearest,
GPTQ, AWQ), and no prefix, the prefix, and the prefix calibrated. Activations have a range for each
token, so that the weights are what loses. Columns are the perplexity of TEXT and the accuracy of
`tuffet eval` in each task, normalized by length where that is usual; the last row has the largest
standard error of each. docs/accuracy.md has results.
"""
import argparse
import os
import re
import tempfile

from measure import Tuffet, percent

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


def tasks(text):
    """lambada=FILE,piqa=FILE as a dictionary."""
    return dict(item.split("=", 1) for item in text.split(",")) if text else {}


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--tuffet", default="build/test/tools/tuffet")
    p.add_argument("--tokenizer", help="tokenizer.bin of a llama2.c model")
    p.add_argument("--text", required=True, help="the text to score")
    p.add_argument("--tokens", help="the number of its tokens to score (all)")
    p.add_argument("--ctx", default="1024", help="tokens of a window (1024)")
    p.add_argument("--calib", required=True, help="the text to round weights with")
    p.add_argument("--calib-tokens", default="8192")
    p.add_argument("--calib-window", default="512")
    p.add_argument("--tasks", type=tasks, default={}, help="lambada=FILE,piqa=FILE,...")
    p.add_argument("--items", help="questions of each task to ask (all)")
    p.add_argument("--pivots", help='tokens of the prefix, for example "1,13" (BOS)')
    p.add_argument("--bits", default="4,3", help="bits of the weights (4,3)")
    p.add_argument("--group", default="128", help="weights that share a scale (128)")
    p.add_argument("--rotate", default="auto", help="as --rotate of tuffet quantize (auto)")
    p.add_argument("--only", default="",
                   help='only rows whose first cells match, for example "4 bits, (GPTQ|AWQ)"')
    return p.parse_args()


class Scores:
    """Measures models, and keeps the largest standard error of each task."""

    def __init__(self, a, tuffet):
        self.a, self.tuffet, self.float_ppl = a, tuffet, None
        self.error = dict.fromkeys(a.tasks, 0)

    def accuracy(self, task, model, *args):
        items = ["-n", self.a.items] if self.a.items else []
        found = self.tuffet("eval", model, "--task", task, "-f", self.a.tasks[task], *items,
                            "--ctx", self.a.ctx, "--weights", "f32", *args)
        kind = "acc_norm" if "acc_norm" in found else "acc"
        self.error[task] = max(self.error[task], found[kind + "_stderr"] or 0)
        return percent(found[kind])

    def cells(self, model, *args):
        """The columns of a model: perplexity, over floats, tasks. Floats must come first."""
        tokens = ["-n", self.a.tokens] if self.a.tokens else []
        ppl = self.tuffet("ppl", model, "-f", self.a.text, *tokens, "--ctx", self.a.ctx,
                          "--weights", "f32", *args)["ppl"]
        over = f"{100 * (ppl / self.float_ppl - 1):+.1f} %" if self.float_ppl else ""
        self.float_ppl = self.float_ppl or ppl
        return [f"{ppl:.3f}", over, *(self.accuracy(task, model, *args) for task in self.a.tasks)]


def print_row(*cells):
    print(f"| {' | '.join(cells)} |", flush=True)


def main():
    a = arguments()
    tuffet = Tuffet(a.tuffet)
    scores = Scores(a, tuffet)
    tokenizer = ["--tokenizer", a.tokenizer] if a.tokenizer else []
    print_row("weights", "rounding", "prefix", "perplexity", "over floats", *a.tasks)
    print("|---" * 3 + "|---:" * (2 + len(a.tasks)) + "|")
    print_row("floats", "", "", *scores.cells(a.model, *tokenizer))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "few.gguf")
        for words, options in rows(a):
            if not re.search(a.only, ", ".join(words)):
                continue
            tuffet("quantize", a.model, "-o", out, "--calib", a.calib, "--calib-tokens",
                   a.calib_tokens, "--calib-window", a.calib_window, "--group", a.group,
                   "--rotate", a.rotate, "--dynamic", "all", *tokenizer, *options)
            print_row(*words, *scores.cells(out))
    if a.tasks:
        print_row("standard error", "", "", "", "", *(percent(e) for e in scores.error.values()))


main()
