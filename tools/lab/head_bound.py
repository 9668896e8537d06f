#!/usr/bin/env python3
"""The savings of a head that is read in part. Needs numpy and the Python module:

    TUFFET_LIBRARY=build/test/libtuffet.so tools/lab/head_bound.py MODEL --text TEXT

To find the most likely tokens, few logits are needed exactly: read the high bits of all rows first,
bound the sum of the low bits, and read these only for rows that may still be among the most likely.
MODEL is of `tuffet quantize`, with a head of int8. Prints, for 2 to 6 bits read first, which share
of the head's bytes is read for the most likely token and for the 40 most likely: means over tokens
of TEXT.

The scale of a row is s and its numbers are q = h + r, where h is a multiple of 2^(8 - bits) and |r|
at most half of that. Its logit is s (h x + r x). |r x| is bounded by the largest |r| times the sum
of |x| (Hölder), or by the lengths of r, a float for each row, and of x (Cauchy and Schwarz); the
least of both is taken.
"""
import argparse
import os
import struct
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../bindings/python"))
import tuffet  # noqa: E402  # pylint: disable=wrong-import-position

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
TYPES = {0: np.float32, 24: np.int8, 26: np.int32}  # of GGUF's tensors: those of a head


class Gguf:
    """The tensors of a GGUF file, which is trusted."""

    def __init__(self, path):
        self.data = np.memmap(path, np.uint8, "r")
        self.at = 8
        n_tensors, n_values = self.take("QQ")
        for _ in range(n_values):
            self.string()
            self.skip_value(self.take("I")[0])
        self.tensors = {}
        for _ in range(n_tensors):
            name = self.string()
            shape = self.take(f"{self.take('I')[0]}Q")[::-1]
            self.tensors[name] = shape, *self.take("IQ")
        self.at = -(-self.at // 64) * 64

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def string(self):
        length, = self.take("Q")
        self.at += length
        return bytes(self.data[self.at - length:self.at]).decode(errors="replace")

    def skip_value(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            kind, n = self.take("IQ")
            for _ in range(n):
                self.skip_value(kind)
        else:
            self.take(SCALARS[kind])

    def tensor(self, name):
        shape, kind, offset = self.tensors[name]
        dtype = np.dtype(TYPES[kind])
        n = int(np.prod(shape)) * dtype.itemsize
        return self.data[self.at + offset:self.at + offset + n].view(dtype).reshape(shape)


def head(path):
    """The head's rows [V, K] in int8, panels undone (docs/file-format.md), and their scales [V]."""
    file = Gguf(path)
    name = "output" if "output.weight" in file.tensors else "token_embd"
    panels = file.tensor(name + ".weight")
    rows, columns = panels.shape
    scales = file.tensor(name + ".scale")
    if rows != scales.size:
        sys.exit(f"{path}: the head is of codes, not of int8")
    quads = panels.reshape(rows // 16, columns // 4, 16, 4)
    return quads.transpose(0, 2, 1, 3).reshape(rows, columns), scales


def hidden(path, text, n):
    """The hidden vectors [n, D] of a text's first tokens."""
    with tuffet.Model(path) as model, model.session(n_hidden=n) as session:
        tokens = model.tokenize(text)[:n]
        session.prefill(tokens)
        return np.stack([np.asarray(session.hidden(back)) for back in range(len(tokens))])


def shares(rows, scales, x, bits, top):
    """Shares of the head's bytes that the `top` largest logits need, bits read first; x: [n, D]."""
    step = 1 << (8 - bits)
    high = np.clip(np.round(rows / step), -128 // step, 127 // step) * step
    low = rows - high
    length, largest = np.linalg.norm(low, axis=1), np.abs(low).max(axis=1)
    for vector in x:
        middle = scales * (high @ vector)
        bound = scales * np.minimum(length * np.linalg.norm(vector),
                                    largest * np.abs(vector).sum())
        left = np.mean(middle + bound >= np.partition(middle - bound, -top)[-top])
        yield bits / 8 + left * (1 - bits / 8)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--text", required=True)
    p.add_argument("-n", type=int, default=64, help="tokens (64)")
    a = p.parse_args()

    with open(a.text, encoding="utf-8") as f:
        x = hidden(a.model, f.read(20 * a.n), a.n)
    rows, scales = head(a.model)
    # vectors may be shorter than padded rows
    rows = rows[:, :x.shape[1]].astype(np.float32)
    print("| bits read first | most likely token | 40 most likely |\n|---|---:|---:|")
    for bits in range(2, 7):
        read = [100 * np.mean(list(shares(rows, scales, x, bits, top))) for top in (1, 40)]
        print(f"| {bits} | {read[0]:.0f} % | {read[1]:.0f} % |")


main()
