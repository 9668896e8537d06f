#!/usr/bin/env python3
"""Makes the tables of the five papers for one model, as far as it can be measured here.

    tools/lab/papers.py MODEL --text TEXT --calib OTHER_TEXT --prefix 1,13 \\
        [--tasks lambada=FILE,piqa=FILE] [--needle TEXT] [--only "cushion,intact-4"] [OPTIONS]

Each table has the name of its paper and its number there: tools/lab/papers.md explains them, and
has results. Other models, texts and tasks than the papers' are used: their figures can be compared
with each other only.
"""
import os
import tempfile
from statistics import mean

from measure import Scores, Tuffet, arguments_of, over, percent, print_row, print_titles
from needle import Needle, heat_map

PLAIN = ["--rotate", "none", "--range", "min-max"]  # what the papers do to activations
PREFIX_NONE = ["--intact", "none"]


def arguments():
    p = arguments_of(__doc__)
    p.add_argument("--tokenizer", help="tokenizer.bin of a llama2.c model")
    Scores.add_arguments(p)
    p.add_argument("--calib", required=True, help="the text to quantize with")
    p.add_argument("--calib-tokens", default="4096")
    p.add_argument("--calib-window", default="512")
    p.add_argument("--prefix", required=True, help='tokens of the prefix, for example "1,13"')
    p.add_argument("--no-tune", action="store_true", help="leave out the rows of --tune")
    p.add_argument("--needle", action="append", default=[], help="a long text; may be repeated")
    p.add_argument("--svg", help="the file for the drawing of the table needle")
    p.add_argument("--only", default=",".join(TABLES), help="tables to make (all)")
    return p.parse_args()


class Papers:
    def __init__(self, a, folder):
        self.a, self.folder = a, folder
        self.tuffet = Tuffet(a.tuffet)
        self.scores = Scores(a, self.tuffet)
        self.tokenizer = ["--tokenizer", a.tokenizer] if a.tokenizer else []
        self.prefix = ["--intact-tokens", a.prefix]
        self.made, self.of_floats, self.blocks = {}, None, None

    def make(self, *options):
        """The path of the model that lab_quantize makes with these options."""
        if options not in self.made:
            path = os.path.join(self.folder, f"{len(self.made)}.gguf")
            self.tuffet("quantize", self.a.model, "-o", path, "--calib", self.a.calib,
                        "--calib-tokens", self.a.calib_tokens, "--calib-window",
                        self.a.calib_window, *self.tokenizer, *options)
            self.made[options] = path
        return self.made[options]

    def forget(self):
        """Removes the models of a table."""
        for path in self.made.values():
            os.remove(path)
        self.made = {}

    def floats(self):
        """Perplexity and accuracies of the model of floats."""
        if not self.of_floats:
            self.of_floats = (self.scores.perplexity(self.a.model, *self.tokenizer),
                              self.scores.accuracies(self.a.model, *self.tokenizer))
        return self.of_floats

    def row(self, words, model, *args):
        """Perplexity, how far over floats, accuracy of each task, and their mean."""
        self.figures(words, self.scores.perplexity(model, *args),
                     self.scores.accuracies(model, *args))

    def figures(self, words, ppl, accuracies):
        if accuracies:
            accuracies = [*accuracies, sum(accuracies) / len(accuracies)]
        base = self.floats()[0]
        print_row(*words, f"{ppl:.3f}", over(ppl, base) if ppl != base else "",
                  *(f"{c:.1f}" for c in accuracies))

    def titles(self, *words):
        tasks = [*self.a.tasks, "mean"] if self.a.tasks else []
        print_titles(words, ["perplexity", "over floats", *tasks])

    def row_of_floats(self, *words):
        self.figures(words, *self.floats())

    def kv_row(self, model, words, kv, base):
        """A cache: bits of a quantized number with its scales, perplexity of second halves of
        windows, how far that is over base. Returns the perplexity."""
        ppl = self.scores.perplexity(model, "--score", "second-half", "--kv", kv)
        print_row(*words, f"{self.bits(model, kv):.2f}", f"{ppl:.3f}",
                  over(ppl, base) if base and ppl != base else "")
        return ppl

    def bits(self, model, kv):
        shape = self.tuffet("inspect", model, "--kv", kv)
        numbers = 2 * shape["layers"] * shape["kv_heads"] * shape["head"]
        return 8 * shape["memory"]["kv_per_token"] / numbers


DYNAMIC = {"static": [], "dynamic per token": ["--dynamic", "all"]}


def cushion_1(p):
    """CushionCache, tables 1 and 2: perplexity and zero-shot accuracy of W8A8"""
    tuned = [] if p.a.no_tune else [("prefix, tuned", [*p.prefix, "--tune"])]
    p.titles("ranges", "smoothing", "prefix")
    p.row_of_floats("floats", "", "")
    for ranges, dynamic in DYNAMIC.items():
        for smooth in ([], ["--smooth", "0.8"]):
            for name, prefix in [("none", PREFIX_NONE), ("prefix", p.prefix), *tuned]:
                p.row((ranges, "0.8" if smooth else "", name),
                      p.make(*PLAIN, *prefix, *dynamic, *smooth))
    p.forget()


def cushion_3(p):
    """CushionCache, table 3: what each step adds, with ranges per token"""
    dynamic = DYNAMIC["dynamic per token"]
    p.titles("step")
    p.row_of_floats("floats")
    for words, options in [("dynamic per token", PREFIX_NONE), ("+ prefix", p.prefix),
                           ("+ tuned, lambda 0", [*p.prefix, "--tune", "--tune-lambda", "0"]),
                           ("+ lambda 0.01", [*p.prefix, "--tune", "--tune-lambda", "0.01"])]:
        if not (p.a.no_tune and "--tune" in options):
            p.row((words,), p.make(*PLAIN, *options, *dynamic))
    p.forget()


def cushion_5(p):
    """CushionCache, table 5: magnitudes at the input of the last block, and of the worst"""
    model = p.make(*p.prefix, *PLAIN)
    runs = p.tuffet("inspect", model, "--activations", p.a.calib, "--tokens", p.a.calib_tokens)
    print_titles(["prefix", "input of"], ["top-1", "top 10 %", "median"])
    worst = runs["runs"][0]["worst"]
    for run in runs["runs"]:
        for block in (run["blocks"][-2], run["blocks"][worst]):
            print_row("yes" if run["prefix"] else "no", block["name"], f"{block['top'][0]:.2f}",
                      f"{block['top_10_percent']:.2f}", f"{block['median']:.3f}")
    p.forget()


def cushion_8(p):
    """CushionCache, table 8: time to the first token of a prompt, and per token behind it"""
    print_titles(["ranges", "prefix"], ["first token, ms", "per token, ms"])
    for ranges, dynamic in DYNAMIC.items():
        for name, prefix in [("none", PREFIX_NONE), ("prefix", p.prefix)]:
            model = p.make(*PLAIN, *prefix, *dynamic)
            shape = p.tuffet("inspect", model)
            prompt = min(512, shape["context"] // 2)
            ms = [1000 * (row["tokens"] if row["what"] == "prefill" else 1) / row["tok_s"]
                  for args in (["-p", str(prompt), "-n", "1"],
                               ["-p", "1", "-n", "64", "-d", str(prompt)])
                  for row in p.tuffet("bench", model, "-t", "2", *args)["rows"]
                  if row["tokens"] != 1]
            print_row(ranges, name, *(f"{t:.2f}" for t in ms))
    p.forget()


def cushion_9(p):
    """CushionCache, table 9: beside AWQ, QuaRot and KIVI"""
    p.titles("method", "prefix")
    p.row_of_floats("floats", "")
    methods = {"AWQ, 4 bits, activations per token": [
                   "--rotate", "none", "--bits", "4", "--rounding", "awq", "--dynamic", "all"],
               "rotated (QuaRot), 4 bits, static": ["--rotate", "all", "--bits", "4"],
               "8 bits, static, KIVI's cache": ["--rotate", "all"]}
    for words, options in methods.items():
        for name, prefix in [("none", PREFIX_NONE), ("prefix", p.prefix)]:
            kv = ["--kv", "kivi"] if "KIVI" in words else []
            p.row((words, name), p.make(*prefix, *options), *kv)
    p.forget()


def intact_2(p):
    """IntactKV, figure 2: squared error of the layers' outputs against the tokens of the prefix"""
    text = p.tuffet("tokenize", p.a.model, "-f", p.a.text, *p.tokenizer)["tokens"]
    tokens = [*p.a.prefix.split(","), *map(str, text)]
    print_titles(["prefix"], ["4 bits", "3 bits"])
    for size in (1, 2, 4, 8, 16, 32):
        cells = []
        for bits in "43":
            made = p.tuffet("quantize", p.a.model, "-o", os.path.join(p.folder, "intact-2.gguf"),
                            "--calib", p.a.calib, "--calib-tokens", p.a.calib_tokens,
                            "--calib-window", p.a.calib_window, *p.tokenizer, "--rotate", "none",
                            "--bits", bits, "--group", "128", "--rounding", "nearest", "--dynamic",
                            "all", "--intact-tokens", ",".join(tokens[:size]),
                            "--calibrate", "--tune-epochs", "1")
            cells.append(f"{made['tune']['validation'][0]:.3f}")  # before the first step
        print_row(size, *cells)


def intact_4(p):
    """IntactKV, figure 4: bits of weights and of the cache, without and with the prefix"""
    caches = {"16": "f16"} | {b: f"rtn:bits={b},group=64,retain=fill:32" for b in "8432"}
    print_titles(["weights", "prefix"], [f"cache {b} bits" for b in caches])
    for bits in "43":
        for name, prefix in [("none", PREFIX_NONE), ("prefix", p.prefix)]:
            model = p.make("--rotate", "none", "--bits", bits, "--group", "128", "--dynamic", "all",
                           "--rounding", "nearest", *prefix)
            print_row(f"{bits} bits", name, *(f"{p.scores.perplexity(model, '--kv', kv):.3f}"
                                              for kv in caches.values()))
    p.forget()


def logquant_6(p):
    """LogQuant, figure 6: compression (equation 6, behind --ctx tokens) against loss"""
    model = p.make(*p.prefix)
    kinds = {"KIVI": "kivi:group=32,retain=fill:{r}", "window": "kivi:group=32,retain=window:{r}",
             "LogQuant": "logquant:group=32,window={w}",
             "PartialLogQuant": "partial-logquant:group=32,kr=log2:{w},vr=window:{h}"}
    length = int(p.a.ctx)
    base = p.scores.perplexity(model, "--score", "second-half", "--kv", "f16")
    print_titles(["kept in f16"], ["compression", *kinds])
    print_row("all", "1", *[f"{base:.3f}"] * len(kinds))
    for kept in (32, 64, 128, 256):
        ratio = 16 * length / (2 * (length - kept) + 16 * kept)
        cells = []
        for kv in kinds.values():
            name = kv.format(r=kept, w=kept // 3, h=kept // 2)
            ppl = p.scores.perplexity(model, "--score", "second-half", "--kv", name)
            cells.append(f"{ppl:.3f}, {over(ppl, base)}")
        print_row(kept, f"{ratio:.1f}", *cells)
    p.forget()


def asymkv(p):
    """AsymKV, tables 1 to 6 and figure 4: how many layers have high bits"""
    model = p.make(*p.prefix)
    shape = p.tuffet("inspect", model)
    n = shape["layers"]
    base = p.scores.perplexity(model, "--score", "second-half", "--kv", "f16")
    print_titles(["cache", "bytes of a token"], ["bits", "perplexity", "over f16"])
    steps = [n // 4, n // 2, 3 * n // 4, n]
    caches = ["f16", "kivi", *(f"asymkv:lk={i},lv=0" for i in steps),
              *(f"asymkv:lk=0,lv={i}" for i in steps), f"asymkv:high=4,lk={n // 2},lv=0",
              f"asymkv:high=4,lk=0,lv={n // 2}",
              *(f"asymkv:lk={i},lv=0,clip=centre" for i in steps),
              f"asymkv:lk={n},lv={n // 2},clip=centre"]
    for kv in caches:
        memory = p.tuffet("inspect", model, "--kv", kv)["memory"]["kv_per_token"]
        p.kv_row(model, (f"`{kv}`", memory), kv, base)
    p.forget()


def logquant_4(p):
    """LogQuant, figure 4: attention to the tokens that a rule keeps, in percent"""
    blocks = attention(p)
    rules = blocks[0]["kept"]
    for at, size in enumerate(SIZES):
        print_titles([f"{size} tokens"], rules)
        n = len(blocks)
        for name, part in (("first third of the layers", blocks[:n // 3]),
                           ("second", blocks[n // 3:2 * n // 3]), ("last", blocks[2 * n // 3:])):
            print_row(name, *(f"{100 * mean(b['kept'][r][at] for b in part):.1f}"
                              for r in rules))
        print()


def asymkv_1(p):
    """AsymKV, figure 1: mean squared errors in the steps of attention, with 2 bits"""
    blocks = attention(p)
    print_titles(["step"], ["keys", "values", "keys / values"])

    def of(side, step):
        return mean(b[f"{side}_of_2_bits"][step] for b in blocks)

    keys, values = of("keys", "keys"), of("values", "values")
    print_row("the numbers (equation 6)", f"{keys:.3g}", f"{values:.3g}", f"{keys / values:.3g}")
    print_row("scores (equation 1)", f"{of('keys', 'scores'):.3g}", "", "")
    print_row("weights (equation 2)", f"{of('keys', 'weights'):.3g}", "", "")
    keys, values = of("keys", "output"), of("values", "output")
    print_row("the output (equation 3)", f"{keys:.3g}", f"{values:.3g}", f"{keys / values:.3g}")


def asymkv_2(p):
    """AsymKV, figure 2: errors of the output with 2 bits, in three layers"""
    blocks = attention(p)
    shares = (0.5, 0.9, 0.99, 0.999)
    print_titles(["layer", "2 bits of"], ["root mean square", *(f"{100 * s:g} %" for s in shares)])
    for i in (0, len(blocks) // 2, len(blocks) - 1):
        for side in ("keys", "values"):
            found = blocks[i][f"{side}_of_2_bits"]
            size = found["output"] ** 0.5
            print_row(i, side, f"{size:.3g}",
                      *(f"{quantile(found['output_sizes'], s) / size:.2f}" for s in shares))


def quantile(sizes, share):
    """The size below which this share of the errors is. sizes[i]: the share of those from
    2^(-i / 2) to 2^((1 - i) / 2), which are taken as evenly spread over the exponents."""
    for i in reversed(range(len(sizes))):
        if share <= sizes[i]:
            return 2 ** ((share / sizes[i] - i) / 2)
        share -= sizes[i]
    return 2 ** 0.5


SIZES = (48, 96, 192)


def attention(p):
    """What tuffet inspect says of each block of the model of floats."""
    if not p.blocks:
        found = p.tuffet("inspect", p.a.model, "--activations", p.a.text, "--tokens", "2048",
                         "--ctx", str(min(512, int(p.a.ctx) - 1)), *p.tokenizer)
        p.blocks = found["runs"][-1]["blocks"][:-1]
    return p.blocks


def skvq(p):
    """SKVQ, tables 1, 3 and 4 and figure 6: what each part adds, groups, and the window"""
    print_titles(["step"], ["bits", "perplexity", "over f16"])
    none = "skvq:window=0,sinks=0,scales=f16,reorder=none,clip=none"
    window = none.replace("window=0", "window=128")
    clip = window.replace("clip=none", "clip=calibrated")
    order = clip.replace("reorder=none", "reorder=calibrated")
    steps = {"RTN": none, "+ window of 128": window, "+ clip": clip, "+ order": order,
             "+ 5 sinks": order.replace("sinks=0", "sinks=5"), "+ E4M3 scales": "skvq",
             "groups of 64": "skvq:group=64", "groups of 16": "skvq:group=16",
             "values of 1.5 bits": "skvq:v=1.5", "window 0": "skvq:window=0",
             "window 32": "skvq:window=32", "window 64": "skvq:window=64",
             "window 256": "skvq:window=256"}
    base = None
    for words, kv in {"f16": "f16", **steps}.items():
        parts = [i for i in kv.removeprefix("skvq:").split(",")
                 if i.split("=")[0] in ("group", "v", "reorder", "clip")]
        file = "skvq" + (":" + ",".join(parts) if parts and kv.startswith("skvq:") else "")
        model = p.make(*p.prefix, "--kv", file)
        base = p.kv_row(model, (words,), kv, base) if base is None else base
        if words != "f16":
            p.kv_row(model, (words,), kv, base)
    p.forget()


def needle(p):
    """SKVQ, figure 5: the needle in a haystack"""
    if not p.a.needle:
        print("no --needle was given")
        return
    model = p.make(*p.prefix, "--kv", "skvq")
    questions = Needle(p.tuffet, model, p.a.needle, p.folder)
    results = []
    print_titles(["cache"], ["bits", f"found of {questions.total()}, percent"])
    for kv in ("f16", "i8", "tuffet", "kivi:group=64", "kivi", "logquant", "skvq"):
        found = questions.found(kv)
        results.append((kv, found))
        print_row(f"`{kv}`", f"{p.bits(model, kv):.2f}", percent(questions.mean(found)))
    if p.a.svg:
        with open(p.a.svg, "w", encoding="utf-8") as f:
            f.write(heat_map(results))
    p.forget()


TABLES = {"cushion-1": cushion_1, "cushion-3": cushion_3, "cushion-5": cushion_5,
          "cushion-8": cushion_8, "cushion-9": cushion_9, "intact-2": intact_2,
          "intact-4": intact_4, "logquant-4": logquant_4, "logquant-6": logquant_6,
          "asymkv-1": asymkv_1, "asymkv-2": asymkv_2, "asymkv": asymkv, "skvq": skvq,
          "needle": needle}


def main():
    a = arguments()
    wanted = a.only.split(",")
    for name in wanted:
        if not any(t.startswith(name) for t in TABLES):
            raise SystemExit(f"--only: there is no table {name}; there are {', '.join(TABLES)}")
    with tempfile.TemporaryDirectory() as folder:
        p = Papers(a, folder)
        for name, table in TABLES.items():
            if any(name.startswith(w) for w in wanted):
                print(f"\n{name}: {table.__doc__}\n", flush=True)
                table(p)
    if a.tasks:
        errors = ", ".join(f"{t} {percent(e)}" for t, e in p.scores.error.items())
        print(f"\nlargest standard error: {errors}")


main()
