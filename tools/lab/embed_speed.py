#!/usr/bin/env python3
"""The speed of an encoder beside llama.cpp and onnxruntime: 256 texts of 128 tokens, and one short
text of 12.

    tools/lab/embed_speed.py MODEL... --llama llama-embedding --llama-model MODEL.gguf \\
        --onnx model.onnx --node-modules FOLDER [-t 1] [--rounds 5] [--clock cpu]

MODEL are files for tuffet, of one encoder. Programs take turns, and a figure is the median of the
rounds. Texts are made of random words of TEXT. Opening a model does not count: a program runs once
with all texts and once with the first alone, and the difference counts; onnxruntime, and tuffet for
one short text, run in a process that takes the time itself. There the tokens are given; the other
programs also make tokens and write vectors.

--clock cpu takes the time that a process computes in place of the time that passes: on a machine
that others use, with one thread.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from measure import print_row, print_titles

TEXTS, TOKENS, SHORT, REPEATS = 256, 128, 12, 200
DIFFERENT = 16  # texts, which repeat

ONNX = """
const ort = require("onnxruntime-node"), [path, threads, clock] = process.argv.slice(1);
function now() {
    const c = process.cpuUsage();
    return clock == "cpu" ? (c.user + c.system) / 1e6 : performance.now() / 1e3;
}
(async () => {
    const s = await ort.InferenceSession.create(path, {intraOpNumThreads: +threads});
    async function run(texts, tokens) {
        const of = f => new ort.Tensor("int64", BigInt64Array.from({length: texts * tokens}, f),
                                       [texts, tokens]);
        const all = {input_ids: of((_, i) => BigInt(1000 + (i * 7919) %% 20000)),
                     attention_mask: of(() => 1n), token_type_ids: of(() => 0n)};
        const start = now();
        await s.run(Object.fromEntries(s.inputNames.map(n => [n, all[n]])));
        return now() - start;
    }
    await run(1, %d);
    let batch = 0, one = 0;
    for (let i = 0; i < %d; i += 16)
        batch += await run(16, %d);
    for (let i = 0; i < %d; i++)
        one += await run(1, %d);
    console.log(JSON.stringify([batch, one / %d]));
})();
""" % (SHORT, TEXTS, TOKENS, REPEATS, SHORT, REPEATS)


class Clock:
    def __init__(self, name):
        self.name = name

    def run(self, command, **env):
        """Seconds of a program, and its output."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, env={**os.environ, **env})
        after, passed = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
        if done.returncode:
            sys.exit(f"{command[0]}: exit status {done.returncode}\n{done.stderr.decode()}")
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return used if self.name == "cpu" else passed, done.stdout

    def now(self):
        return time.process_time() if self.name == "cpu" else time.monotonic()


class Texts:
    """Files of texts with a number of tokens each, as `tuffet tokenize` counts them."""

    def __init__(self, args, folder):
        self.words = pathlib.Path(args.text).read_text("utf-8").split()
        self.random, self.args = random.Random(1), args
        self.folder = pathlib.Path(folder)
        self.many, self.first = self.write("many", TEXTS, TOKENS)
        self.short, self.short_first = self.write("short", REPEATS + 1, SHORT)

    def tokens(self, text):
        command = [self.args.tuffet, "tokenize", self.args.models[0], "--bos", "--eos", "-p", text]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()

    def make(self, n):
        """Drops words until at most n tokens are left, then fills with a word of one token."""
        text = [self.random.choice(self.words) for _ in range(n)]
        while (have := len(self.tokens(" ".join(text)))) > n:
            del text[-max(1, (have - n) // 2):]
        return " ".join(text + ["the"] * (n - have))

    def write(self, name, n, tokens):
        texts = [self.make(tokens) for _ in range(DIFFERENT)] * (n // DIFFERENT + 1)
        paths = self.folder / name, self.folder / f"{name}.first"
        paths[0].write_text("\n".join(texts[:n]), "utf-8")
        paths[1].write_text(texts[0], "utf-8")
        return paths


def tuffet_short(args, model, texts, clock):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bindings/python"))
    os.environ.setdefault("TUFFET_LIBRARY",
                          str(pathlib.Path(args.tuffet).parents[1] / "libtuffet.so"))
    import tuffet
    ids = [int(t) for t in texts.tokens(texts.short_first.read_text("utf-8"))]
    embedder = tuffet.Embedder(tuffet.Model(model), threads=args.threads)
    embedder.embed([ids])
    start = clock.now()
    for _ in range(REPEATS):
        embedder.embed([ids])
    return (clock.now() - start) / REPEATS


def tuffet(args, model, texts, clock):
    command = [args.tuffet, "embed", model, "-t", args.threads, "-o", texts.folder / "out.npy"]
    batch = clock.run([*command, texts.many])[0] - clock.run([*command, texts.first])[0]
    return batch, tuffet_short(args, model, texts, clock)


def llama(args, _, texts, clock):
    """Its pass takes as many tokens as the context: 2048 for many texts, one short text."""
    def run(path, tokens):
        return clock.run([args.llama, "-m", args.llama_model, "-f", path, "-t", args.threads, "-c",
                          tokens, "--embd-output-format", "raw"],
                         LD_LIBRARY_PATH=str(pathlib.Path(args.llama).parent))[0]
    return (run(texts.many, args.llama_pass) - run(texts.first, args.llama_pass),
            (run(texts.short, SHORT + 2) - run(texts.short_first, SHORT + 2)) / REPEATS)


def onnx(args, _, __, clock):
    return json.loads(clock.run(["node", "-e", ONNX, "--", args.onnx, args.threads, clock.name],
                                NODE_PATH=args.node_modules)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tuffet", default="build/test/tools/tuffet")
    parser.add_argument("--text", default="tools/quantize/calibration.txt")
    parser.add_argument("--llama")
    parser.add_argument("--llama-model")
    parser.add_argument("--llama-pass", type=int, default=2048)
    parser.add_argument("--onnx")
    parser.add_argument("--node-modules", default="node_modules")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    args = parser.parse_args()
    rows = [(f"tuffet, {pathlib.Path(m).name}", tuffet, m) for m in args.models]
    if args.llama:
        rows.append((f"llama.cpp, {pathlib.Path(args.llama_model).name}", llama, None))
    if args.onnx:
        rows.append((f"onnxruntime-node, {pathlib.Path(args.onnx).name}", onnx, None))
    clock = Clock(args.clock)
    with tempfile.TemporaryDirectory() as folder:
        texts = Texts(args, folder)
        figures = [[run(args, model, texts, clock) for _, run, model in rows]
                   for _ in range(args.rounds)]
    print_titles(["program, file"], [f"{TEXTS} texts of {TOKENS} tokens, s", "texts/s",
                                     f"one of {SHORT} tokens, ms"])
    for (name, _, _), *got in zip(rows, *figures):
        batch, one = (statistics.median(column) for column in zip(*got))
        print_row(name, f"{batch:.2f}", f"{TEXTS / batch:.3g}", f"{1e3 * one:.2f}")


if __name__ == "__main__":
    main()
