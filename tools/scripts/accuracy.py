#!/usr/bin/env python3
"""What W8A8 costs in perplexity, and what each part of the recipe is worth: one table.

    tools/scripts/accuracy.py [--tuffet build/test/tools/tuffet] MODEL --text TEXT --calib OTHER_TEXT [--lambada FILE]

Each row converts MODEL with `tuffet quantize`, takes `tuffet ppl` of the first --tokens tokens of TEXT, and removes what it made. The
text that ranges are taken from must be another one than that which is scored. With --lambada a column has the accuracy of `tuffet eval`
on the first --passages passages of FILE, and its standard error. With --search the last prefix is the one that `tuffet quantize --cushion
auto` finds, and with --tune there are rows in which the last prefix has learned."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

PLAIN = ["--rotate", "none"]
BOTH = ["--rotate", "o+down"]
ALL = ["--rotate", "all"]


def tuned_rows(name, prefix, token, tensor, smooth):
    mse = ["--range", "mse"]
    for how, learn in (("tuned", ["--tune"]), ("calibrated", ["--calibrate"])):
        for what, plus in (("static", PLAIN), ("static, smooth 0.8", PLAIN + smooth), ("static, mse, rotate all", mse + ALL),
                           ("static, mse, smooth 0.8, rotate all", mse + smooth + ALL), ("dynamic per tensor", tensor + PLAIN),
                           ("dynamic per token", token + PLAIN), ("dynamic per tensor, rotate all", tensor + ALL),
                           ("dynamic per token, rotate all", token + ALL)):
            yield f"{what}, {name}, {how}", prefix + plus + learn


def rows(pivots, tune):
    """(what, arguments of quantize)"""
    none, bos = ["--intact", "none"], ["--intact", "bos"]
    token, tensor = ["--dynamic", "all"], ["--dynamic", "all", "--dynamic-per", "tensor"]
    smooth = ["--smooth", "0.8"]
    prefixes = [("no prefix", none), ("BOS", bos)] + [("tokens " + p, ["--intact-tokens", p]) for p in pivots]
    for name, prefix in prefixes:
        for how, plus in (("", PLAIN), (", smooth 0.8", PLAIN + smooth), (", rotate o", ["--rotate", "o"]), (", rotate o+down", BOTH),
                          (", smooth 0.8, rotate o+down", BOTH + smooth), (", rotate all", ALL)):
            yield f"static, {name}{how}", prefix + plus
    for name, prefix in prefixes[1:]:
        for what, how in (("percentile 99.99", ["--range", "percentile"]), ("mse", ["--range", "mse"])):
            for rotation, plus in (("", PLAIN), (", rotate o+down", BOTH), (", rotate all", ALL)):
                yield f"static, {name}, {what}{rotation}", prefix + how + plus
    name, prefix = prefixes[-1]
    yield f"static, {name}, mse, smooth 0.8, rotate o+down", prefix + ["--range", "mse"] + BOTH + smooth
    yield f"static, {name}, mse, smooth 0.8, rotate all", prefix + ["--range", "mse"] + ALL + smooth
    yield f"static, {name}, mse, rotate o+down, weights per tensor", prefix + ["--range", "mse"] + BOTH + ["--weights", "per-tensor"]
    for name, prefix in prefixes:
        for what, dynamic in (("per tensor", tensor), ("per token", token)):
            for how, plus in (("", PLAIN), (", smooth 0.8", PLAIN + smooth), (", rotate o+down", BOTH), (", rotate all", ALL)):
                yield f"dynamic {what}, {name}{how}", prefix + dynamic + plus
    if tune:
        yield from tuned_rows(*prefixes[-1], token, tensor, smooth)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--tuffet", default="build/test/tools/tuffet")
    p.add_argument("--tokenizer", help="tokenizer.bin of a llama2.c model")
    p.add_argument("--text", required=True, help="what is scored")
    p.add_argument("--calib", required=True, help="what ranges are taken from")
    p.add_argument("--calib-tokens", default="8192")
    p.add_argument("--calib-window", default="512")
    p.add_argument("--tokens", default="16384")
    p.add_argument("--lambada", help="lambada_test.jsonl")
    p.add_argument("--passages", default="500", help="how many of them")
    p.add_argument("--ctx", default="1024")
    p.add_argument("--pivots", action="append", default=[], help='tokens of a further prefix, "1,13"; may be given again')
    p.add_argument("--search", action="store_true", help="a further prefix: what --cushion auto finds; takes minutes")
    p.add_argument("--tune", action="store_true", help="rows with --tune and --calibrate; minutes each")
    p.add_argument("--only", default="", help="a regular expression: rows whose name it is found in")
    a = p.parse_args()
    tokenizer = ["--tokenizer", a.tokenizer] if a.tokenizer else []

    def tuffet(*args, refusable=False):
        run = subprocess.run([a.tuffet, *args, "--json"], stdout=subprocess.PIPE, check=False)
        if run.returncode == 1 and refusable:
            return None
        if run.returncode:
            sys.exit(f"tuffet {' '.join(args)}: exit status {run.returncode}")
        return json.loads(run.stdout)

    def perplexity(model, *args):
        return tuffet("ppl", model, "-f", a.text, "-n", a.tokens, "--ctx", a.ctx, *args)["ppl"]

    def lambada(model, *args):
        """The column, or nothing."""
        if not a.lambada:
            return ""
        found = tuffet("eval", model, "--task", "lambada", "-f", a.lambada, "-n", a.passages, "--ctx", a.ctx, *args)
        error = f" ± {100 * found['acc_stderr']:.1f}" if found["acc_stderr"] is not None else ""
        return f" {100 * found['acc']:.1f}{error} % |"

    float_ppl = perplexity(a.model, *tokenizer)
    more, rule = ("| lambada ", "|---") if a.lambada else ("", "")
    print(f"| | perplexity | over float {more}| largest static error |\n|---|---|---{rule}|---|")
    print(f"| float | {float_ppl:.3f} | |{lambada(a.model, *tokenizer)} |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "w8a8.gguf")

        def quantize(*args):
            return tuffet("quantize", a.model, "-o", out, "--calib", a.calib, "--calib-tokens", a.calib_tokens, "--calib-window",
                          a.calib_window, *tokenizer, *args, refusable=" ".join(ALL) in " ".join(args))

        if a.search:
            a.pivots.append(",".join(str(i) for i in quantize("--cushion", "auto")["prefix"]))
        for name, args in rows(a.pivots, a.tune):
            if not re.search(a.only, name):
                continue
            found = quantize(*args)
            if not found:  # LayerNorm, whose stream cannot be rotated: tuffet has said so
                print(f"| {name} | refused | |{' |' if a.lambada else ''} |", flush=True)
                continue
            static = [i for i in found["inputs"] if i["range"] == "static"]
            worst = max(static, key=lambda i: i["error"]) if static else None
            note = f"{worst['name']} {100 * worst['error']:.2f} %" if worst else ""
            ppl = perplexity(out)
            print(f"| {name} | {ppl:.3f} | {100 * (ppl / float_ppl - 1):+.2f} % |{lambada(out)} {note} |", flush=True)


main()
