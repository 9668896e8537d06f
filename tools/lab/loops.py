#!/usr/bin/env python3
"""False alarms of --stop-loops: loops.py MODEL FILE...

Cuts each FILE into samples of 4,000 bytes, and tokenizes them with the vocabulary of MODEL. Prints
each sample that the rule of tools/cli/loops.h calls a loop, and the numbers of samples, tokens and
loops. Lists, tables, code and poems should have none. `--tuffet` names the program.
"""
import argparse
import subprocess
import sys
import tempfile

LEAST, MOST, TIMES, FILL = 8, 256, 4, 128  # of tools/cli/loops.h
SAMPLE = 4000  # bytes


def loop(tokens):
    """The token at which a loop is found, and its span; or None."""
    same = [0] * (MOST + 1)
    for at, token in enumerate(tokens):
        filled = 0
        for span in range(1, min(at, MOST) + 1):
            same[span] = same[span] + 1 if tokens[at - span] == token else 0
            length = span + same[span]
            if span < LEAST:
                filled = max(filled, length)
            elif length >= TIMES * span and filled < TIMES * span:
                return at, span
        if filled >= FILL:
            return at, 1
    return None


def tokens_of(tuffet, model, text):
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        done = subprocess.run([tuffet, "tokenize", model, "-f", file.name], check=True,
                              capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tuffet", default="build/test/tools/tuffet")
    parser.add_argument("model")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    samples = n_tokens = loops = 0
    for path in args.files:
        with open(path, "rb") as file:
            text = file.read()
        for at in range(0, len(text), SAMPLE):
            tokens = tokens_of(args.tuffet, args.model, text[at:at + SAMPLE])
            found = loop(tokens)
            samples += 1
            n_tokens += len(tokens)
            loops += found is not None
            if found:
                print(f"{path}, byte {at}: token {found[0]}, span {found[1]}")
    print(f"{samples} samples, {n_tokens} tokens: {loops} loops")
    return loops > 0


if __name__ == "__main__":
    sys.exit(main())
