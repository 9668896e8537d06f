"""tuffet pack, and the other commands on its result."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from program import TUFFET, WRAPPER, Case, interrupt, main, opened, wait_until

TEXT = b"hello world, once upon a time and the end. " * 45


def string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def large(path, tokens):
    """A llama with one layer whose embedding has many rows, all zero, in a file with holes."""
    shapes = {"token_embd": (32, tokens), "output_norm": (32,), "blk.0.attn_norm": (32,),
              "blk.0.ffn_norm": (32,), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (32, 32),
              "blk.0.attn_v": (32, 32), "blk.0.attn_output": (32, 32), "blk.0.ffn_gate": (32, 32),
              "blk.0.ffn_up": (32, 32), "blk.0.ffn_down": (32, 32)}
    numbers = {"context_length": 64, "embedding_length": 32, "block_count": 1,
               "feed_forward_length": 32, "attention.head_count": 2}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(numbers) + 2)
    head += string("general.architecture") + struct.pack("<I", 8) + string("llama")
    head += string("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)
    for key, value in numbers.items():
        head += string("llama." + key) + struct.pack("<II", 4, value)
    at = 0
    for name, shape in shapes.items():
        q8_0 = len(shape) == 2
        head += string(name + ".weight") + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *shape, 8 if q8_0 else 0, at)
        at += (34 * shape[1] if q8_0 else 128) + 31 & ~31
    with open(path, "wb") as f:
        f.write(head)
        f.truncate((len(head) + 31 & ~31) + at)


class Pack(Case):
    def packed(self, out="out", **settings):
        self.assertEqual(self.tuffet("pack", self.toy(**settings), "-o", self.path(out)), b"")
        return self.path(out)

    def test_the_output_is_not_the_input(self):
        """Under its own name, through a symbolic link, and as another name of the file."""
        whole = self.read(self.toy(type="q8_0"))
        floats = self.write("floats", self.read(self.toy()))
        text = self.write("text", TEXT)
        for command, path in [("pack", self.write("input", whole)), ("quantize", floats)]:
            before = self.read(path)
            for other, link in [("symbolic", os.symlink), ("hard", os.link)]:
                link(path, self.path(f"{other}-{command}"))
            for out in [path, f"{self.folder.name}/../{os.path.basename(self.folder.name)}/"
                              f"{os.path.basename(path)}",
                        self.path(f"symbolic-{command}"), self.path(f"hard-{command}")]:
                calib = ["--calib", text] if command == "quantize" else []
                self.assertIn("names a file that is read", self.fails(command, path, "-o", out,
                                                                      *calib))
                self.assertEqual(self.read(path), before)
        self.assertIn("names a file that is read", self.fails("quantize", floats, "-o", text,
                                                              "--calib", text))
        self.assertEqual(self.read(text), TEXT)

    def test_json(self):
        made = self.json("pack", self.toy(type="q8_0"), "-o", self.path("j"), "-t2")
        self.assertEqual(set(made), {"seconds", "tensors", "packed", "bytes"})
        facts = self.json("inspect", self.path("j"), "--verify")
        self.assertEqual(made["tensors"], len(facts["tensors"]))
        self.assertEqual(made["bytes"], sum(t["bytes"] for t in facts["tensors"]))
        self.assertEqual(facts["packed"], {"Q8_0": made["packed"]})
        self.assertIsNone(self.json("inspect", self.toy(type="q8_0"))["packed"])

    def test_the_other_commands_take_it(self):
        text = self.write("text", TEXT)
        for settings in [{}, {"tied": 1}, {"arch": "gpt2", "vocab": "gpt2"},
                         {"arch": "qwen2", "tied": 1}, {"arch": "qwen3"}]:
            settings = {"type": "q8_0", "endless": 1, **settings}
            toy, model = self.toy(**settings), self.packed(**settings)
            for args in [["-t1"], ["-t3"], ["-t1", "--cpu=c"], ["-t1", "--kv=kivi:group=16"]]:
                args = ["-phello world", "-s3", "-n30", *args]
                self.assertEqual(self.tuffet("run", model, *args), self.tuffet("run", toy, *args))
            args = ["-f", text, "--ctx=64", "-t1"]
            self.assertEqual(self.json("ppl", model, *args)["ppl"],
                             self.json("ppl", toy, *args)["ppl"])
            args = ["-phello world"]
            self.assertEqual(self.tuffet("tokenize", model, *args),
                             self.tuffet("tokenize", toy, *args))
        self.tuffet("inspect", model, "--activations", text)

    def test_inspect(self):
        model = self.packed(type="q8_0")
        facts, toy = self.json("inspect", model), self.json("inspect", self.toy(type="q8_0"))
        self.assertLess(facts["memory"]["weights"], 12288)  # no matrix
        self.assertLess(8192, toy["memory"]["weights"])
        self.assertEqual((facts["parameters"], facts["runs"], facts["w8a8"]),
                         (toy["parameters"], True, None))
        self.assertEqual(facts["values"]["tuffet.packed"], 1)
        for key, value in toy["values"].items():
            self.assertEqual(facts["values"][key], value)
        self.assertRegex(self.tuffet("inspect", model).decode(), r"\nweights +packed: 15 Q8_0\n")

    def test_what_cannot_be_packed(self):
        model, text, out = self.packed(type="q8_0"), self.write("text", TEXT), self.path("none")
        floats, w8a8 = self.toy(), self.path("w8a8")
        self.json("quantize", floats, "-o", w8a8, "--calib", text)
        for path, why in [(floats, "has no quantized matrices: there is nothing to pack"),
                          (w8a8, "is a W8A8 model, which runs as it is: there is nothing to pack"),
                          (model, "its weights are packed already: take the file"),
                          (text, "neither a GGUF file"), ("no such file", "No such file")]:
            line = self.fails("pack", path, "-o", out)
            self.assertTrue(line.startswith(f"tuffet: {path}: ") and why in line, line)
        self.assertIn("its weights are packed already: take the file that it was packed from",
                      self.fails("quantize", model, "-o", out, "--calib", text))
        for weights in ["f32", "f16", "bf16"]:
            self.assertIn("its weights are packed and cannot become floats: open the file that it "
                          "was packed from",
                          self.fails("run", model, "-phello", f"--weights={weights}"))
        self.assertFalse(os.path.exists(out))
        for path in [self.folder.name, "/no such folder/x"]:
            self.assertIn(f"tuffet: {path}: cannot be",
                          self.fails("pack", self.toy(type="q8_0"), "-o", path))

    def test_a_bad_scale(self):
        toy = self.toy(type="q8_0")
        at = next(t["offset"] for t in self.json("inspect", toy)["tensors"]
                  if t["name"] == "blk.1.ffn_up.weight") + 34 * 3
        data = self.read(toy)
        bad = self.write("bad", data[:at] + b"\0\x7c" + data[at + 2:])
        self.assertEqual(self.fails("pack", bad, "-o", self.path("none")),
                         f"tuffet: {bad}: byte {at}: the tensor blk.1.ffn_up.weight has a scale "
                         "of NaN or infinity")
        self.assertFalse(os.path.exists(self.path("none")))

    @unittest.skipIf(WRAPPER, "too slow under emulation")
    @unittest.skipUnless(os.path.isdir("/proc/self/fd"), "no /proc that tells what is written")
    @unittest.skipIf(shutil.disk_usage(tempfile.gettempdir()).free < 1 << 30,
                     "a file of 300 MB wants a larger disk")
    def test_an_interrupt_leaves_nothing(self):
        model, before = self.path("large"), self.write("out-old", b"old")
        large(model, 300_000_000 // 34)
        for out in ["out-new", "out-old"]:
            with subprocess.Popen([*TUFFET, "pack", model, "-o", self.path(out), "-t1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
                wait_until(lambda: any(path != model and os.path.dirname(path) == self.folder.name
                                       for path in opened(p)))
                said = interrupt(p)
            self.assertEqual((p.returncode, *said), (130, b"", b""))
            self.assertEqual([name for name in os.listdir(self.folder.name)
                              if name.startswith("out-")], ["out-old"])
        self.assertEqual(self.read(before), b"old")

    @unittest.skipIf(WRAPPER, "an emulator has memory of its own")
    def test_memory_of_bench(self):
        """The buffer of 256 MiB for the limits is gone when the weights are packed: they do not
        add up."""
        def peak(model):
            with subprocess.Popen([*TUFFET, "bench", model, "-p1", "-n1", "-r1", "-t1", "--json"],
                                  stdout=subprocess.PIPE) as p:
                rows = json.load(p.stdout)["rows"]
                _, status, used = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(p.returncode, 0)
            self.assertEqual([row["what"] for row in rows], ["prefill", "decode"])
            return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

        weights = 100_000_000
        large(self.path("hundred"), weights // 34)
        little = peak(self.packed(type="q8_0"))
        self.assertGreater(little, (256 << 20) * 0.9)
        self.assertLess(peak(self.path("hundred")), little + weights * 0.6)



main()
