#!/usr/bin/env python3
"""Measures what W8A8 costs in perplexity, and what each option of tuffet quantize is worth.

    tools/lab/accuracy.py MODEL --text TEXT --calib OTHER_TEXT [--lambada FILE] [OPTIONS]

Writes one table. Each row converts MODEL with lab_quantize (tools/lab/quantize.c), measures
`tuffet ppl` on the first --tokens tokens of TEXT, and deletes the converted model. Ranges must come
from another text than the one that is scored. tools/lab/accuracy.md explains the rows and has
results.

--lambada adds a column: the accuracy of `tuffet eval` on the first --passages passages, with its
standard error. --search adds rows for the prefix that `tuffet quantize --cushion auto` finds.
--tune adds rows in which the last prefix learns from the calibration text.
"""
import os
import re
import tempfile

from measure import Tuffet, arguments_of, percent

# (words of a row, options of tuffet quantize)
NOT_ROTATED = ("", ["--rotate", "none"])
O_ROTATED = (", attention's output rotated", ["--rotate", "o"])
ROTATED = (", rotated", ["--rotate", "o+down"])
ALL_ROTATED = (", all rotated", ["--rotate", "all"])
SMOOTHED = (", smoothed 0.8", ["--smooth", "0.8"])
PERCENTILE = (", 99.99 % of the numbers", ["--range", "percentile"])
LEAST_ERROR = (", least-error ranges", ["--range", "mse"])
ONE_SCALE = (", one scale per weight matrix", ["--weights", "per-tensor"])
STATIC = ("static", ["--range", "min-max"])
DYNAMIC_TOKEN = ("dynamic per token", ["--dynamic", "all"])
LEARN = ((", tuned", ["--tune"]), (", calibrated", ["--calibrate"]))


def row(*parts):
    return "".join(words for words, _ in parts), [o for _, options in parts for o in options]


def rows(pivots, tune):
    """Each row of the table: its words, and the options of tuffet quantize."""
    prefixes = [(", no prefix", ["--intact", "none"]), (", prefix BOS", ["--intact", "bos"])]
    prefixes += [(f", prefix `{p}`", ["--intact-tokens", p]) for p in pivots]
    last = prefixes[-1]
    for prefix in prefixes:
        for how in ([NOT_ROTATED], [NOT_ROTATED, SMOOTHED], [O_ROTATED], [ROTATED],
                    [ROTATED, SMOOTHED], [ALL_ROTATED]):
            yield row(STATIC, prefix, *how)
    for prefix in prefixes[1:]:
        for ranges in (PERCENTILE, LEAST_ERROR):
            for rotation in (NOT_ROTATED, ROTATED, ALL_ROTATED):
                yield row(STATIC, prefix, rotation, ranges)
    yield row(STATIC, last, ROTATED, LEAST_ERROR, SMOOTHED)
    yield row(STATIC, last, ALL_ROTATED, LEAST_ERROR, SMOOTHED)
    yield row(STATIC, last, ROTATED, LEAST_ERROR, ONE_SCALE)
    for prefix in prefixes:
        for how in ([NOT_ROTATED], [NOT_ROTATED, SMOOTHED], [ROTATED], [ALL_ROTATED]):
            yield row(DYNAMIC_TOKEN, prefix, *how)
    for learn in LEARN if tune else ():
        for how in ([NOT_ROTATED], [NOT_ROTATED, SMOOTHED], [ALL_ROTATED, LEAST_ERROR],
                    [ALL_ROTATED, LEAST_ERROR, SMOOTHED]):
            yield row(STATIC, last, *how, learn)
        for rotation in (NOT_ROTATED, ALL_ROTATED):
            yield row(DYNAMIC_TOKEN, last, rotation, learn)


def arguments():
    p = arguments_of(__doc__)
    p.add_argument("--tokenizer", help="tokenizer.bin of a llama2.c model")
    p.add_argument("--text", required=True, help="the text to score")
    p.add_argument("--calib", required=True, help="the text to take ranges from")
    p.add_argument("--calib-tokens", default="8192")
    p.add_argument("--calib-window", default="512")
    p.add_argument("--tokens", default="16384")
    p.add_argument("--lambada", help="lambada_test.jsonl")
    p.add_argument("--passages", default="500", help="passages of --lambada to score (500)")
    p.add_argument("--ctx", default="1024")
    p.add_argument("--pivots", action="append", default=[],
                   help='tokens of another prefix, for example "1,13"; may be repeated')
    p.add_argument("--search", action="store_true",
                   help="add the prefix that --cushion auto finds; takes minutes")
    p.add_argument("--tune", action="store_true",
                   help="add rows with --tune and --calibrate; minutes each")
    p.add_argument("--only", default="", help="only rows whose words match this regular expression")
    return p.parse_args()


def main():
    a = arguments()
    tuffet = Tuffet(a.tuffet)
    tokenizer = ["--tokenizer", a.tokenizer] if a.tokenizer else []

    def perplexity(model, *args):
        found = tuffet("ppl", model, "-f", a.text, "-n", a.tokens, "--ctx", a.ctx,
                       "--weights", "f32", *args)
        return found["ppl"]

    def lambada(model, *args):
        """The cell of that column, or nothing without it."""
        if not a.lambada:
            return ""
        found = tuffet("eval", model, "--task", "lambada", "-f", a.lambada, "-n", a.passages,
                       "--ctx", a.ctx, "--weights", "f32", *args)
        error = f" ± {percent(found['acc_stderr'])}" if found["acc_stderr"] is not None else ""
        return f" {percent(found['acc'])}{error} % |"

    float_ppl = perplexity(a.model, *tokenizer)
    title, rule = (" LAMBADA |", "---:|") if a.lambada else ("", "")
    print(f"| | perplexity | over floats |{title} largest static error |")
    print(f"|---|---:|---:|{rule}---|")
    print(f"| floats | {float_ppl:.3f} | |{lambada(a.model, *tokenizer)} |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "w8a8.gguf")

        def quantize(*args):
            """None where the model's residual stream cannot be rotated; tuffet has said why."""
            return tuffet("quantize", a.model, "-o", out, "--calib", a.calib, "--calib-tokens",
                          a.calib_tokens, "--calib-window", a.calib_window, *tokenizer, *args,
                          refusable="--rotate all" in " ".join(args))

        if a.search:
            a.pivots.append(",".join(str(i) for i in quantize("--cushion", "auto")["prefix"]))
        for words, args in rows(a.pivots, a.tune):
            if not re.search(a.only, words):
                continue
            found = quantize(*args)
            if not found:
                print(f"| {words} | refused | |{' |' if a.lambada else ''} |", flush=True)
                continue
            static = [i for i in found["inputs"] if i["range"] == "static"]
            worst = max(static, key=lambda i: i["error"]) if static else None
            note = f" {worst['name']} {100 * worst['error']:.2f} %" if worst else ""
            ppl = perplexity(out)
            print(f"| {words} | {ppl:.3f} | {100 * (ppl / float_ppl - 1):+.2f} % |{lambada(out)}"
                  f"{note} |", flush=True)


main()
