"""tuffet quantize --gguf, and import --type: plain GGUF files."""
import json
import math
import os
import struct
import subprocess
from xml.etree import ElementTree

from program import Case, TUFFET, main
from support import hf_folder

TEXT = b"hello world, once upon a time and the end. " * 40
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q3_k", "q3_k_m",
         "q4_k", "q4_k_m", "q5_k", "q5_k_m", "q6_k"]


class Gguf(Case):
    def setUp(self):
        self.text = self.write("text", TEXT)
        self.model = self.toy(wide=1, endless=1)

    def made(self, kind, *args, model=None):
        """The report, and the path of the file."""
        out = self.path(f"{kind}.gguf")
        calib = [] if kind in ("f32", "f16", "bf16") else ["--calib", self.text, "--calib-tokens",
                                                           "512"]
        return self.json("quantize", model or self.model, "--gguf", kind, "-o", out, "-t1", *calib,
                         *args), out

    def ids(self, model):
        return json.loads(self.tuffet("run", model, "-p", "hello", "-n", "8", "--temp", "0", "-t1",
                                      "--json").splitlines()[-1])

    def tensors(self, path):
        """The bytes of each tensor."""
        found = self.json("inspect", path, "--tensors")["tensors"]
        with open(path, "rb") as f:
            data = f.read()
        return {t["name"]: data[t["offset"]:t["offset"] + t["bytes"]] for t in found}

    def types(self, path):
        return {t["name"]: t["type"] for t in self.json("inspect", path, "--tensors")["tensors"]}

    def test_all_types(self):
        before = os.path.getsize(self.model)
        for kind in TYPES:
            found, out = self.made(kind)
            self.assertEqual(set(found), {"seconds", "gguf", "tokens", "tensors", "bytes", "types",
                                          "kv_search", "check"})
            self.assertEqual(found["gguf"], kind)
            self.assertEqual(sum(found["types"].values()), found["tensors"])
            base = kind.upper().removesuffix("_M")
            self.assertIn(base, found["types"])
            self.assertLess(os.path.getsize(out), before + 4096)
            self.assertTrue(self.ids(out))
            types = self.types(out)
            self.assertEqual(types["blk.0.attn_q.weight"], base)
            self.assertEqual(types["output_norm.weight"], "F32")
            head = types.get("output.weight", types["token_embd.weight"])
            self.assertEqual(head, base if kind in ("f32", "f16", "bf16", "q8_0") else "Q6_K")
            if kind.endswith("_m"):
                self.assertEqual(types["blk.1.ffn_down.weight"],
                                 "Q4_K" if base == "Q3_K" else "Q6_K")
            os.remove(out)

    def test_floats_of_blocks(self):
        """Codes of 4 bits as floats: 16 bytes hold 32 of them, the first half in the low bits."""
        _, blocks = self.made("q4_0")
        _, floats = self.made("f32", model=blocks)
        name = "blk.0.attn_q.weight"
        codes, want = self.tensors(blocks)[name], []
        for i in range(0, len(codes), 18):
            scale, *pairs = struct.unpack_from("<e16B", codes, i)
            want += [scale * ((c & 15) - 8) for c in pairs] + [scale * ((c >> 4) - 8) for c in pairs]
        self.assertEqual(self.tensors(floats)[name], struct.pack(f"<{len(want)}f", *want))
        self.assertEqual(set(self.types(floats).values()), {"F32"})

    def test_the_same_bytes_on_any_number_of_threads(self):
        """The importance of columns does not depend on threads, and blocks do not."""
        files = []
        for threads in ("1", "2"):
            out = self.path("same" + threads)
            self.tuffet("quantize", self.model, "--gguf", "q4_k_m", "-o", out, "--calib", self.text,
                        "--calib-tokens", "512", "--json", "-t", threads)
            with open(out, "rb") as f:
                files.append(f.read())
        self.assertEqual(files[0], files[1])

    def test_rounding(self):
        """The codes alone differ, of matrices of the layers: the head is rounded to nearest."""
        _, fed = self.made("q4_k_m")
        os.rename(fed, self.path("fed"))
        _, nearest = self.made("q4_k_m", "--rounding", "nearest")
        self.assertEqual(os.path.getsize(self.path("fed")), os.path.getsize(nearest))
        self.assertEqual(self.types(self.path("fed")), self.types(nearest))
        data = [self.tensors(path) for path in (self.path("fed"), nearest)]
        differ = {name for name in data[0] if data[0][name] != data[1][name]}
        self.assertEqual(differ, {name for name, type in self.types(nearest).items()
                                  if name.startswith("blk.") and type[0] == "Q"})
        os.rename(nearest, self.path("nearest"))
        _, eight = self.made("q8_0")
        os.rename(eight, self.path("eight"))
        _, same = self.made("q8_0", "--rounding", "nearest")
        self.assertEqual(self.tensors(self.path("eight")), self.tensors(same))

    def test_rounding_that_changes_nothing(self):
        """gptq is the default, and given by name it is done or refused."""
        out = ["-o", self.path("out"), "--rounding", "gptq"]
        for kind in ("f32", "f16", "bf16", "q8_0", "q6_k"):
            self.assertIn(f"--rounding gptq is for blocks of 3 to 5 bits, and --gguf {kind} makes "
                          "none", self.fails("quantize", self.model, "--gguf", kind, *out,
                                             status=2))
        mute = self.toy(vocab="")
        self.assertIn("--rounding gptq needs a text: ",
                      self.fails("quantize", mute, "--gguf", "q4_0", *out, status=2))
        _, coded = self.made("q4_0")
        self.assertIn("--rounding gptq: no matrix of ",
                      self.fails("quantize", coded, "--gguf", "q4_0", *out, status=2))
        self.assertFalse(os.path.exists(self.path("out")))
        _, default = self.made("q4_k_m")
        default = self.tensors(default)
        self.assertEqual(self.tensors(self.made("q4_k_m", "--rounding", "gptq")[1]), default)

    def test_floats_need_no_text(self):
        for option in ["--calib", self.text], ["--calib-window", "64"]:
            self.assertIn(f"{option[0]}: --gguf f16 makes no blocks",
                          self.fails("quantize", self.model, "--gguf", "f16", "-o",
                                     self.path("out"), *option, status=2))

    def test_weights_that_are_no_numbers(self):
        """No input is measured after them, so nothing is rounded with feedback: the tensor is
        named."""
        found = self.json("inspect", self.model, "--tensors")["tensors"]
        tensor = next(t for t in found if t["name"] == "blk.0.attn_q.weight")
        self.assertEqual(tensor["type"], "F32")
        with open(self.model, "r+b") as f:
            f.seek(tensor["offset"])
            f.write(struct.pack("<f", math.nan))
        self.assertIn("blk.0.attn_q.weight has NaN",
                      self.fails("quantize", self.model, "--gguf", "q4_0", "-o", self.path("out"),
                                 "--calib", self.text, "-t1"))

    def test_codes_of_fewer_bits_stay(self):
        _, small = self.made("q4_0")
        self.made("q8_0", model=small)
        self.assertEqual(self.types(self.path("q8_0.gguf")), self.types(small))
        _, large = self.made("q8_0")
        found, _ = self.made("q5_0", model=large)
        self.assertNotIn("Q8_0", found["types"])

    def test_refusals(self):
        out = ["-o", self.path("out")]
        self.assertIn("does not write q2_k; it writes f32, f16,",
                      self.fails("quantize", self.model, "--gguf", "q2_k", *out, status=2))
        for option in (["--bits", "4"], ["--dynamic", "none"], ["--tune"],
                       ["--rotate", "none"], ["--intact", "bos"], ["--intact-system", "Be brief."],
                       ["--cushion", "auto"], ["--prefix-bits", "8"], ["--cushion-max", "3"],
                       ["--tune-rate", "1"], ["--rounding", "awq"], ["--kv", "skvq"],
                       ["--kv", "tuffet"], ["--kv-search", "2"]):
            self.assertIn(option[0], self.fails("quantize", self.model, "--gguf", "q8_0", *out,
                                                *option, status=2))
        made = self.path("w8a8")
        self.tuffet("quantize", self.model, "-o", made, "--calib", self.text, "--dynamic=none",
                    "--json", "-t1")
        self.assertIn("quantized already", self.fails("quantize", made, "--gguf", "q8_0", *out))
        packed = self.path("packed")
        self.tuffet("pack", self.made("q8_0")[1], "-o", packed)
        self.assertIn("packed already", self.fails("quantize", packed, "--gguf", "q4_0", *out))
        self.assertFalse(os.path.exists(self.path("out")))

    def test_cache(self):
        """Tables for the cache are keys, which packing keeps, and inspect plans a session."""
        calib = ["--calib", self.text, "--calib-tokens", "512", "--calib-window", "64"]
        bare, out, packed = self.made("q4_0")[1], self.path("kept"), self.path("packed")
        found = self.json("quantize", bare, "--gguf", "keep", "-o", out, "-t1", *calib,
                          "--kv", "fisher:window=16", "--kv-search", "3")
        self.assertEqual((found["gguf"], found["tokens"] % 64), ("keep", 0))
        kv = found["kv_search"]["kv"]
        self.assertRegex(kv, r"^fisher:window=16,bits=\d")
        self.assertEqual(self.tensors(out), self.tensors(bare))
        self.tuffet("pack", out, "-o", packed)
        values = self.json("inspect", bare, "--values")["values"]
        for path in (out, packed):
            facts = self.json("inspect", path, "--values")
            self.assertEqual(facts["values"]["tuffet.kv"], kv)
            self.assertEqual(facts["values"]["general.file_type"], values["general.file_type"])
            self.assertEqual({key for key in facts["values"] if ".fisher." in key},
                             {"tuffet.kv.fisher.keys", "tuffet.kv.fisher.values"})
            self.assertGreater(facts["memory"]["session"], 0)
            self.assertLess(facts["memory"]["kv_per_token"], self.json(
                "inspect", path, "--kv", "i8")["memory"]["kv_per_token"])
            bits = facts["memory"]["fisher"]
            self.assertEqual((bits["bits"], bits["layers"]), ([0, 1, 2, 3, 4, 8], [0, 1]))
            for shares in bits["keys"] + bits["values"]:
                self.assertAlmostEqual(sum(shares), 1, places=4)
            self.assertTrue(self.ids(path))
        self.tuffet("inspect", out, "--svg", self.path("drawn"))
        svg = ElementTree.fromstring(self.read(self.path("drawn-bits.svg")))
        texts = [(t.text or "").strip() for t in svg.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts[0], f"Bits of channels in kept, {kv}")
        for how, why in ([], "with --kv fisher"), (["--kv", "fisher"], "not calibrated for"):
            self.assertIn(why, self.fails("inspect", bare, "--svg", self.path("x"), *how))
        self.assertFalse(os.path.exists(self.path("x-bits.svg")))
        again, other = self.path("again"), self.path("other")
        self.json("quantize", out, "--gguf", "keep", "-o", again, "-t1")
        self.assertEqual(self.json("inspect", again, "--values")["values"],
                         self.json("inspect", out, "--values")["values"])
        self.json("quantize", out, "--gguf", "keep", "-o", other, "-t1", "--kv", "kivi")
        facts = self.json("inspect", other, "--values")
        self.assertEqual(facts["values"]["tuffet.kv"], "kivi")
        self.assertIn("tuffet.kv.fisher.keys", facts["values"])
        self.assertIn("are not kept: give --kv", subprocess.run(
            [*TUFFET, "quantize", out, "--gguf", "f16", "-o", other, "-t1"],
            capture_output=True, text=True).stderr)
        mute = self.toy(vocab="")
        self.assertIn("no tokenizer", self.fails("quantize", mute, "--gguf", "keep", "-o", out,
                                                 "--kv", "fisher"))
        self.assertIn("quantize --kv fisher --gguf keep",
                      self.fails("run", bare, "-p", "hello", "--kv", "fisher"))

    def test_folder(self):
        folder = self.path("folder")
        hf_folder.write(folder, {"config.json": {**hf_folder.CONFIG, "vocab_size": 264},
                                 "tokenizer.json": hf_folder.tokenizer()},
                        *hf_folder.safetensors(hf_folder.tensors(264, None, None)))
        out, again = self.path("blocks.gguf"), self.path("again.gguf")
        found = self.json("import", folder, "-o", out, "--type", "q8_0")
        self.assertIn("Q8_0", found["types"])
        self.json("quantize", folder, "-o", again, "--gguf", "q8_0")
        with open(out, "rb") as a, open(again, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertTrue(self.ids(out))
        self.assertIn("--no-tokenizer", self.fails("import", folder, "-o", out, "--type", "q8_0",
                                                   "--no-tokenizer", status=2))


if __name__ == "__main__":
    main()
