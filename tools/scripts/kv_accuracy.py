#!/usr/bin/env python3
"""Measures what quantized KV caches cost in accuracy.

    tools/scripts/kv_accuracy.py MODEL --text TEXT [--lambada FILE] [--needle TEXT ...] [OPTIONS]

Writes one table with a row for each cache of --kv: bits of a quantized number with its scales,
perplexity of the second halves of windows of --ctx tokens of TEXT, and how far that is above f16.
docs/kv-cache.md explains the caches and has results.

--lambada adds a column: the accuracy of `tuffet eval` on the first --passages passages. --needle
adds another: how often the model recalls a number that stands somewhere in the given texts, at
several depths of contexts of several lengths. --needle-out keeps these questions, in the format of
LAMBADA.
"""
import argparse
import json
import os
import tempfile

from measure import Tuffet, percent

# skvq by itself is left out: it works only with files of tuffet quantize --kv skvq.
CACHES = ["f16", "rtn", "kivi", "kivi:k=16", "kivi:v=16", "kivi:clip=centre", "kivi:group=64",
          "logquant", "logquant:window=32,group=32", "partial-logquant", "asymkv:lk=999,lv=0",
          "asymkv:lk=0,lv=999", "asymkv:lk=16,lv=0", "asymkv:lk=16,lv=0,high=4",
          "skvq:reorder=none,clip=zero",
          "skvq:reorder=none,clip=zero,v=1.5", "skvq:reorder=none,clip=none",
          "skvq:reorder=none,clip=zero,sinks=0", "skvq:reorder=none,clip=zero,window=0", "tuffet",
          "tuffet:k=2.25@mixed", "tuffet:k=2.5@mixed", "tuffet:k=3@mixed,v=3", "tuffet:v=16",
          "tuffet:retain=log2:64", "tuffet:window=0"]
LENGTHS, DEPTHS = (512, 1024, 1536, 2000), (0.1, 0.3, 0.5, 0.7, 0.9)


def needles(texts, letters_a_token):
    """Questions: a text that contains a sentence, then that sentence again. The last word of it is
    what the model must predict."""
    n = 0
    for text in texts:
        for length in LENGTHS:
            letters = int((length - 60) * letters_a_token)
            if len(text) < letters:
                continue
            for depth in DEPTHS:
                n += 1
                number = 10000 + n * 7919 % 90000
                secret = f"The secret number of the lighthouse keeper is {number}"
                at = text.rfind(". ", 0, int(letters * depth) + 2) + 2
                yield {"text": f"{text[:at]}{secret}. {text[at:letters]}\n\n{secret}"}


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--tuffet", default="build/test/tools/tuffet")
    p.add_argument("--text", required=True, help="the text to score")
    p.add_argument("--tokens", default="6144")
    p.add_argument("--ctx", default="1024")
    p.add_argument("--lambada", help="lambada_test.jsonl")
    p.add_argument("--passages", default="500", help="passages of --lambada to score (500)")
    p.add_argument("--needle", action="append", default=[], help="a long text; may be repeated")
    p.add_argument("--needle-out", help="the file to write the questions to")
    p.add_argument("--kv", action="append", help="a cache; may be repeated")
    return p.parse_args()


def main():
    a = arguments()
    tuffet = Tuffet(a.tuffet)

    def accuracy(kv, questions, n):
        found = tuffet("eval", a.model, "--task", "lambada", "-f", questions, "-n", str(n),
                       "--kv", kv)
        return f" {percent(found['acc'])} % |"

    with tempfile.TemporaryDirectory() as folder:
        asked = []
        for name in a.needle:
            with open(name, encoding="utf-8", errors="replace") as f:
                text = f.read()
            tokens = len(tuffet("tokenize", a.model, "-f", name)["tokens"])
            asked += needles([text], len(text) / tokens)
        path = a.needle_out or os.path.join(folder, "needle.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(i) + "\n" for i in asked)

        shape = tuffet("inspect", a.model)
        numbers = 2 * shape["layers"] * shape["kv_heads"] * shape["head"]
        titles = ["cache", "bits", "perplexity", "over f16"]
        titles += ["LAMBADA"] if a.lambada else []
        titles += [f"needle, {len(asked)}"] if asked else []
        print(f"| {' | '.join(titles)} |\n|---{'|---:' * (len(titles) - 1)}|")
        base = None
        for kv in a.kv or CACHES:
            memory = tuffet("inspect", a.model, "--kv", kv)["memory"]
            bits = 8 * memory["kv_per_token"] / numbers
            ppl = tuffet("ppl", a.model, "-f", a.text, "-n", a.tokens, "--ctx", a.ctx, "--score",
                         "second-half", "--kv", kv)["ppl"]
            base = base or ppl
            row = f"| `{kv}` | {bits:.2f} | {ppl:.3f} | {100 * (ppl / base - 1):+.1f} % |"
            if a.lambada:
                row += accuracy(kv, a.lambada, a.passages)
            if asked:
                row += accuracy(kv, path, len(asked))
            print(row, flush=True)


main()
