#!/usr/bin/env python3
"""Writes a GGUF file with only a vocabulary, from the tokenizer of a Hugging Face folder.

    hf_vocab.py FOLDER OUT.gguf [PROGRAM ARG...]

Reads tokenizer.json and tokenizer_config.json of FOLDER, which is below tokenizers/ of the folder
shared/ (see paths.h), and writes OUT.gguf. Then it runs PROGRAM ARG... OUT.gguf and ends with its
exit status. Exit status 77 if FOLDER is missing.
"""
import json
import os
import shlex
import struct
import subprocess
import sys

U32, I32, BOOL, STRING, ARRAY = 4, 5, 7, 8, 9
NORMAL, CONTROL, USER, UNUSED = 1, 3, 4, 5

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PRE = {LLAMA3: "llama-bpe", LLAMA3.replace("{1,3}", ""): "qwen2"}


def string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def value(key, kind, data):
    return string(key) + struct.pack("<I", kind) + data


def array(key, kind, items):
    pack = string if kind == STRING else struct.Struct("<i").pack
    return value(key, ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(map(pack, items)))


def pre_tokenizer(tokenizer):
    """llama.cpp's name of the pre-tokenizer, found by its regular expression."""
    parts = tokenizer["pre_tokenizer"].get("pretokenizers", [tokenizer["pre_tokenizer"]])
    for part in parts:
        if part["type"] == "Split":
            return PRE[part["pattern"]["Regex"]]
    return "gpt-2"


def content(token):
    return token["content"] if isinstance(token, dict) else token


def convert(folder):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as file:
        config = json.load(file)

    vocab, added = tokenizer["model"]["vocab"], tokenizer["added_tokens"]
    n = 1 + max(list(vocab.values()) + [token["id"] for token in added])
    tokens, types = ["[PAD%d]" % i for i in range(n)], [UNUSED] * n
    for text, i in vocab.items():
        tokens[i], types[i] = text, NORMAL
    for token in added:
        tokens[token["id"]] = token["content"]
        types[token["id"]] = CONTROL if token["special"] else USER
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]

    values = [
        value("general.architecture", STRING, string("llama")),
        value("tokenizer.ggml.model", STRING, string("gpt2")),
        value("tokenizer.ggml.pre", STRING, string(pre_tokenizer(tokenizer))),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.token_type", I32, types),
        array("tokenizer.ggml.merges", STRING, merges),
    ]
    for name in ("bos", "eos"):
        if config.get(name + "_token"):
            token = tokens.index(content(config[name + "_token"]))
            values.append(value("tokenizer.ggml.%s_token_id" % name, U32, struct.pack("<I", token)))
    if "add_bos_token" in config:
        add_bos = struct.pack("<?", config["add_bos_token"])
        values.append(value("tokenizer.ggml.add_bos_token", BOOL, add_bos))
    if (tokenizer.get("normalizer") or {}).get("type") == "NFC":
        values.append(value("tokenizer.tuffet.nfc", BOOL, b"\1"))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(values)


def main():
    source = os.environ.get("TUFFET_SOURCE", ".")
    shared = os.environ.get("TUFFET_SHARED") or os.path.join(source, "..", "shared")
    folder, out = os.path.join(shared, "tokenizers", sys.argv[1]), sys.argv[2]
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        print("skipped: %s is missing" % folder)
        return 77
    with open(out, "wb") as file:
        file.write(convert(folder))
    wrapper = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # qemu
    return subprocess.call(wrapper + sys.argv[3:] + [out]) if sys.argv[3:] else 0


if __name__ == "__main__":
    sys.exit(main())
