#!/usr/bin/env python3
"""What drafts cost and gain in the shape of a model. Needs the Python module:

    TUFFET_LIBRARY=build/test/libtuffet.so tools/lab/drafts.py SHAPE... [-n 96] [-r 5]

lab_shape, built beside the program, writes random weights in each SHAPE. Of the tokens that come
after 64 random ones, a share repeats a span of 24, and the others are random; so this share of the
drafts of prompt lookup is accepted. The next token is given, not sampled. Prints tokens/s without
and with drafts in turn, the median of the ratios with their range, and the share of tokens that had
been computed as drafts. Fails if the logits after the last token differ.
"""
import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from measure import percent, print_row, print_titles

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../bindings/python"))
import tuffet  # noqa: E402  # pylint: disable=wrong-import-position

PROMPT, SPAN, DRAFTS = 64, 24, 14


def text(n, share, n_vocab, seed):
    """64 random tokens that begin with the span, and n that repeat the span or are random."""
    r = random.Random(seed)
    span = [r.randrange(3, n_vocab) for _ in range(SPAN)]
    tokens = span + [r.randrange(3, n_vocab) for _ in range(PROMPT - SPAN)]
    while len(tokens) < PROMPT + n:
        again = r.random() < share
        tokens += span if again else [r.randrange(3, n_vocab) for _ in range(SPAN)]
    return tokens[:PROMPT + n]


def generate(model, tokens, lookup, threads):
    """Seconds of the tokens after the prompt, the share of drafts, and the last logits."""
    with tuffet.Session(model, capacity=len(tokens) + 32, lookup=lookup, threads=threads) as s:
        s.prefill(tokens[:PROMPT])
        begin = time.perf_counter()
        for token in tokens[PROMPT:]:
            s.decode(token)
        seconds = time.perf_counter() - begin
        return seconds, s.guessed / (len(tokens) - PROMPT), bytes(s.logits())


def row(a, name, model, share):
    ratios, plain, drafted, guessed = [], [], [], []
    for r in range(a.runs):
        tokens = text(a.tokens, share, model.info.n_vocab, r)
        (t, _, same), (u, g, logits) = (generate(model, tokens, n, a.threads) for n in [0, DRAFTS])
        if same != logits:
            sys.exit(f"{name}: the logits differ with drafts")
        ratios.append(t / u)
        plain.append(a.tokens / t)
        drafted.append(a.tokens / u)
        guessed.append(g)
    median = statistics.median
    print_row(name, f"{percent(share)} %", f"{median(plain):.1f}", f"{median(drafted):.1f}",
              f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
              f"{percent(median(guessed))} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--lab-shape", default="build/test/tools/lab_shape")
    parser.add_argument("-n", "--tokens", type=int, default=96)
    parser.add_argument("-r", "--runs", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    a = parser.parse_args()
    print_titles(["shape", "text repeats"], ["tokens/s", "with drafts", "ratio", "accepted"])
    with tempfile.TemporaryDirectory() as folder:
        for name in a.shapes:
            path = pathlib.Path(folder) / "shape.gguf"
            subprocess.run([a.lab_shape, name, path], check=True)
            with tuffet.Model(path) as model:
                for share in [0, 0.25, 0.5, 0.75, 1]:
                    row(a, name, model, share)


if __name__ == "__main__":
    main()
