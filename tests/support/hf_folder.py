"""A small folder of Hugging Face with random numbers, for test_import.py, the campaign and the test
of documented commands."""
import json
import os
import random
import struct

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": 40,
          "tie_word_embeddings": True}
LAYER = {"input_layernorm": (32,), "post_attention_layernorm": (32,), "self_attn.q_proj": (32, 32),
         "self_attn.k_proj": (16, 32), "self_attn.v_proj": (16, 32), "self_attn.o_proj": (32, 32),
         "mlp.gate_proj": (48, 32), "mlp.up_proj": (48, 32), "mlp.down_proj": (32, 48)}
SHAPES = {"embed_tokens": (40, 32), "norm": (32,),
          **{"layers.0." + name: shape for name, shape in LAYER.items()}}


def tokenizer():
    """A byte-level BPE of GPT-2's kind, with two merges and a special token: 259 tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    names = [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]
    vocab = {name: i for i, name in enumerate(names + ["th", "the"])}
    end = {"id": 258, "content": "<|endoftext|>", "special": True, "normalized": False,
           "single_word": False, "lstrip": False, "rstrip": False}
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    return {"version": "1.0", "added_tokens": [end], "normalizer": None, "pre_tokenizer": split,
            "decoder": split, "post_processor": None,
            "model": {"type": "BPE", "vocab": vocab, "merges": ["t h", ["th", "e"]],
                      "byte_fallback": False}}


def numbers(shape):
    n = 1
    for x in shape:
        n *= x
    return n


def tensors(rows, more=None, rename=None):
    """The tensors of the model, {name: (type, shape, bytes)}, with `more`: random bfloat16. rows:
    of the vocabulary."""
    source, made = random.Random(1), {}
    for tensor, shape in {**SHAPES, "embed_tokens": (rows, 32), **(more or {})}.items():
        data = b"".join(struct.pack("<f", source.uniform(-1, 1))[2:] for _ in range(numbers(shape)))
        stored = tensor if tensor.endswith(".bias") else tensor + ".weight"
        made[(rename or {}).get(stored, "model." + stored)] = ("BF16", shape, data)
    return made


def safetensors(made):
    """The parts of such a file: its header, as an object, and its data."""
    header, data = {}, b""
    for name, (kind, shape, part) in made.items():
        header[name] = {"dtype": kind, "shape": shape,
                        "data_offsets": [len(data), len(data + part)]}
        data += part
    return header, data


def write(path, files, header, data):
    """Writes the folder. files: {name: bytes, or an object}"""
    head = json.dumps(header).encode()
    os.makedirs(path, exist_ok=True)
    for name, content in {**files, "model.safetensors":
                          struct.pack("<Q", len(head)) + head + data}.items():
        with open(os.path.join(path, name), "wb") as f:
            f.write(content if isinstance(content, bytes) else json.dumps(content).encode())
