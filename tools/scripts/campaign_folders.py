"""The part of campaign.py that imports folders of Hugging Face that are not as they should be."""
import copy
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from campaign_server import mutate
from support import hf_folder

VALUES = [None, True, False, -1, 0, 1, 2, 3, 0.5, 1e-30, 1e30, 1e300, float("inf"), float("nan"),
          31, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, -2**63, "", "x", "\0", "\ud800",
          "x" * 5000, "linear", "LlamaForCausalLM", "BF16", [], [[]], [0], [1, 2, 3, 4, 5], {},
          {"type": "BPE"}, {"rope_type": "yarn", "factor": 4.0}]
ROPE = [{"rope_type": kind, "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": high,
         "original_max_position_embeddings": of, "short_factor": [1.0] * 4,
         "long_factor": [2.0] * 4}
        for kind in ("linear", "llama3", "yarn", "longrope", "dynamic") for factor in (8.0, 0, -1)
        for high in (4.0, 1.0) for of in (32, 0)]
NAMES = ["sliding_window", "head_dim", "rope_scaling", "rope_theta", "layer_types", "hidden_act",
         "attention_bias", "num_local_experts", "eos_token_id", "bos_token_id", "torch_dtype",
         "tie_word_embeddings", "partial_rotary_factor", "quantization_config", "text_config",
         "new"]
BIASES = {f"layers.0.self_attn.{x}_proj.bias": (n,) for x, n in (("q", 32), ("k", 16), ("v", 16))}
NORMS = {f"layers.0.self_attn.{x}_norm": (8,) for x in "qk"}
MULTIPLIERS = {f"{x}_multiplier": 0.5 for x in ("embedding", "residual", "attention")}
CLASSES = [("LlamaForCausalLM", {}, {}), ("MistralForCausalLM", {}, {"sliding_window": 16}),
           ("LlamaForCausalLM", BIASES, {"attention_bias": True}),
           ("Qwen2ForCausalLM", BIASES, {}), ("Qwen3ForCausalLM", NORMS, {"head_dim": 8}),
           ("GraniteForCausalLM", {}, {**MULTIPLIERS, "logits_scaling": 4.0})]
LARGE = [0x4f80, 0x6c80, 0x7f7f]  # weights with which activations may overflow
TEMPLATE = "{% for m in messages %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}"


def places(value):
    """The members of an object or a list, and theirs, as (container, key); of long lists a few."""
    found = []
    if isinstance(value, (dict, list)):
        keys = list(value if isinstance(value, dict) else range(len(value)))
        for key in keys[:12] + keys[-4:]:
            found += [(value, key), *places(value[key])]
    return found


class Folder:
    """A folder that imports, and what happens to it."""

    def __init__(self, random):
        self.random = random
        name, more, config = random.choice(CLASSES)
        self.files = {
            "config.json": {**hf_folder.CONFIG, "architectures": [name], "vocab_size": 264,
                            "bos_token_id": 258, "eos_token_id": 258, **config},
            "tokenizer.json": hf_folder.tokenizer(),
            "tokenizer_config.json": {"eos_token": "<|endoftext|>", "chat_template": TEMPLATE},
            "generation_config.json": {"eos_token_id": [258]}}
        self.header, self.data = hf_folder.safetensors(hf_folder.tensors(264, more))
        self.said = [name]
        self.may_overflow = False

    def write(self, path):
        hf_folder.write(path, self.files, self.header, self.data)

    def damage(self):
        how = self.random.choice([self.change_config, self.change_config, self.add_to_config,
                                  self.change_tokenizer, self.change_tokens, self.change_tensor,
                                  self.change_numbers, self.change_offsets, self.lose_a_file,
                                  self.change_bytes, self.name_shards])
        self.said.append(how.__name__)
        how()

    def object(self, name):
        """A file that still is a JSON object; else None."""
        content = self.files.get(name)
        return content if isinstance(content, dict) else None

    def change(self, name):
        """Removes a member of an object, or gives it another value."""
        place = places(self.files.get(name))
        if place:
            container, key = self.random.choice(place)
            if self.random.random() < 0.25:
                del container[key]
            else:
                container[key] = copy.deepcopy(self.random.choice(VALUES))

    def change_config(self):
        self.change(self.random.choice(["config.json"] * 4 + ["generation_config.json",
                                                              "tokenizer_config.json"]))

    def add_to_config(self):
        name = self.random.choice(NAMES)
        values = ROPE if name == "rope_scaling" else VALUES
        if self.object("config.json"):
            self.object("config.json")[name] = copy.deepcopy(self.random.choice(values))

    def change_tokenizer(self):
        self.change("tokenizer.json")

    def change_tokens(self):
        """Ids that are missing or twice there, merges of no token, another kind of model."""
        made, draw = self.object("tokenizer.json") or {}, self.random
        model = made.get("model")
        if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict):
            return
        vocab, merges = model["vocab"], model.get("merges")
        name = draw.choice(list(vocab) or ["x"])
        kind = draw.randrange(6)
        if kind == 0:
            vocab.pop(name, None)
        elif kind == 1:
            vocab[name] = draw.choice([0, 5, 258, 263, 264, 10**6, -1, 2**31, "5", None, 1.5])
        elif kind == 2:
            vocab[draw.choice(["", "x" * 70000, "\0", "\ud83d", " ", "aĠ"])] = draw.randrange(264)
        elif kind == 3 and isinstance(merges, list):
            merges.append(draw.choice(["t q", "t", "", "t h", ["t"], ["t", "h", "e"], [1, 2],
                                       "th e "]))
        elif kind == 4:
            model["type"] = draw.choice(["Unigram", "WordPiece", "WordLevel", "bpe"])
        else:
            made["added_tokens"] = [{"id": draw.choice([0, 258, 259, 263, 264, 10**9, -1]),
                                     "content": draw.choice(["<x>", "", "a", "<|endoftext|>"]),
                                     "special": draw.choice([True, False, 1])} for _ in range(3)]

    def change_tensor(self):
        """Its shape, type or name, or its absence."""
        name = self.random.choice(list(self.header) or ["x"])
        tensor = self.header.get(name)
        if not isinstance(tensor, dict):
            return
        kind = self.random.randrange(4)
        if kind == 0:
            del self.header[name]
        elif kind == 1:
            self.header[self.random.choice(["x", "lm_head.weight", name + "s"])] = \
                self.header.pop(name)
        elif kind == 2:
            tensor["dtype"] = self.random.choice(["F16", "F32", "F64", "I8", "BOOL", "F8_E4M3", 1])
        else:
            shape = [*tensor["shape"]] if isinstance(tensor["shape"], (list, tuple)) else []
            tensor["shape"] = self.random.choice([
                shape[::-1], [1, *shape], [*shape, 1], shape[:-1], [], [0], [-1, 32],
                [n + 1 for n in shape], [n // 2 for n in shape], [2**32, 2**32], [2**63, 2], "x"])

    def change_numbers(self):
        """NaN, infinity, tiny and large numbers among the weights, and data that is too short or
        long."""
        kind = self.random.randrange(4)
        if kind == 0:
            self.data = self.data[:self.random.randrange(len(self.data) + 1)]
        elif kind == 1:
            self.data += bytes(self.random.choice([1, 64, 4096]))
        else:
            at = 2 * self.random.randrange(max(1, len(self.data) // 2))
            number = self.random.choice([0x7fc0, 0x7f80, 0xff80, 0x0001, 0x4280, *LARGE])
            self.may_overflow |= number in LARGE
            n = self.random.choice([1, 1, 64])
            self.data = self.data[:at] + struct.pack("<H", number) * n + self.data[at + 2 * n:]

    def change_offsets(self):
        name = self.random.choice(list(self.header) or ["x"])
        tensor = self.header.get(name)
        if isinstance(tensor, dict):
            tensor["data_offsets"] = self.random.choice([
                [0, 64], [64, 0], [0, 2**63], [-2, 2], [len(self.data), len(self.data) + 2], [0],
                [], None, [1, 65], ["0", "64"], [2**64, 2**64]])

    def lose_a_file(self):
        self.files.pop(self.random.choice(list(self.files) or ["x"]), None)

    def change_bytes(self):
        name = self.random.choice(list(self.files) or ["x"])
        content = self.files.get(name)
        if content is not None and not isinstance(content, bytes):
            self.files[name] = mutate(self.random, json.dumps(content).encode())

    def name_shards(self):
        """An index whose files are missing, or hold other tensors."""
        where = self.random.choice(["model.safetensors", "model-00001-of-00002.safetensors", "",
                                    "../x", "config.json", 1])
        self.files["model.safetensors.index.json"] = {
            "metadata": {"total_size": len(self.data)},
            "weight_map": {name: where for name in self.header}}


class FolderPart:
    """campaign: of campaign.py, with a folder, a random generator and reports."""

    def __init__(self, campaign):
        self.c = campaign

    def folders(self):
        path = self.c.path("damaged")
        folder = Folder(self.c.random)
        for _ in range(self.c.random.choice([0, 1, 1, 1, 2, 3])):
            folder.damage()
        folder.write(path)
        self.try_folder(path, folder)
        shutil.rmtree(path)

    def try_folder(self, path, folder):
        command = ["import", path, "-o", self.c.path("out"), "--json"]
        how = ", ".join(folder.said)
        done = self.c.attempt(command, how, use=lambda made: self.use(made, command, folder))
        if done is None or done.returncode == 0:
            return
        error = done.stderr.decode(errors="replace")
        if path not in error and not any(name in error for name in [*folder.files, *folder.header]):
            self.c.report("a refusal names no file and no key", command, f"{how}: {error}")

    def use(self, made, command, folder):
        """The file must run: the program fails on logits with NaN or infinity, which only large
        weights may cause. The context that a folder names may be too short for two tokens."""
        run = subprocess.run([self.c.tuffet, "run", made, "-pte", "-n2", "--temp=0", "-t1"],
                             capture_output=True, timeout=60, check=False)
        overflow = folder.may_overflow and run.returncode == 1 and b"overflow" in run.stderr
        if run.returncode and not overflow and b"the context holds only" not in run.stderr:
            self.c.report("the file does not run", command,
                          f"{', '.join(folder.said)}: {run.stderr[-300:]!r}")
