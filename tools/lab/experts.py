#!/usr/bin/env python3
"""The speed of a mixture of experts in a file that is larger than memory:

    experts.py [--folder DIR] [--layers N] [--memory SIZE] [--llama LLAMA_BENCH]

Writes random weights of Q4_1 in the shape of Qwen3-30B-A3B to DIR/experts.gguf, as many layers as
the disk has room for, packs them, and runs `tuffet bench` with less memory than the file has: with
the bound on experts that the program chooses, and without a bound, as mapped files usually are.
With --llama, llama-bench reads the same weights. Each run begins with a cold file cache. The limit
of memory is a cgroup, which root makes, or systemd-run. Ends with 1 if the bound changes the text
that is generated.

Random routers prefer some experts, as trained ones do: which share is found in memory is a property
of the weights.
"""
import argparse
import array
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys

from measure import print_row, print_titles

WIDTH, HIDDEN, LAYERS, EXPERTS, USED, VOCAB = 2048, 768, 48, 128, 8, 151936
HEADS, KV_HEADS, HEAD = 32, 4, 128
F32, Q4_1 = 0, 3  # types of GGUF
BLOCK, BLOCK_BYTES, ALIGN = 32, 20, 64
U32, FLOAT, STRING, ARRAY, I32 = 4, 6, 8, 9, 5


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(key, kind, packed):
    return string(key) + struct.pack("<I", kind) + packed


def number(key, n):
    return value(key, U32, struct.pack("<I", n))


def strings(key, items):
    head = struct.pack("<IQ", STRING, len(items))
    return value(key, ARRAY, head + b"".join(string(s) for s in items))


def numbers(key, kind, items, code):
    return value(key, ARRAY, struct.pack(f"<IQ{len(items)}{code}", kind, len(items), *items))


def vocabulary():
    """Bytes, and words that nobody writes."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    kinds = [2, 3, 3] + 256 * [6]
    more = VOCAB - len(tokens)
    return (value("tokenizer.ggml.model", STRING, string("llama"))
            + strings("tokenizer.ggml.tokens", tokens + [f"\u2581w{i}" for i in range(more)])
            + numbers("tokenizer.ggml.scores", FLOAT, VOCAB * [-1.0], "f")
            + numbers("tokenizer.ggml.token_type", I32, kinds + more * [1], "i"))


def values(layers):
    """The description of the model, and the number of its values."""
    name = "qwen3moe."
    counts = {"context_length": 32768, "embedding_length": WIDTH, "block_count": layers,
              "feed_forward_length": HIDDEN, "attention.head_count": HEADS,
              "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
              "attention.value_length": HEAD, "expert_count": EXPERTS, "expert_used_count": USED,
              "expert_feed_forward_length": HIDDEN}
    floats = {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6}
    data = (value("general.architecture", STRING, string("qwen3moe"))
            + number("general.alignment", ALIGN)
            + b"".join(number(name + key, n) for key, n in counts.items())
            + b"".join(value(name + key, FLOAT, struct.pack("<f", x)) for key, x in floats.items())
            + vocabulary())
    return data, 2 + len(counts) + len(floats) + 4


def tensors(layers):
    """(name, type, dimensions), the length of a row first."""
    yield "token_embd.weight", Q4_1, (WIDTH, VOCAB)
    for i in range(layers):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", F32, (WIDTH,)
        yield b + "attn_q.weight", Q4_1, (WIDTH, HEADS * HEAD)
        yield b + "attn_k.weight", Q4_1, (WIDTH, KV_HEADS * HEAD)
        yield b + "attn_v.weight", Q4_1, (WIDTH, KV_HEADS * HEAD)
        yield b + "attn_output.weight", Q4_1, (HEADS * HEAD, WIDTH)
        yield b + "attn_q_norm.weight", F32, (HEAD,)
        yield b + "attn_k_norm.weight", F32, (HEAD,)
        yield b + "ffn_norm.weight", F32, (WIDTH,)
        yield b + "ffn_gate_inp.weight", F32, (WIDTH, EXPERTS)
        yield b + "ffn_gate_exps.weight", Q4_1, (WIDTH, HIDDEN, EXPERTS)
        yield b + "ffn_up_exps.weight", Q4_1, (WIDTH, HIDDEN, EXPERTS)
        yield b + "ffn_down_exps.weight", Q4_1, (HIDDEN, WIDTH, EXPERTS)
    yield "output_norm.weight", F32, (WIDTH,)
    yield "output.weight", Q4_1, (WIDTH, VOCAB)


def bytes_of(kind, dims):
    n = 1
    for d in dims:
        n *= d
    return 4 * n if kind == F32 else n // BLOCK * BLOCK_BYTES


def padded(n):
    return (n + ALIGN - 1) // ALIGN * ALIGN


def random_blocks(rng, n):
    """n blocks of Q4_1: codes 0 to 15 stand for weights around 0, of variance 1 / WIDTH."""
    data = bytearray(rng.randbytes(n * BLOCK_BYTES))
    for i, byte in enumerate(struct.pack("<ee", 0.0048, -0.036)):
        data[i::BLOCK_BYTES] = n * bytes([byte])
    return bytes(data)


def write_codes(f, chunk, size, first):
    """`size` bytes of the chunk, over and over, from a block that differs by tensor."""
    at = first % (len(chunk) // BLOCK_BYTES) * BLOCK_BYTES
    while size:
        piece = chunk[at:at + size]
        f.write(piece)
        size -= len(piece)
        at = 0


def router(rng):
    small = array.array("h", rng.randbytes(2 * WIDTH * EXPERTS))
    return array.array("f", [x * (0.022 / 18918) for x in small]).tobytes()


def write_model(path, layers):
    rng = random.Random(1)
    chunk = random_blocks(rng, 1 << 18)
    all_tensors = list(tensors(layers))
    described, n_values = values(layers)
    offset, table = 0, b""
    for name, kind, dims in all_tensors:
        table += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        offset += padded(bytes_of(kind, dims))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), n_values) + described + table
    with open(path + ".part", "wb") as f:
        f.write(head + bytes(padded(len(head)) - len(head)))
        for i, (name, kind, dims) in enumerate(all_tensors):
            size = bytes_of(kind, dims)
            if kind == Q4_1:
                write_codes(f, chunk, size, 7919 * i)
            elif "gate_inp" in name:
                f.write(router(rng))
            else:
                f.write(struct.pack("<f", 1) * dims[0])
            f.write(bytes(padded(size) - size))
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".part", path)


def model_bytes(layers):
    return sum(padded(bytes_of(kind, dims)) for _, kind, dims in tensors(layers))


def layers_that_fit(folder):
    """The file and its packed form, beside a tenth of the disk's room."""
    room = 0.9 * shutil.disk_usage(folder).free
    fit = [n for n in range(1, LAYERS + 1) if 2 * model_bytes(n) < room]
    if not fit:
        sys.exit(f"{folder}: no room for one layer")
    return fit[-1]


def forget(path):
    """Removes a file from the file cache."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


class Limit:
    """Runs programs with at most `size` bytes of memory, file cache included."""

    def __init__(self, size):
        self.folder, self.prefix = None, []
        if os.geteuid() == 0 and self.make_cgroup(size):
            return
        if not shutil.which("systemd-run"):
            sys.exit("limiting memory needs root, or systemd-run")
        self.prefix = ["systemd-run", "--scope", "--quiet", "-p", f"MemoryMax={size}", "-p",
                       "MemorySwapMax=0"] + (["--user"] if os.geteuid() else [])

    def make_cgroup(self, size):
        root, name = "/sys/fs/cgroup", f"tuffet-experts-{os.getpid()}"
        v1 = os.path.isdir(root + "/memory")
        if v1:
            with open("/proc/self/cgroup", encoding="utf-8") as f:
                own = re.search(r"^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(.*)$", f.read(), re.M)
            root += "/memory" + (own[1].rstrip("/") if own else "")
        folder = f"{root}/{name}"
        try:
            os.mkdir(folder)
            file = "memory.limit_in_bytes" if v1 else "memory.max"
            with open(f"{folder}/{file}", "w", encoding="utf-8") as f:
                f.write(str(size))
        except OSError as e:
            print(f"{folder}: {e.strerror}", file=sys.stderr)
            if os.path.isdir(folder):
                os.rmdir(folder)
            return False
        self.folder = folder
        return True

    def join(self):
        with open(f"{self.folder}/cgroup.procs", "w", encoding="utf-8") as f:
            f.write("0")

    def __call__(self, *command):
        """The standard output of the command."""
        join = self.join if self.folder else None
        run = subprocess.run(self.prefix + [str(c) for c in command], stdout=subprocess.PIPE,
                             check=False, preexec_fn=join)
        if run.returncode:
            sys.exit(f"{' '.join(str(c) for c in command)}: exit status {run.returncode}")
        return run.stdout

    def close(self):
        if self.folder:
            os.rmdir(self.folder)


def size(text):
    """500M or 8G in bytes."""
    m = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not m:
        raise argparse.ArgumentTypeError(f"{text} is no size such as 500M or 8G")
    return int(m[1]) << " KMG".index(m[2] or " ") * 10


def tuffet_row(limit, a, path, *more):
    """Tokens/s of a prompt and of generating, and a text."""
    forget(path)
    rows = json.loads(limit(a.tuffet, "bench", path, "-p", a.prompt, "-n", a.tokens, "-r", 1, "-t",
                            a.threads, "--json", *more))["rows"]
    text = limit(a.tuffet, "run", path, "-p", "abc", "-n", 8, "--temp", 0, "-t", a.threads, "-c",
                 64, *more)
    return [r["tok_s"] for r in rows], text


def llama_row(limit, a, path):
    forget(path)
    rows = json.loads(limit(a.llama, "-m", path, "-p", a.prompt, "-n", a.tokens, "-r", 1, "-t",
                            a.threads, "-o", "json"))
    return [r["avg_ts"] for r in sorted(rows, key=lambda r: r["n_gen"])]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuffet", default="build/release/tools/tuffet")
    parser.add_argument("--folder", default=".", help="where the model is written, and stays")
    parser.add_argument("--layers", type=int, help=f"1 to {LAYERS} (default: as many as fit)")
    parser.add_argument("--memory", type=size, help="default: 0.45 of the file")
    parser.add_argument("--bound", type=size, action="append", default=[],
                        help="another row with this --experts-mem")
    parser.add_argument("--llama", help="llama-bench, for a row of llama.cpp")
    parser.add_argument("-p", "--prompt", type=int, default=64)
    parser.add_argument("-n", "--tokens", type=int, default=32)
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    a = parser.parse_args()

    plain, packed = (os.path.join(a.folder, f"experts{end}.gguf") for end in ["", ".packed"])
    if not os.path.exists(packed) or not os.path.exists(plain):
        write_model(plain, a.layers or layers_that_fit(a.folder))
        subprocess.run([a.tuffet, "pack", plain, "-o", packed], check=True)
    elif a.layers:
        print(f"{plain} and {packed} are there: remove them for other layers", file=sys.stderr)
    file = os.path.getsize(packed)
    memory = a.memory or int(0.45 * file)
    print(f"{file / 1e9:.1f} GB, {memory / 1e9:.1f} GB of memory, {a.threads} threads\n")

    limit = Limit(memory)
    try:
        print_titles(["program", "experts in memory"], ["prompt tok/s", "generate tok/s"])
        kept, text = tuffet_row(limit, a, packed)
        print_row("tuffet", "what fits", *(f"{x:.2f}" for x in kept))
        for bound in a.bound:
            speed, _ = tuffet_row(limit, a, packed, "--experts-mem", bound)
            print_row("tuffet", f"{bound / 1e9:.1f} GB", *(f"{x:.2f}" for x in speed))
        speed, same = tuffet_row(limit, a, packed, "--experts-mem", "1000000G")
        print_row("tuffet", "by the system", *(f"{x:.2f}" for x in speed))
        if a.llama:
            print_row("llama.cpp", "by the system",
                      *(f"{x:.2f}" for x in llama_row(limit, a, plain)))
        if same != text:
            sys.exit("the texts differ")
    finally:
        limit.close()


if __name__ == "__main__":
    main()
