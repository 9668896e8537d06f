#!/usr/bin/env python3
"""The speed of Gemma 4 beside llama.cpp:

    gemma4.py [--shape e2b|e4b] [--folder DIR] [--llama LLAMA_BENCH]

Writes random weights of Q4_0 in the shape of Gemma 4 E2B or E4B to DIR/gemma-4-SHAPE.gguf, and
measures the prompt and generating with `tuffet bench` and llama-bench on this file in turn. The
last layers of E2B and E4B write no keys and values, so only the last token of a prompt needs them.
Prints the median of the rounds, and the ratio of each round.
"""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess

from experts import (ALIGN, BLOCK, F32, FLOAT, I32, STRING, U32, number, numbers, padded, string,
                     strings, value)
from measure import print_row, print_titles

Q4_0, BLOCK_BYTES, BOOL = 2, 18, 7
VOCAB, HEADS, HEAD, WIDE_HEAD, EMBED = 262144, 8, 256, 512, 256
# width, hidden, layers, KV heads, layers without keys and values, their hidden, period of windows
SHAPES = {"e2b": (1536, 6144, 35, 1, 20, 12288, 5), "e4b": (2560, 10240, 42, 2, 18, 10240, 6)}


def windows(layers, period):
    return [i % period != period - 1 for i in range(layers)]


def values(shape):
    width, hidden, layers, kv_heads, shared, wide, period = shape
    counts = {"context_length": 32768, "embedding_length": width, "block_count": layers,
              "attention.head_count": HEADS, "attention.head_count_kv": kv_heads,
              "attention.key_length": WIDE_HEAD, "attention.value_length": WIDE_HEAD,
              "attention.key_length_swa": HEAD, "attention.value_length_swa": HEAD,
              "rope.dimension_count": WIDE_HEAD, "rope.dimension_count_swa": HEAD,
              "attention.sliding_window": 512, "attention.shared_kv_layers": shared,
              "embedding_length_per_layer_input": EMBED}
    floats = {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
              "rope.freq_base_swa": 1e4, "final_logit_softcapping": 30.0}
    name = "gemma4."
    ffn = (layers - shared) * [hidden] + shared * [wide]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    more = VOCAB - len(tokens)
    all_values = [
        value("general.architecture", STRING, string("gemma4")),
        number("general.alignment", ALIGN),
        *(number(name + key, n) for key, n in counts.items()),
        *(value(name + key, FLOAT, struct.pack("<f", x)) for key, x in floats.items()),
        numbers(name + "attention.sliding_window_pattern", BOOL, windows(layers, period), "?"),
        numbers(name + "feed_forward_length", I32, ffn, "i"),
        value("tokenizer.ggml.model", STRING, string("llama")),
        strings("tokenizer.ggml.tokens", tokens + [f"\u2581w{i}" for i in range(more)]),
        numbers("tokenizer.ggml.scores", FLOAT, VOCAB * [-1.0], "f"),
        numbers("tokenizer.ggml.token_type", I32, [2, 3, 3] + 256 * [6] + more * [1], "i"),
        value("tokenizer.ggml.bos_token_id", U32, struct.pack("<I", 1)),
        value("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 2))]
    return b"".join(all_values), len(all_values)


def tensors(shape):
    """(name, type, dimensions), the length of a row first."""
    width, hidden, layers, kv_heads, shared, wide, period = shape
    yield "rope_freqs.weight", F32, (WIDE_HEAD // 2,)
    yield "token_embd.weight", Q4_0, (width, VOCAB)
    yield "output_norm.weight", F32, (width,)
    yield "per_layer_token_embd.weight", Q4_0, (EMBED * layers, VOCAB)
    yield "per_layer_model_proj.weight", Q4_0, (width, EMBED * layers)
    yield "per_layer_proj_norm.weight", F32, (EMBED,)
    for i, window in enumerate(windows(layers, period)):
        b, head = f"blk.{i}.", HEAD if window else WIDE_HEAD
        ffn = hidden if i < layers - shared else wide
        for norm in ["attn", "post_attention", "ffn", "post_ffw", "post"]:
            yield f"{b}{norm}_norm.weight", F32, (width,)
        yield b + "attn_q.weight", Q4_0, (width, HEADS * head)
        yield b + "attn_q_norm.weight", F32, (head,)
        if i < layers - shared:
            yield b + "attn_k.weight", Q4_0, (width, kv_heads * head)
            yield b + "attn_v.weight", Q4_0, (width, kv_heads * head)
            yield b + "attn_k_norm.weight", F32, (head,)
        yield b + "attn_output.weight", Q4_0, (HEADS * head, width)
        yield b + "ffn_gate.weight", Q4_0, (width, ffn)
        yield b + "ffn_up.weight", Q4_0, (width, ffn)
        yield b + "ffn_down.weight", Q4_0, (ffn, width)
        yield b + "inp_gate.weight", Q4_0, (width, EMBED)
        yield b + "proj.weight", Q4_0, (EMBED, width)
        yield b + "layer_output_scale.weight", F32, (1,)


def count(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def bytes_of(kind, dims):
    return 4 * count(dims) if kind == F32 else count(dims) // BLOCK * BLOCK_BYTES


def write_model(path, shape):
    rng = random.Random(1)
    n_blocks = 1 << 18
    chunk = bytearray(rng.randbytes(n_blocks * BLOCK_BYTES))
    for i, byte in enumerate(struct.pack("<e", 0.0055)):  # the scale: weights of variance 1 / width
        chunk[i::BLOCK_BYTES] = n_blocks * bytes([byte])
    described, n_values = values(shape)
    offset, table, every = 0, b"", list(tensors(shape))
    for name, kind, dims in every:
        table += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        offset += padded(bytes_of(kind, dims))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(every), n_values) + described + table
    with open(path + ".part", "wb") as f:
        f.write(head + bytes(padded(len(head)) - len(head)))
        for name, kind, dims in every:
            size = bytes_of(kind, dims)
            if kind == F32:
                f.write(struct.pack("<f", 1) * count(dims))
            else:
                for at in range(0, size, len(chunk)):
                    f.write(chunk[:min(size - at, len(chunk))])
            f.write(bytes(padded(size) - size))
    os.rename(path + ".part", path)


def tuffet(a, path):
    done = subprocess.run([a.tuffet, "bench", path, "-p", str(a.prompt), "-n", str(a.tokens), "-r",
                           "1", "-t", str(a.threads), "--json"], check=True, stdout=subprocess.PIPE)
    return [r["tok_s"] for r in json.loads(done.stdout)["rows"]]


def llama(a, path):
    done = subprocess.run([a.llama, "-m", path, "-p", str(a.prompt), "-n", str(a.tokens), "-r", "1",
                           "-t", str(a.threads), "-o", "json"], check=True, stdout=subprocess.PIPE)
    return [r["avg_ts"] for r in sorted(json.loads(done.stdout), key=lambda r: r["n_gen"])]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuffet", default="build/release/tools/tuffet")
    parser.add_argument("--shape", choices=SHAPES, default="e2b")
    parser.add_argument("--folder", default=".", help="where the model is written, and stays")
    parser.add_argument("--llama", help="llama-bench, for rows of llama.cpp")
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--tokens", type=int, default=32)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    a = parser.parse_args()
    path = os.path.join(a.folder, f"gemma-4-{a.shape}.gguf")
    if not os.path.exists(path):
        write_model(path, SHAPES[a.shape])
    rows = {"tuffet": [], "llama.cpp": []}
    for _ in range(a.rounds):
        rows["tuffet"].append(tuffet(a, path))
        if a.llama:
            rows["llama.cpp"].append(llama(a, path))
    print_titles([f"gemma-4-{a.shape}, {a.threads} threads"], ["prompt tok/s", "generate tok/s"])
    for name, speeds in rows.items():
        if speeds:
            print_row(name, *(f"{statistics.median(x):.1f}" for x in zip(*speeds)))
    if a.llama:
        ratios = [[x / y for x, y in zip(*pair)] for pair in zip(rows["tuffet"], rows["llama.cpp"])]
        print_row("ratio by round", *(" ".join(f"{x:.2f}" for x in r) for r in zip(*ratios)))


if __name__ == "__main__":
    main()
