"""Random LoRA adapters for toys."""
import random
import struct


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def adapter(case, model, name, rank=3, alpha=6, size=1.0):
    """The path of a random adapter of the matrices of attention and feed-forward."""
    values = [("general.architecture", "llama"), ("general.type", "adapter"),
              ("adapter.type", "lora")]
    tensors, draw = [], random.Random(name)
    for t in case.json("inspect", model)["tensors"]:
        if any(part in t["name"] for part in ["attn_q.w", "attn_output.w", "ffn_down.w"]):
            cols, rows = t["shape"]
            tensors += [(t["name"] + ".lora_a", cols, rank), (t["name"] + ".lora_b", rank, rows)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values) + 1)
    for key, value in values:
        head += text(key) + struct.pack("<I", 8) + text(value)
    head += text("adapter.lora.alpha") + struct.pack("<If", 6, alpha)
    data = b""
    for tensor, cols, rows in tensors:
        head += text(tensor) + struct.pack("<IQQIQ", 2, cols, rows, 0, len(data))
        data += struct.pack(f"<{cols * rows}f",
                            *(draw.uniform(-size, size) for _ in range(cols * rows)))
        data += bytes(-len(data) % 32)
    return case.write(name, head + bytes(-len(head) % 32) + data)
