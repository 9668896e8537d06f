#!/usr/bin/env python3
"""Estimates the speed of int8 and few-bit weights on 64-bit ARM, without an ARM machine.

    tools/scripts/arm_cycles.py LIBRARY [--llvm-mca PROGRAM] [CPU=RUNG=GHZ ...]

LIBRARY is libtuffet.so of an ARM build by gcc (tests/cross). The loops that multiply one token are
cut out of the disassembly, and llvm-mca simulates them on each CPU, with all data in the L1 cache.
Writes a table: cycles for 16 rows of 64 columns in groups of 64, and the bytes that a core
consumes. docs/speed.md has results.
"""
import argparse
import re
import subprocess

COLUMNS, ROWS = 64, 16
CPUS = ["neoverse-n1=dotprod=2.4", "cortex-a55=dotprod=1.8", "cortex-a72=neon=1.8"]
# what a matrix takes, its function, and the columns that its innermost loop consumes
KINDS = [("int8", ROWS * COLUMNS, "dot_one_panel", 16)] + [
    (f"{bits} bits", ROWS + ROWS * COLUMNS * bits // 8, f"low_few_{bits}", 32) for bits in (4, 3, 2)]


def disassembled(library, function):
    """[(address, instruction)]"""
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn",
                           f"--disassemble={function}", library],
                          capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ +([0-9a-f]+):\t([^/\n]*)", text, re.M)
    return [(int(address, 16), code.replace("\t", " ").strip()) for address, code in found]


def loops(code):
    """[(first, last)]: what the branches backwards enclose"""
    index = {address: i for i, (address, _) in enumerate(code)}
    found = set()
    for i, (_, text) in enumerate(code):
        branch = re.match(r"(?:b|b\.\w+|cbn?z|tbn?z) (?:.*, )?([0-9a-f]+) <", text)
        if branch and index.get(int(branch[1], 16), len(code)) <= i:
            found.add((index[int(branch[1], 16)], i))
    return sorted(found)


def products(code):
    return sum(bool(re.match(r"[us](dot|mull2?|mlal2?) ", text)) for _, text in code)


def one_token(code, columns):
    """The instructions for 64 columns of one token: the innermost loop with the fewest products,
    and the rest of the loop over groups that is around it."""
    all = loops(code)
    inner = [(b, e) for b, e in all
             if not any((b, e) != (c, d) and b <= c and d <= e for c, d in all)]
    first, last = min((p for p in inner if products(code[p[0]:p[1] + 1]) >= 16),
                      key=lambda p: products(code[p[0]:p[1] + 1]))
    body = code[first:last + 1] * (COLUMNS // columns)
    if columns == 32:
        begin, end = min(((b, e) for b, e in all if b < first and last < e),
                         key=lambda p: p[1] - p[0])
        body = code[begin:first] + body + code[last + 1:end + 1]
    return [text for _, text in body if not re.match(r"(b|b\.\w+|cbn?z|tbn?z) ", text)]


def cycles(body, cpu, mca):
    # an address that objdump has resolved is none for an assembler
    text = "\n".join(re.sub(r"^(adrp?) (\w+), .*", r"\1 \2, .", line) for line in body) + "\n"
    said = subprocess.run([mca, "-mtriple=aarch64", "-mattr=+dotprod", f"-mcpu={cpu}",
                           "-iterations=100"], input=text, capture_output=True, text=True,
                          check=True).stdout
    return int(re.search(r"Total Cycles: +(\d+)", said)[1]) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("cpus", nargs="*", default=CPUS)
    parser.add_argument("--llvm-mca", default="llvm-mca")
    args = parser.parse_args()
    print("| weights | bytes | " + " | ".join(
        "{0}, `{1}`, {2} GHz".format(*cpu.split("=")) for cpu in args.cpus) + " |")
    print("|---|---:|" + "---:|" * len(args.cpus))
    for name, size, function, columns in KINDS:
        row = [name, str(size)]
        for cpu, rung, ghz in (cpu.split("=") for cpu in args.cpus):
            body = one_token(disassembled(args.library, f"{function}_{rung}"), columns)
            n = cycles(body, cpu, args.llvm_mca)
            row.append(f"{n:.0f} cycles, {size / n * float(ghz):.1f} GB/s")
        print("| " + " | ".join(row) + " |")


main()
