"""tuffet inspect"""
import os
import re
import struct
import zlib

from program import Case, main


class Inspect(Case):
    def test_json(self):
        toy = self.toy(type="q8_0", template="<|im_start|>")
        facts = self.json("inspect", toy)
        for key, want in {"file": toy, "format": "gguf", "version": 3,
                          "bytes": os.path.getsize(toy), "name": "toy", "architecture": "llama",
                          "runs": True, "why_not": None, "context": 256, "width": 32, "layers": 2,
                          "heads": 4, "kv_heads": 2, "head": 8, "feed_forward": 64,
                          "chat_template": "runs"}.items():
            self.assertEqual(facts[key], want, key)
        self.assertEqual(facts["tokenizer"], {"model": "llama", "tokens": 420, "bos": 1, "eos": 2})
        tensors = facts["tensors"]
        self.assertEqual(sum(t["bytes"] for t in tensors),
                         sum(t["bytes"] for t in facts["types"].values()))
        self.assertEqual(len(tensors), sum(t["tensors"] for t in facts["types"].values()))
        self.assertEqual(facts["parameters"], sum(t["shape"][0] * (t["shape"] + [1])[1]
                                                  for t in tensors))
        self.assertEqual(next(t for t in tensors if t["name"] == "blk.1.ffn_down.weight")["shape"],
                         [64, 32])
        self.assertEqual(facts["values"]["llama.block_count"], 2)
        self.assertEqual(len(facts["values"]["tokenizer.ggml.tokens"]), 420)
        # i8: 16 bytes of keys, their scale and their sum; 16 of values, their scale and a part of
        # the 16 sums of 256 slots
        self.assertEqual(facts["memory"]["kv_per_token"], 2 * 2 * (16 + 4 + 4 + 16 + 4 + 1 / 4))

    def test_memory_depends_on_the_options(self):
        def memory(*args):
            return self.json("inspect", self.toy(type="q8_0"), *args)["memory"]
        stored, f32, f16 = memory(), memory("--weights=f32"), memory("--weights=f16")
        facts = self.json("inspect", self.toy(type="q8_0"))
        embedding = next(t for t in facts["tensors"] if t["name"] == "token_embd.weight")
        # the embedding is read by rows
        expanded = facts["types"]["Q8_0"]["bytes"] - embedding["bytes"]
        # 34 bytes hold 32 numbers
        self.assertEqual(f32["weights"] - f16["weights"], expanded // 34 * 32 * 2)
        # codes are held as they are, with rows padded to multiples of 16
        self.assertLess(stored["weights"], 1.3 * expanded)
        token = {kv: memory(f"--kv={kv}")["kv_per_token"] for kv in ("f32", "f16", "i8")}
        self.assertEqual(token, {"f32": 2 * token["f16"], "f16": 2 * 2 * 8 * 2 * 2,
                                 "i8": stored["kv_per_token"]})
        self.assertEqual(memory("--ctx=100")["context"], 100)
        self.assertLess(memory("--ctx=100")["session"], stored["session"])
        self.assertIsNone(memory("--ctx=257")["session"])
        self.assertIn(b"a session of 257 tokens is not possible",
                      self.tuffet("inspect", self.toy(), "--ctx=257"))

    def test_memory_of_windows(self):
        """A longer session has more of the layer without a window alone."""
        toy = self.toy(arch="gemma2", ctx=4096)
        memory = [self.json("inspect", toy, "--kv=f16", f"-c{n}")["memory"] for n in (2048, 4096)]
        token = 2 * 2 * 8 * 2  # keys and values of two heads in f16
        self.assertEqual([(m["windows"], m["kv_per_token"]) for m in memory], 2 * [(1, token)])
        more = memory[1]["session"] - memory[0]["session"]
        self.assertGreaterEqual(more, 2048 * (token + 4))
        self.assertLess(more, 2048 * (token + 4) + 4096)
        self.assertIn(b"f16, 64 bytes a token; 1 of 2 layers have windows, in floats\n",
                      self.tuffet("inspect", toy, "--kv=f16"))

    def test_windows_of_layers_that_share(self):
        """Three of its six layers have no cache of their own, and count in neither number."""
        toy = self.toy(arch="gemma4")
        self.assertIn(b"; 2 of 3 layers have windows, in floats\n", self.tuffet("inspect", toy))
        facts = self.json("inspect", toy)
        self.assertEqual((facts["layers"], facts["memory"]["windows"]), (6, 2))

    def test_lists(self):
        toy = self.toy()
        facts = self.json("inspect", toy)
        tensors = self.tuffet("inspect", toy, "--tensors").decode().splitlines()[1:]
        self.assertEqual([line.split()[-1] for line in tensors],
                         [t["name"] for t in facts["tensors"]])
        self.assertEqual([int(line.split()[-2]) for line in tensors],
                         [t["offset"] for t in facts["tensors"]])
        values = self.tuffet("inspect", toy, "--values").decode().splitlines()
        self.assertEqual([line.split()[1] for line in values], list(facts["values"]))

    def test_a_model_that_cannot_run(self):
        data = self.read(self.toy())
        other = self.write("other", data.replace(b"llama", b"b\x1b\"rt", 1))
        facts = self.json("inspect", other)
        self.assertEqual((facts["runs"], facts["architecture"], facts["memory"]),
                         (False, 'b\x1b"rt', None))
        self.assertIn('"b?"rt" is not supported', facts["why_not"])
        text = self.tuffet("inspect", other).decode()
        self.assertRegex(text, r'\narchitecture +b\\x1b"rt\n')
        self.assertRegex(text, r"\nruns +no: .* is not supported\n$")
        odd = self.json("inspect", self.write("odd", data.replace(b"tokenizer.ggml.model",
                                                                  b"tokenizer.ggml.medal", 1)))
        self.assertIsNone(odd["tokenizer"])

    def checked(self, checksum, kind=4):
        """A model with a checksum. The header grows by 64 bytes, so that the data stays aligned."""
        toy = self.toy()
        data, start = self.read(toy), min(t["offset"] for t in self.json("inspect", toy)["tensors"])
        if checksum is None:
            checksum = zlib.crc32(data[start:])
        values = struct.pack("<Q15sII", 15, b"tuffet.checksum", kind,
                             checksum) + struct.pack("<Q20sI?", 20, b"0123456789" * 2, 7, True)
        tensors, count = struct.unpack_from("<QQ", data, 8)
        return data[:8] + struct.pack("<QQ", tensors, count + 2) + values + data[24:]

    def test_verify(self):
        data = self.checked(None)
        whole = self.write("whole", data)
        self.assertIs(self.json("inspect", whole, "--verify")["verified"], True)
        self.assertNotIn("verified", self.json("inspect", whole))
        self.assertRegex(self.tuffet("inspect", whole, "--verify").decode(),
                         r"\nchecksum +correct\n")
        self.assertIn("the file has no checksum", self.fails("inspect", self.toy(), "--verify"))
        self.assertIn("is not a 32-bit number", self.fails("inspect",
                                                           self.write("odd", self.checked(0, 6)),
                                                           "--verify"))
        for name, damaged in {"last": data[:-1] + bytes([data[-1] ^ 1]), "longer": data + b"0",
                              "wrong": self.checked(1)}.items():
            path = self.write(name, damaged)
            self.assertRegex(self.fails("inspect", path, "--verify"),
                             r": the file is damaged: the checksum of its data is \w{8}, but "
                             r"should be \w{8}$")
            self.tuffet("inspect", path)

    def test_text_output(self):
        text = self.tuffet("inspect", self.toy(template="{{ morse }}")).decode()
        lines = dict(re.match(r"(\w+(?: \w+)?)  +(.*)",
                              line).groups() for line in text.splitlines())
        self.assertEqual(list(lines), ["file", "format", "name", "architecture", "dimensions",
                                       "context", "tensors", "parameters", "KV cache", "memory",
                                       "tokenizer", "chat template", "runs"])
        self.assertEqual((lines["chat template"], lines["runs"]),
                         ("runs; drops messages of: user, system, tool", "yes"))
        self.assertEqual(self.json("inspect", self.toy(template="{% morse %}"))["chat_template"],
                         "chat template: line 1: the tag {% morse %} is not supported here")

    def test_what_a_template_drops(self):
        each = "{%% for m in messages %%}%s{%% endfor %%}"
        for body, drops in [("{{ m.content }}", []),
                            ("{{ m.content if m.role != 'tool' }}", ["tool"]),
                            ("{% for p in m.content %}{{ p.text }}{% endfor %}", []),
                            ("{% if m.role != 'user' %}{{ raise_exception('no') }}{% endif %}"
                             "{{ m.content }}", ["system", "tool"])]:
            facts = self.json("inspect", self.toy(template=each % body))
            self.assertEqual((facts["chat_template"], facts["chat_template_drops"]),
                             ("runs", drops))

    def test_the_template_named_tool_use(self):
        """With one, it has the results of tools, and the other template need not."""
        each = "{%% for m in messages %%}%s{%% endfor %%}"
        says, deaf = each % "{{ m.content }}", each % "{{ m.content if m.role != 'tool' }}"
        unknown = "chat template: line 1: the tag {% morse %} is not supported here"
        for template, tools, runs, drops in [
                (deaf, says, "runs", []), (says, deaf, "runs", ["tool"]),
                (deaf, "{% morse %}", unknown, []), (deaf, None, None, ["tool"])]:
            toy = self.toy(template=template, **({"tool_template": tools} if tools else {}))
            facts = self.json("inspect", toy)
            self.assertEqual((facts["chat_template"], facts["chat_template_tool_use"],
                              facts["chat_template_drops"]), ("runs", runs, drops))
            shown = re.findall(r"(?m)^with tools +(.*)$", self.tuffet("inspect", toy).decode())
            self.assertEqual(shown, [runs] if runs else [])


main()
