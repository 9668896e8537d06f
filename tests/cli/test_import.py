"""tuffet import, and quantize on a folder."""
import json
import os
import random
import struct

from program import Case, main

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": 40,
          "tie_word_embeddings": True}
LAYER = {"input_layernorm": (32,), "post_attention_layernorm": (32,), "self_attn.q_proj": (32, 32),
         "self_attn.k_proj": (16, 32), "self_attn.v_proj": (16, 32), "self_attn.o_proj": (32, 32),
         "mlp.gate_proj": (48, 32), "mlp.up_proj": (48, 32), "mlp.down_proj": (32, 48)}
SHAPES = {"embed_tokens": (40, 32), "norm": (32,),
          **{"layers.0." + name: shape for name, shape in LAYER.items()}}


def numbers(shape):
    n = 1
    for x in shape:
        n *= x
    return n


class Import(Case):
    def folder_of(self, name, **changes):
        """A folder with a small llama of random bfloat16."""
        source, header, data = random.Random(1), {}, b""
        for tensor, shape in SHAPES.items():
            part = b"".join(struct.pack("<f", source.uniform(-1, 1))[2:]
                            for _ in range(numbers(shape)))
            header[f"model.{tensor}.weight"] = {"dtype": "BF16", "shape": shape,
                                                "data_offsets": [len(data), len(data + part)]}
            data += part
        head = json.dumps(header).encode()
        path = self.path(name)
        os.makedirs(path, exist_ok=True)
        self.write(name + "/model.safetensors", struct.pack("<Q", len(head)) + head + data)
        self.write(name + "/config.json", json.dumps({**CONFIG, **changes}).encode())
        return path

    def test_types(self):
        folder, out = self.folder_of("llama"), self.path("out.gguf")
        for options, kind, size in [([], "BF16", 2), (["--type", "f16"], "F16", 2),
                                    (["--type=f32"], "F32", 4)]:
            made = self.json("import", folder, "-o", out, "--no-tokenizer", *options)
            self.assertEqual(set(made), {"seconds", "tensors", "bytes"})
            facts = self.json("inspect", out)
            self.assertEqual(facts["architecture"], "llama")
            tensors = {t["name"]: t for t in facts["tensors"]}
            self.assertEqual(len(tensors), len(SHAPES))
            self.assertEqual(made["tensors"], len(SHAPES))
            self.assertEqual(tensors["blk.0.ffn_up.weight"]["type"], kind)
            self.assertEqual(tensors["blk.0.ffn_norm.weight"]["type"], "F32")
            self.assertEqual(made["bytes"], sum(numbers(s) * (size if len(s) > 1 else 4)
                                                for s in SHAPES.values()))

    def test_one_line(self):
        self.assertIn("-o FILE", self.fails("import", self.folder_of("llama"), status=2))
        self.assertIn("no-such-folder/config.json: cannot be read",
                      self.fails("import", "no-such-folder", "-o", self.path("x")))
        out = self.path("x")
        wide = self.folder_of("wide", hidden_size=64)
        self.assertIn('embed_tokens.weight" has 32 numbers where config.json says 64',
                      self.fails("import", wide, "-o", out, "--no-tokenizer"))
        self.assertFalse(os.path.exists(out))

    def test_a_file_survives_a_failure(self):
        out = self.write("old", b"what was there")
        self.fails("import", self.folder_of("wide", hidden_size=64), "-o", out, "--no-tokenizer")
        self.assertEqual(self.read(out), b"what was there")

    def test_quantize_needs_a_tokenizer(self):
        folder, out = self.folder_of("llama"), self.path("q.gguf")
        before = sorted(os.listdir(self.path("")))
        self.assertIn(folder + ": ", self.fails("quantize", folder, "-o", out))
        self.assertEqual(sorted(os.listdir(self.path(""))), before)


main()
