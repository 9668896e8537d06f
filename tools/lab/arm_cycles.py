#!/usr/bin/env python3
"""Estimates the speed of kernels on 64-bit ARM, without an ARM machine.

    tools/lab/arm_cycles.py LIBRARY [--llvm-mca PROGRAM] [--kernel WORD] [CPU=MODEL=ISA ...]

LIBRARY is libtuffet.so.VERSION of an ARM build by gcc (tests/cross). The innermost loops are cut
out of the disassembly, and llvm-mca simulates them on the model of each CPU, with all data in the
L1 cache.
Writes a table: cycles for 1,024 products, the share of the peak, and what binds the loop. The peak
is that of `tuffet bench`, the loops peak_int8 and peak_fma. tools/lab/speed.md has results.
"""
import argparse
import re
import subprocess

WORK = 1024  # products, as of 16 rows of 64 columns and one token
CPUS = ["A55=cortex-a55=dotprod", "A72=cortex-a72=neon", "A76=neoverse-n1=dotprod",
        "X2=neoverse-n2=i8mm", "M1=apple-m1=dotprod"]
# Products of an instruction. fmul and scalar fmadd are none of a kernel's products.
PRODUCTS = [(r"[us]dot", 16), (r"us?mmla|smmla", 32), (r"[us]ml(al|ull|sl)2?|[us]mull2?", 8),
            (r"fml[as]", 4)]
MODELS = re.compile(r"^(CortexA55|CortexA510|A57|N1|N2|V1|Cy)Unit")
INT8, FMA, NUMBERS = "int8", "fma", "numbers"

# (name, function, peak, which innermost loop: with the most or fewest products; how many times the
# loop runs in a group, of which the instructions around it are taken too)
KERNELS = [
    ("int8, prompt", "dot_one_panel", INT8, max, 0),
    ("int8, one token", "dot_one_panel", INT8, min, 0),
    ("4 bits, one token", "low_few_4", INT8, min, 2),
    ("3 bits, one token", "low_few_3", INT8, min, 2),
    ("2 bits, one token", "low_few_2", INT8, min, 2),
    ("Q4_K, Q4_0, Q5, prompt", "packed_narrow32", INT8, max, 0),
    ("Q6_K, Q3_K, prompt", "packed_narrow16", INT8, max, 0),
    ("Q8_0, prompt", "packed_wide32", INT8, max, 0),
    ("Q4_0, one token", "packed_one_4", INT8, max, 0),
    ("Q4_K, one token", "packed_one_4_scales", INT8, max, 0),
    ("Q6_K, one token", "packed_one_6", INT8, max, 0),
    ("Q8_0, one token", "packed_one_8", INT8, max, 0),
    ("f32 weights, prompt", "gemm_f32", FMA, max, 0),
    ("f16 weights, prompt", "gemm_f16", FMA, max, 0),
    ("f16 cache, scores, 6 queries", "score_f16", FMA, max, 0),
    ("f16 cache, scores, 1 query", "score_f16", FMA, min, 0),
    ("f16 cache, values, 6 queries", "mix_f16", FMA, max, 0),
    ("f16 cache, values, 1 query", "mix_f16", FMA, min, 0),
    ("codes of the cache, i16 factors", "coded_i16", INT8, max, 0),
    ("softmax, numbers", "softmax", NUMBERS, max, 0),
    ("rmsnorm to bytes, numbers", "rmsnorm_u8", NUMBERS, min, 0),
    ("SwiGLU to bytes, numbers", "silu_mul_u8", NUMBERS, max, 0),
]


def disassembled(library):
    """{function: [(address, instruction)]}"""
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", library],
                          capture_output=True, text=True, check=True).stdout
    found = {}
    for name, body in re.findall(r"^[0-9a-f]+ <(\w+)>:\n((?: .*\n)*)", text, re.M):
        code = re.findall(r"^ +([0-9a-f]+):\t([^/\n]*)", body, re.M)
        found[name] = [(int(address, 16), one.replace("\t", " ").strip()) for address, one in code]
    return found


def is_branch(text):
    return re.match(r"(bl?|b\.\w+|cbn?z|tbn?z) ", text)


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
    return sum(n for _, text in code for what, n in PRODUCTS if re.match(f"({what}) v", text))


def numbers(code):
    """Floats that the loop loads"""
    return sum({"q": 4, "d": 2, "s": 1}[kind] * (2 if pair == "p" else 1)
               for _, text in code for pair, kind in re.findall(r"^ld([rp]) ([qds])", text))


def body_of(code, kind, choose, times):
    """The instructions of the loop and the work that they do"""
    count = numbers if kind == NUMBERS else products
    all = loops(code)
    inner = [(b, e) for b, e in all
             if not any((b, e) != (c, d) and b <= c and d <= e for c, d in all)
             and not any(text.startswith("bl ") for _, text in code[b:e])]
    # other loops of the function have few products
    most = max(count(code[b:e + 1]) for b, e in inner)
    vector = [(b, e) for b, e in inner if count(code[b:e + 1]) >= max(most / 8, 1)]
    first, last = choose(vector, key=lambda p: products(code[p[0]:p[1] + 1]) * 4096 + p[0] - p[1])
    body = code[first:last + 1]
    work = count(body)
    if times:
        begin, end = min(((b, e) for b, e in all if b < first and last < e),
                         key=lambda p: p[1] - p[0])
        body = code[begin:first] + body * times + code[last + 1:end + 1]
        work *= times
    return [text for _, text in body if not is_branch(text)], work


def simulate(body, model, mca):
    """(cycles of an iteration, what binds it)"""
    # an address that objdump has resolved is none for an assembler
    text = "\n".join(re.sub(r"^(adrp?) (\w+), .*", r"\1 \2, .", line) for line in body) + "\n"
    said = subprocess.run([mca, "-mtriple=aarch64", "-mattr=+dotprod,+i8mm", f"-mcpu={model}",
                           "-iterations=100"], input=text, capture_output=True, text=True,
                          check=True).stdout
    cycles = int(re.search(r"Total Cycles: +(\d+)", said)[1]) / 100
    width = int(re.search(r"Dispatch Width: +(\d+)", said)[1])
    uops = int(re.search(r"Total uOps: +(\d+)", said)[1]) / 100
    names = re.findall(r"^\[[\d.]+\] +- (\w+)", said, re.M)
    row = re.search(r"Resource pressure per iteration:\n.*\n(.*)\n", said)[1].split()
    busy = {"decode": uops / width}
    for name, value in zip(names, row):
        if value != "-":
            name = MODELS.sub("", name)
            busy[name] = max(busy.get(name, 0), float(value))
    most = max(busy, key=busy.get)
    share = busy[most] / cycles
    return cycles, most if share >= 0.85 else f"waits, {most} {share * 100:.0f} %"


def cell(code, kernel, model, isa, mca):
    name, function, kind, choose, times = kernel
    function = next((f for r in (isa, "dotprod", "neon") for f in [f"{function}_{r}"]
                     if f in code and not (r == "dotprod" and isa == "neon")), None)
    if not function:
        return ""
    body, work = body_of(code[function], kind, choose, times)
    cycles, binds = simulate(body, model, mca)
    if kind == NUMBERS:
        return f"{cycles / work * 64:.0f}, {binds}"
    peak = f"peak_int8_{isa}" if kind == INT8 else "peak_fma_neon"
    top, done = body_of(code[peak], kind, max, 0)
    share = (work / cycles) / (done / simulate(top, model, mca)[0])
    return f"{cycles / work * WORK:.0f}, {share * 100:.0f} %, {binds}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("cpus", nargs="*", default=CPUS)
    parser.add_argument("--llvm-mca", default="llvm-mca")
    parser.add_argument("--kernel", default="")
    args = parser.parse_args()
    cpus = [cpu.split("=") for cpu in args.cpus]
    code = disassembled(args.library)
    print("| kernel | " + " | ".join(f"{name}, `{isa}`" for name, _, isa in cpus) + " |")
    print("|---|" + "---|" * len(cpus))
    for kernel in KERNELS:
        if args.kernel in kernel[0]:
            print("| " + " | ".join([kernel[0]] + [cell(code, kernel, model, isa, args.llvm_mca)
                                                   for _, model, isa in cpus]) + " |", flush=True)


main()
