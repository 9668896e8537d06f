#!/usr/bin/env python3
"""Counts the instructions of a token on 64-bit ARM, in qemu:

    tools/lab/arm_count.py MODEL [MODEL...] --text TEXT

Installs what it needs on Debian, builds a static program in build/arm-count, and runs it on one
thread for each set of kernels. A token that is generated is the difference of runs that generate 2
and 6, divided by 4; a token of a prompt is that of prompts of 60 and 360 characters, divided
likewise. Writes a table in millions of instructions. QEMU before 9.1 computes wrong numbers with
`sme`, and so another text, by as many instructions.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from measure import print_row, print_titles

# the kernels, and the bytes of a vector in streaming mode
ISAS = [("neon", 16), ("dotprod", 16), ("i8mm", 16), ("sme", 16), ("sme", 32), ("sme", 64)]
BUILD = "build/arm-count"
PLUGIN = BUILD + "/count.so"


def call(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def build():
    call("sh", "tools/scripts/install.sh", "gcc", "libc6-dev", "gcc-aarch64-linux-gnu",
         "libc6-dev-arm64-cross", "qemu-user", "meson", "ninja-build")
    if not os.path.isdir(BUILD):
        call("meson", "setup", BUILD, "--werror", "--cross-file", "tests/cross/aarch64.ini",
             "-Dtests=false", "-Djansson=disabled", "-Dthreads=none", "-Dc_link_args=-static",
             "-Dc_args=-DTFT_SME_TRUST")
    call("ninja", "-C", BUILD, "--quiet", "tools/tuffet")
    call("cc", "-shared", "-fPIC", "-O2", "tools/lab/arm_count.c", "-o", PLUGIN)


def run(model, isa, streaming, prompt, n):
    """The instructions of a run that generates n tokens, and the number of the prompt's tokens."""
    with tempfile.TemporaryDirectory() as folder:
        counted = folder + "/count"
        program = subprocess.run(
            ["qemu-aarch64", "-cpu", f"max,sme-default-vector-length={streaming}", "-plugin",
             f"{PLUGIN},out={counted}", BUILD + "/tools/tuffet", "run", model, "--cpu", isa, "-t",
             "1", "-p", prompt, "-n", str(n), "--temp", "0", "--lookup", "0", "--json"],
            check=False, capture_output=True, text=True)
        if program.returncode:
            sys.exit(program.stderr)
        result = json.loads(program.stdout)
        if result["tokens"] != n:
            sys.exit(f"{model}: the text ended after {result['tokens']} tokens: use another --text")
        with open(counted, encoding="utf-8") as f:
            return int(f.read()), result["prompt_tokens"]


def of_token(model, isa, streaming, text):
    """Millions of instructions of a token that is generated, and of one of a prompt."""
    few, many = text[:60], text[:360]
    base, n_few = run(model, isa, streaming, few, 2)
    more, _ = run(model, isa, streaming, few, 6)
    longer, n_many = run(model, isa, streaming, many, 2)
    return (more - base) / 4e6, (longer - base) / (n_many - n_few) / 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="+")
    p.add_argument("--text", required=True, help="what prompts are taken from")
    a = p.parse_args()
    build()
    with open(a.text, encoding="utf-8") as f:
        text = f.read(360)
    print_titles(["model", "kernels"], ["a token generated", "a token of a prompt"])
    for model in a.model:
        for isa, streaming in ISAS:
            generated, prompt = of_token(model, isa, streaming, text)
            bits = f", {8 * streaming} bits" if isa == "sme" else ""
            print_row(os.path.basename(model), f"`{isa}`{bits}", f"{generated:.2f}",
                      f"{prompt:.2f}")


main()
