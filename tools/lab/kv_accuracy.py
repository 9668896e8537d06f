#!/usr/bin/env python3
"""Measures what quantized KV caches cost in accuracy.

    tools/lab/kv_accuracy.py MODEL --text TEXT [--lambada FILE] [--needle TEXT ...] [OPTIONS]

Writes one table with a row for each cache of --kv: bits of a quantized number with its scales,
perplexity of the second halves of windows of --ctx tokens of TEXT, and how far that is above f16.
docs/cache.md explains the caches, tools/lab/accuracy.md has results.

--lambada adds a column: the accuracy of `tuffet eval` on the first --passages passages. --needle
adds another: how often the model recalls a number that stands somewhere in the given texts, at
several depths of contexts of several lengths.
"""
import tempfile

from measure import Tuffet, arguments_of, percent
from needle import Needle

# skvq by itself is left out: it works only with files of tuffet quantize --kv skvq.
CACHES = ["f16", "rtn", "kivi", "kivi:k=16", "kivi:v=16", "kivi:clip=centre", "kivi:group=64",
          "logquant", "logquant:window=32,group=32", "partial-logquant", "asymkv:lk=999,lv=0",
          "asymkv:lk=0,lv=999", "asymkv:lk=16,lv=0", "asymkv:lk=16,lv=0,clip=centre",
          "asymkv:lk=16,lv=0,high=4",
          "skvq:reorder=none,clip=zero",
          "skvq:reorder=none,clip=zero,v=1.5", "skvq:reorder=none,clip=none",
          "skvq:reorder=none,clip=zero,sinks=0", "skvq:reorder=none,clip=zero,window=0", "tuffet",
          "tuffet:k=2.25@mixed", "tuffet:k=2.5@mixed", "tuffet:k=3@mixed,v=3", "tuffet:v=16",
          "tuffet:retain=log2:64", "tuffet:window=0"]

def arguments():
    p = arguments_of(__doc__)
    p.add_argument("--text", required=True, help="the text to score")
    p.add_argument("--tokens", default="6144")
    p.add_argument("--ctx", default="1024")
    p.add_argument("--lambada", help="lambada_test.jsonl")
    p.add_argument("--passages", default="500", help="passages of --lambada to score (500)")
    p.add_argument("--needle", action="append", default=[], help="a long text; may be repeated")
    p.add_argument("--kv", action="append", help="a cache; may be repeated")
    return p.parse_args()


def main():
    a = arguments()
    tuffet = Tuffet(a.tuffet)

    def lambada(kv):
        found = tuffet("eval", a.model, "--task", "lambada", "-f", a.lambada, "-n", a.passages,
                       "--kv", kv)
        return f" {percent(found['acc'])} % |"

    with tempfile.TemporaryDirectory() as folder:
        needle = Needle(tuffet, a.model, a.needle, folder)
        per_token = lambda kv: tuffet("inspect", a.model, "--kv", kv)["memory"]["kv_per_token"]
        numbers = per_token("f16") / 2  # of the layers that the cache is of: those without windows
        titles = ["cache", "bits", "perplexity", "over f16"]
        titles += ["LAMBADA"] if a.lambada else []
        titles += [f"needle, {needle.total()}"] if a.needle else []
        print(f"| {' | '.join(titles)} |\n|---{'|---:' * (len(titles) - 1)}|")
        base = None
        for kv in a.kv or CACHES:
            bits = 8 * per_token(kv) / numbers
            ppl = tuffet("ppl", a.model, "-f", a.text, "-n", a.tokens, "--ctx", a.ctx, "--score",
                         "second-half", "--kv", kv)["ppl"]
            base = base or ppl
            row = f"| `{kv}` | {bits:.2f} | {ppl:.3f} | {100 * (ppl / base - 1):+.1f} % |"
            if a.lambada:
                row += lambada(kv)
            if a.needle:
                row += f" {percent(needle.mean(needle.found(kv)))} % |"
            print(row, flush=True)


main()
