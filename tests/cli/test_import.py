"""tuffet import, and quantize on a folder."""
import json
import os
import subprocess

from program import TUFFET, Case, Terminal, main
from support import hf_folder
from support.hf_folder import CONFIG, SHAPES, numbers, tokenizer

TEXT = b"the cat sat on the hat, the rat ate the oat. " * 40


class Import(Case):
    def folder_of(self, name, more=None, rename=None, **changes):
        """A folder with a small llama of random bfloat16, with `more` tensors."""
        rows = changes.get("vocab_size", CONFIG["vocab_size"])
        hf_folder.write(self.path(name), {"config.json": {**CONFIG, **changes}},
                        *hf_folder.safetensors(hf_folder.tensors(rows, more, rename)))
        return self.path(name)

    def imported(self, name, tokenizer, config=None, generation=None, files=None, **changes):
        """The file of a folder with a tokenizer.json, and with `files`."""
        folder = self.folder_of(name, vocab_size=264, **changes)
        contents = {"tokenizer.json": tokenizer, "tokenizer_config.json": config,
                    "generation_config.json": generation, **(files or {})}
        for file, content in contents.items():
            if content is not None:
                self.write(f"{name}/{file}", json.dumps(content).encode())
        self.tuffet("import", folder, "-o", self.path(name + ".gguf"))
        return self.path(name + ".gguf")

    def ids(self, model, text, *options):
        return self.json("tokenize", model, "-p", text, *options)["tokens"]

    def test_json_of_python(self):
        """Infinity and NaN, in members that nothing reads, and outside of strings alone."""
        folder = self.folder_of("python", time_step_limit=[0.0, float("inf"), float("nan")],
                                _name_or_path='a "NaN" of Infinity')
        self.tuffet("import", folder, "-o", self.path("python.gguf"), "--no-tokenizer")
        self.assertEqual(self.json("inspect", self.path("python.gguf"))["name"],
                         'a "NaN" of Infinity')
        folder = self.folder_of("endless", rms_norm_eps=float("inf"))
        self.fails("import", folder, "-o", self.path("endless.gguf"), "--no-tokenizer")

    def test_a_token_of_nul(self):
        made = tokenizer()
        made["model"]["vocab"]["\0\0x"] = 259
        model = self.imported("nul", made)
        text = self.tuffet("tokenize", model, "--decode", "-p", "68 259")
        self.assertIn(b"\0\0x", text)

    def test_chat_templates(self):
        """A template of chat_template.json counts last; all those of a list are in the file."""
        several = [{"name": "default", "template": "of the list"},
                   {"name": "tool_use", "template": "with tools"}]
        for name, config, files, want in [
                ("processor", None, {"chat_template.json": {"chat_template": "of it"}}, "of it"),
                ("both", {"chat_template": "of config"},
                 {"chat_template.json": {"chat_template": "of it"}}, "of config"),
                ("several", {"chat_template": several}, None, "of the list")]:
            model = self.imported(name, tokenizer(), config, files=files)
            self.assertEqual(self.json("inspect", model)["values"]
                             ["tokenizer.chat_template"], want)
        self.assertEqual(self.json("inspect", model)["values"]
                         ["tokenizer.chat_template.tool_use"], "with tools")
        folder = self.folder_of("nameless", vocab_size=264)
        self.write("nameless/tokenizer.json", json.dumps(tokenizer()).encode())
        self.write("nameless/tokenizer_config.json", b'{"chat_template": [{"template": "x"}]}')
        self.assertIn("chat template 0", self.fails("import", folder, "-o", self.path("x")))

    def test_a_tied_model_that_kept_its_head_alone(self):
        plain = self.folder_of("tied")
        kept = self.folder_of("kept", rename={"embed_tokens.weight": "lm_head.weight"})
        untied = self.folder_of("untied", rename={"embed_tokens.weight": "lm_head.weight"},
                                tie_word_embeddings=False)
        for folder in plain, kept:
            self.tuffet("import", folder, "-o", folder + ".gguf", "--no-tokenizer")
        self.assertEqual(self.read(plain + ".gguf"), self.read(kept + ".gguf"))
        self.assertIn('"embed_tokens.weight" is missing',
                      self.fails("import", untied, "-o", self.path("x"), "--no-tokenizer"))

    def test_biases_of_a_llama(self):
        """Each bias that a folder has counts: Granite Code, Bielik."""
        text = self.write("text", b"the cat sat on the hat")
        biases = [[("self_attn.q_proj", 32), ("self_attn.k_proj", 16), ("self_attn.v_proj", 16)],
                  [("self_attn.o_proj", 32)], [("mlp.gate_proj", 48)], [("mlp.up_proj", 48)],
                  [("mlp.down_proj", 32)]]
        losses = set()
        for i, names in enumerate([[], *biases, sum(biases, [])]):
            more = {f"layers.0.{name}.bias": (n,) for name, n in names}
            model = self.imported(f"biases{i}", tokenizer(), more=more)
            losses.add(self.json("ppl", model, "-f", text)["nll"])
        self.assertEqual(len(losses), 7)

    def test_the_file_opens(self):
        """A folder with numbers that tuffet refuses makes no file."""
        out = self.write("there", b"what was there")
        merges = tokenizer()
        merges["model"]["merges"].append("t q")
        for changes, says in [({"rms_norm_eps": -1}, "layer_norm_rms_epsilon is not a positive"),
                              ({"rope_theta": 1e300}, "rope.freq_base is not a positive number"),
                              ({"max_position_embeddings": 2**31 - 1}, "context_length is not an"),
                              ({"rope_scaling": {"type": "linear", "factor": 0}}, "a factor of 0"),
                              ({"vocab_size": 264}, "merge 2 of tokenizer.ggml.merges")]:
            folder = self.folder_of("refused", **changes)
            self.write("refused/tokenizer.json", json.dumps(merges).encode())
            without = [] if "vocab_size" in changes else ["--no-tokenizer"]
            said = self.fails("import", folder, "-o", out, *without)
            self.assertIn(says, said)
            self.assertIn("refused", said)
            self.assertEqual(self.read(out), b"what was there")

    def test_numbers_that_are_none(self):
        """NaN and infinity among the weights, as bfloat16."""
        for number in b"\xc0\x7f", b"\x80\x7f", b"\x80\xff":
            folder = self.folder_of("none")
            weights = os.path.join(folder, "model.safetensors")
            data = self.read(weights)
            self.write("none/model.safetensors", data[:-2] + number)
            for options in [], ["--type=f16"], ["--type=f32"]:
                self.assertIn('NaN or infinity in tensor "model.layers.0.mlp.down_proj.weight"',
                              self.fails("import", folder, "-o", self.path("x"),
                                         "--no-tokenizer", *options))

    def test_long_texts(self):
        """A message about a long text names the file nonetheless."""
        for config in {"hidden_act": "x" * 5000}, {"rope_scaling": {"type": "x" * 5000}}:
            folder = self.folder_of("long", **config)
            said = self.fails("import", folder, "-o", self.path("x"), "--no-tokenizer")
            self.assertIn("long/config.json: ", said)
            self.assertLess(len(said), 400)

    def test_members_of_config(self):
        """What is not read must be known to change nothing."""
        out = self.path("members.gguf")
        refused = [("is_causal", False), ("scale_attn_by_inverse_layer_idx", True), ("new", 1),
                   ("use_sliding_window", True), ("attn_logit_softcapping", 50.0), ("new", [1]),
                   ("layer_types", ["sliding_attention"]), ("residual_multiplier", 0.2)]
        for name, value in refused:
            folder = self.folder_of("members", **{name: value})
            said = self.fails("import", folder, "-o", out, "--no-tokenizer")
            self.assertIn(f'"{name}" is not supported: --ignore-key {name} imports', said)
            self.tuffet("import", folder, "-o", out, "--no-tokenizer", "--ignore-key",
                        "other," + name)
        self.tuffet("import", self.folder_of("members"), "-o", self.path("plain.gguf"),
                    "--no-tokenizer")
        self.assertEqual(self.read(out), self.read(self.path("plain.gguf")))
        taken = {"is_causal": True, "use_sliding_window": False, "sliding_window": 32,
                 "attn_logit_softcapping": None, "layer_types": ["full_attention"],
                 "mlp_only_layers": []}
        of_smollm2 = {"attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
                      "eos_token_id": [1, 2], "hidden_act": "silu", "initializer_range": 0.02,
                      "is_llama_config": True, "mlp_bias": False, "model_type": "llama",
                      "pad_token_id": 2, "pretraining_tp": 1, "rope_interleaved": False,
                      "rope_scaling": None, "rope_theta": 100000, "torch_dtype": "bfloat16",
                      "transformers_version": "4.42.3", "use_cache": True,
                      "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}}
        for more in taken, of_smollm2:
            folder = self.folder_of("members", **more)
            self.tuffet("import", folder, "-o", out, "--no-tokenizer")
        for rope, says in [({"factor": 4.0}, "has a factor, but no type"),
                           ({"rope_type": "linear", "factor": 4.0, "new": 1}, "RoPE's \"new\"")]:
            folder = self.folder_of("members", rope_scaling=rope)
            self.assertIn(says, self.fails("import", folder, "-o", out, "--no-tokenizer"))

    def test_words_of_config(self):
        folder = self.folder_of("words", sliding_window=16, new="a word")
        done = subprocess.run([*TUFFET, "import", folder, "-o", self.path("words.gguf"),
                               "--no-tokenizer"], capture_output=True, check=True)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn('config.json: "sliding_window" is not applied', lines[0])
        self.assertIn('config.json: "new" is not known', lines[1])

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

    def test_a_file_is_no_folder(self):
        weights = os.path.join(self.folder_of("llama"), "model.safetensors")
        self.assertIn("name the folder that it lies in", self.fails("import", weights, "-o",
                                                                    self.path("x"), status=2))

    def test_a_file_survives_a_failure(self):
        out = self.write("old", b"what was there")
        self.fails("import", self.folder_of("wide", hidden_size=64), "-o", out, "--no-tokenizer")
        self.assertEqual(self.read(out), b"what was there")

    def test_the_folder_is_not_written_over(self):
        """A GGUF file may lie there: an earlier run may have made it."""
        folder = self.folder_of("itself")
        before = {name: self.read(os.path.join(folder, name)) for name in os.listdir(folder)}
        link = self.path("link-into-a-folder")
        os.symlink(os.path.join(folder, "model.safetensors"), link)
        for out in [*(os.path.join(folder, name) for name in before), link]:
            for command in [["import"], ["quantize"]]:
                self.assertIn("names a file that is read", self.fails(*command, folder, "-o", out))
        self.assertEqual({name: self.read(os.path.join(folder, name)) for name in before}, before)
        for _ in range(2):
            self.tuffet("import", folder, "-o", os.path.join(folder, "model.gguf"),
                        "--no-tokenizer")

    def test_quantize_needs_a_tokenizer(self):
        folder, out = self.folder_of("llama"), self.path("q.gguf")
        before = sorted(os.listdir(self.path("")))
        self.assertIn(folder + ": ", self.fails("quantize", folder, "-o", out))
        self.assertEqual(sorted(os.listdir(self.path(""))), before)

    def test_quantize_spares_other_files(self):
        """quantize FOLDER imports to a file without a name."""
        folder, out = self.folder_of("spared"), self.path("spared.gguf")
        self.write("spared.gguf.import", b"mine")
        self.assertIn(folder + ": ", self.fails("quantize", folder, "-o", out))
        with open(out + ".import", "rb") as file:
            self.assertEqual(file.read(), b"mine")

    def test_quantize_takes_a_folder(self):
        """The file is that which the imported model gives, and nothing else remains."""
        folder = self.folder_of("whole", vocab_size=264)
        self.write("whole/tokenizer.json", json.dumps(tokenizer()).encode())
        self.write("whole/generation_config.json", b'{"eos_token_id": [258]}')
        made = self.path("made.gguf")
        self.tuffet("import", folder, "-o", made)
        tokens = self.json("tokenize", made, "-p", "the oat")
        self.assertEqual(b"the oat", self.tuffet("tokenize", made, "--decode", "-p",
                                                 " ".join(map(str, tokens["tokens"]))).strip())
        text = self.write("text", TEXT)
        results = []
        for model in folder, made:
            before = set(os.listdir(self.path("")))
            self.json("quantize", model, "-o", self.path("w8a8"), "--calib", text)
            self.assertEqual(set(os.listdir(self.path(""))) - before, {"w8a8"})
            results.append(self.read(self.path("w8a8")))
            os.remove(self.path("w8a8"))
        self.assertEqual(results[0], results[1])

    def test_quantize_says_what_import_says(self):
        """Warnings about members of config.json; and --ignore-key takes the folder without them."""
        folder = self.folder_of("said", vocab_size=264, new="a word", is_causal=False)
        self.write("said/tokenizer.json", json.dumps(tokenizer()).encode())
        args = [folder, "-o", self.path("said.w8a8"), "--calib", self.write("text", TEXT)]
        done = subprocess.run([*TUFFET, "quantize", *args], capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        known, causal = done.stderr.decode().splitlines()
        self.assertIn('config.json: "new" is not known', known)
        self.assertIn("--ignore-key is_causal imports", causal)
        done = subprocess.run([*TUFFET, "quantize", *args, "--ignore-key", "is_causal"],
                              capture_output=True, check=True)
        self.assertIn('config.json: "new" is not known', done.stderr.decode())
        t = Terminal("quantize", *args, "--ignore-key", "is_causal")
        t.wait_for(b" kB of it for a copy of the model, ")
        self.assertEqual(t.end(), 0)


main()
