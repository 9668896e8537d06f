"""tuffet import of LoRA adapters of PEFT."""
import json
import math
import os
import random
import struct

from program import Case, main
from support import hf_folder
from support.hf_folder import CONFIG, LAYER, SHAPES, tokenizer

TEXT = b"the cat sat on the hat, the rat ate the oat. " * 20
PEFT = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "some/model",
        "r": 3, "lora_alpha": 6, "lora_dropout": 0.05, "bias": "none", "use_rslora": False,
        "use_dora": False, "modules_to_save": None, "init_lora_weights": True,
        "inference_mode": True, "fan_in_fan_out": False, "target_modules": ["q_proj"],
        "rank_pattern": {}, "alpha_pattern": {}, "megatron_core": "megatron.core"}
MATRICES = [name for name, shape in LAYER.items() if len(shape) == 2]
# Rows of queries, keys and values in groups; matrices with inputs as rows (turned).
SIZES = {"vocab_size": 264, "max_position_embeddings": 64}
NEOX = {**SIZES, "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
        "layer_norm_eps": 1e-5, "rotary_pct": 0.5, "rotary_emb_base": 10000, "hidden_act": "gelu",
        "tie_word_embeddings": False, "use_parallel_residual": True}
NEOX_LAYER = {"attention.query_key_value": (96, 32), "attention.dense": (32, 32),
              "mlp.dense_h_to_4h": (48, 32), "mlp.dense_4h_to_h": (32, 48)}
NEOX_OTHERS = {"gpt_neox.embed_in": (264, 32), "gpt_neox.final_layer_norm": (32,),
               "embed_out": (264, 32), "gpt_neox.layers.0.input_layernorm": (32,),
               "gpt_neox.layers.0.post_attention_layernorm": (32,)}
GPT2 = {**SIZES, "architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 1, "n_head": 4,
        "n_inner": 48, "n_positions": 64, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new"}
GPT2_LAYER = {"attn.c_attn": (96, 32), "attn.c_proj": (32, 32), "mlp.c_fc": (48, 32),
              "mlp.c_proj": (32, 48)}
GPT2_OTHERS = {"transformer.wte": (264, 32), "transformer.wpe": (64, 32),
               "transformer.ln_f": (32,), "transformer.h.0.ln_1": (32,),
               "transformer.h.0.ln_2": (32,)}


def floats(data):
    """Of bfloat16."""
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def safetensors(made):
    header, data = hf_folder.safetensors(made)
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


class Peft(Case):
    def setUp(self):
        super().setUp()
        self.tensors = hf_folder.tensors(264)
        self.base = self.imported("base", self.tensors)

    def imported(self, name, tensors, config=CONFIG):
        hf_folder.write(self.path(name), {"config.json": {**config, "vocab_size": 264},
                                          "tokenizer.json": tokenizer()},
                        *hf_folder.safetensors(tensors))
        self.tuffet("import", self.path(name), "-o", self.path(name + ".gguf"))
        return self.path(name + ".gguf")

    def pairs(self, ranks=(), modules=MATRICES):
        """{module: (A, B)} as rows of bfloat16. ranks: of some modules; of the others 3."""
        draw, made = random.Random(2), {}
        for module in modules:
            rows, cols = SHAPES["layers.0." + module]
            rank = dict(ranks).get(module, 3)
            made[module] = [[[floats(struct.pack("<f", draw.uniform(-.3, .3))[2:])[0]
                              for _ in range(n)] for _ in range(m)]
                            for m, n in ((rank, cols), (rows, rank))]
        return made

    def adapter(self, name, pairs, more=None, **changes):
        """The folder of an adapter. more: tensors {name: (type, shape, bytes)}"""
        made = {}
        for module, both in pairs.items():
            for letter, rows in zip("AB", both):
                data = b"".join(struct.pack("<f", x)[2:] for row in rows for x in row)
                made[f"base_model.model.model.layers.0.{module}.lora_{letter}.weight"] = (
                    "BF16", (len(rows), len(rows[0])), data)
        os.makedirs(self.path(name), exist_ok=True)
        config = {key: value for key, value in {**PEFT, **changes}.items() if value != "none given"}
        self.write(name + "/adapter_config.json", json.dumps(config).encode())
        self.write(name + "/adapter_model.safetensors", safetensors({**made, **(more or {})}))
        return self.path(name)

    def merged(self, name, pairs, scale):
        """The base with the adapter in its weights. scale: by module"""
        made = dict(self.tensors)
        for module, (a, b) in pairs.items():
            at = f"model.layers.0.{module}.weight"
            _, (rows, cols), data = made[at]
            w = floats(data)
            for r in range(rows):
                for c in range(cols):
                    w[r * cols + c] += scale(module) * sum(
                        b[r][k] * a[k][c] for k in range(len(a)))
            made[at] = ("F32", (rows, cols), struct.pack(f"<{len(w)}f", *w))
        return self.imported(name, made)

    def nll(self, model, *args):
        return self.json("ppl", model, "-f", "-", "--ctx=64", *args, stdin=TEXT)["nll"]

    def test_like_merged(self):
        """Also in the order of the rows of q and k, which is another one in the GGUF file."""
        plain = self.nll(self.base)
        for name, ranks, scale, changes in [
            ("plain", (), lambda m: 2, {}),
            ("rslora", (), lambda m: 6 / math.sqrt(3), {"use_rslora": True}),
            ("patterns", {"mlp.up_proj": 5}.items(),
             lambda m: {"self_attn.q_proj": 9 / 3, "mlp.up_proj": 6 / 5}.get(m, 2),
             {"rank_pattern": {"up_proj": 5}, "alpha_pattern": {"q_proj": 9, "^q_proj": 1}}),
            ("whole", (), lambda m: 1 if m == "self_attn.v_proj" else 2,
             {"alpha_pattern": {"^model.layers.0.self_attn.v_proj": 3, "roj": 1}}),
        ]:
            with self.subTest(name):
                pairs = self.pairs(ranks)
                out = self.path(name + ".lora.gguf")
                got = self.json("import", self.adapter(name, pairs, **changes), "--base", self.base,
                                "-o", out, "--json")
                self.assertEqual(got["tensors"], 2 * len(MATRICES))
                adapted = self.nll(self.base, "--lora", out)
                merged = self.nll(self.merged(name + "-merged", pairs, scale))
                self.assertAlmostEqual(adapted, merged, delta=2e-5)
                self.assertGreater(abs(adapted - plain), 1e-2)

    def test_other_orders(self):
        for name, config, layer, matrices, others, turned in [
            ("neox", NEOX, "gpt_neox.layers.0.", NEOX_LAYER, NEOX_OTHERS, False),
            ("gpt2", GPT2, "transformer.h.0.", GPT2_LAYER, GPT2_OTHERS, True),
        ]:
            with self.subTest(name):
                draw, plain, merged, adapter = random.Random(3), {}, {}, {}

                def numbers(n, size=.3):
                    return [draw.uniform(-size, size) for _ in range(n)]

                def put(made, at, shape, rows):
                    made[at] = ("F32", shape, struct.pack(f"<{len(rows)}f", *rows))

                for at, shape in others.items():
                    for made in (plain, merged):
                        put(made, at + ".weight", shape, random.Random(at).choices(
                            (-1, .5, 1), k=hf_folder.numbers(shape)))
                        if len(shape) == 1:
                            put(made, at + ".bias", shape, [.1] * shape[0])
                for at, (rows, cols) in matrices.items():
                    a, b, w, bias = (numbers(n) for n in (2 * cols, 2 * rows, rows * cols, rows))
                    with_lora = [w[r * cols + c] +
                                 2 * (b[2 * r] * a[c] + b[2 * r + 1] * a[cols + c])
                                 for r in range(rows) for c in range(cols)]
                    for made, x in ((plain, w), (merged, with_lora)):
                        if turned:
                            x = [x[r * cols + c] for c in range(cols) for r in range(rows)]
                        put(made, layer + at + ".weight", (cols, rows) if turned else (rows, cols),
                            x)
                        put(made, layer + at + ".bias", (rows,), bias)
                    module = "base_model.model." + layer + at
                    put(adapter, module + ".lora_A.weight", (2, cols), a)
                    put(adapter, module + ".lora_B.weight", (rows, 2), b)
                base = self.imported(name, plain, config)
                lora = self.path(name + ".lora.gguf")
                self.tuffet("import", self.adapter(name + "-lora", {}, adapter, r=2, lora_alpha=4,
                                                   fan_in_fan_out=turned), "--base", base,
                            "-o", lora)
                got = self.nll(base, "--lora", lora)
                self.assertAlmostEqual(
                    got, self.nll(self.imported(name + "-merged", merged, config)), delta=2e-5)
                self.assertGreater(abs(got - self.nll(base)), 1e-2)

    def test_merged_by_quantize(self):
        """As the weights with the adapter in them, also of a folder, and with several adapters."""
        pairs = self.pairs()
        lora = self.path("merge.lora.gguf")
        self.tuffet("import", self.adapter("merge", pairs), "--base", self.base, "-o", lora)
        want = self.quantized(self.merged("want", pairs, lambda m: 3))
        plain = self.nll(self.quantized(self.base))
        for model, loras in [(self.base, [lora + ":1.5"]), (self.path("base"), [lora + ":1.5"]),
                             (self.base, [lora, lora + ":0.5", lora + ":0"])]:
            args = [arg for one in loras for arg in ("--lora", one)]
            got = self.quantized(model, *args)
            self.assertEqual(os.path.getsize(got), os.path.getsize(want))
            self.assertAlmostEqual(self.nll(got), self.nll(want), delta=1e-4)
            self.assertGreater(abs(self.nll(got) - plain), 1e-2)
        self.assertEqual([name for name in os.listdir(self.folder.name) if ".tmp" in name], [])

    def quantized(self, model, *args):
        out = self.path(f"{len(os.listdir(self.folder.name))}.w8a8.gguf")
        self.json("quantize", model, "-o", out, "--calib", self.write("text", TEXT),
                  "--dynamic=none", "-t1", "--json", *args)
        return out

    def test_types(self):
        folder = self.adapter("types", self.pairs())
        want = None
        for kind, size in [("keep", 2), ("f32", 4), ("f16", 2)]:
            out = self.path(kind + ".gguf")
            self.tuffet("import", folder, "--base", self.base, "-o", out, "--type", kind)
            numbers = sum(3 * sum(LAYER[module]) for module in MATRICES)
            self.assertLess(abs(os.path.getsize(out) - size * numbers), 3000)
            nll = self.nll(self.base, "--lora", out)
            want = want or nll
            self.assertAlmostEqual(nll, want, delta=0 if kind == "f32" else 1e-3)

    def refused(self, folder, why, *args):
        line = self.fails("import", folder, "--base", self.base, "-o", self.path("no.gguf"), *args)
        self.assertIn(why, line)
        self.assertFalse(os.path.exists(self.path("no.gguf")))

    def test_members_of_the_config(self):
        pairs = self.pairs(modules=["self_attn.q_proj"])
        for changes, why in [
            ({"use_dora": True}, '"use_dora" is not supported'),
            ({"modules_to_save": ["lm_head"]}, '"modules_to_save" is not supported'),
            ({"lora_bias": True}, '"lora_bias" is not supported'),
            ({"trainable_token_indices": [3]}, '"trainable_token_indices" is not supported'),
            ({"layer_replication": [[0, 1]]}, '"layer_replication" is not supported'),
            ({"an_idea_of_2030": 1}, '"an_idea_of_2030" is not supported'),
            ({" task_type": 1}, '" task_type" is not supported'),
            ({"": 1}, '"" is not supported'),
            ({"peft_type": "LOHA"}, '"peft_type" is not "LORA"'),
            ({"peft_type": None}, '"peft_type" is not "LORA"'),
            ({"bias": "all"}, '"bias" is not "none"'),
            ({"init_lora_weights": "pissa_niter_4"}, '"init_lora_weights" is one that changes'),
            ({"alpha_pattern": {"q_.*": 3}}, '"alpha_pattern" has a regular expression'),
            ({"alpha_pattern": {"q_proj": 0}}, '"alpha_pattern" has an alpha'),
            ({"lora_alpha": 0}, '"lora_alpha" is not a number above 0'),
            ({"lora_alpha": "6"}, '"lora_alpha" is not a number above 0'),
            ({"r": 2.5}, '"r" is not a whole number'),
            ({"r": 4}, "has another rank than"),
            ({"use_rslora": 1}, '"use_rslora" is not true or false'),
        ]:
            self.refused(self.adapter("member", pairs, **changes), why)
        for changes in [{"use_dora": None}, {"layers_to_transform": [0]}, {"lora_bias": False},
                        {"an_idea_of_2030": {}}, {"init_lora_weights": "gaussian"}]:
            self.tuffet("import", self.adapter("idle", pairs, **changes), "--base", self.base,
                        "-o", self.path("idle.gguf"))
        self.tuffet("import", self.adapter("ignored", pairs, an_idea_of_2030=1), "--base",
                    self.base, "-o", self.path("idle.gguf"), "--ignore-key", "an_idea_of_2030")

    def test_tensors(self):
        pairs = self.pairs(modules=["self_attn.q_proj"])
        q = "base_model.model.model.layers.0.self_attn.q_proj."
        vector, matrix = ("F32", (32,), bytes(128)), ("F32", (3, 32), bytes(384))
        nan = ("F32", (3, 32), struct.pack("<f", math.nan) + bytes(380))
        for more, why in [
            ({q + "lora_magnitude_vector": vector}, "lora_magnitude_vector\" is not the lora_A"),
            ({"base_model.model.lm_head.weight": vector}, "lm_head.weight\" is not the lora_A"),
            ({q + "lora_B.bias": vector}, "lora_B.bias\" is not the lora_A"),
            ({q.replace("q_", "k_") + "lora_A.weight": matrix}, "has no lora_B beside it"),
            ({q.replace("q_", "k_") + "lora_B.weight": matrix}, "has no lora_A beside it"),
            ({q.replace("q_", "x_") + f"lora_{x}.weight": matrix for x in "AB"},
             "is of a module that the base model's architecture does not have"),
            ({q.replace("layers.0", "layers.7") + f"lora_{x}.weight": matrix for x in "AB"},
             "the base model has no matrix blk.7.attn_q.weight"),
            ({f"base_model.model.model.embed_tokens.lora_{x}.weight": matrix for x in "AB"},
             "is of a module for which adapters are not supported"),
            ({q.replace("q_", "k_") + f"lora_{x}.weight": matrix for x in "AB"},
             "is not [16, 3]"),
            ({q + "lora_A.weight": nan}, "has NaN or infinity"),
        ]:
            self.refused(self.adapter("tensor", pairs, more), why)
        self.refused(self.adapter("none", {}), "there are no tensors in it")
        old = {q + f"lora_{x}.default.weight": ("F32", shape, bytes(384))
               for x, shape in (("A", (3, 32)), ("B", (32, 3)))}
        self.tuffet("import", self.adapter("old", {}, old), "--base", self.base,
                    "-o", self.path("old.gguf"))

    def test_use(self):
        folder = self.adapter("use", self.pairs())
        out = self.path("use.gguf")
        self.assertIn("name the GGUF file of its model: --base MODEL",
                      self.fails("import", folder, "-o", out, status=2))
        self.assertIn("is no LoRA adapter of PEFT", self.fails(
            "import", self.path("base"), "--base", self.base, "-o", out, status=2))
        self.assertIn("cannot be read", self.fails(
            "import", folder, "--base", self.path("gone.gguf"), "-o", out))
        self.assertIn("would replace it", self.fails(
            "import", folder, "--base", self.base, "-o", self.base))
        for args in [["run", self.base, "-p", "the"], ["quantize", self.base, "-o", out]]:
            for path in [folder, folder + "/adapter_model.safetensors"]:
                self.assertIn("tuffet import FOLDER --base MODEL -o FILE.gguf makes",
                              self.fails(*args, "--lora", path + ":0.5"))


main()
