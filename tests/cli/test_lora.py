"""--lora of run, chat and ppl"""
import random
import struct

from program import Case, main

TEXT = b"hello world, once upon a time " * 40


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


class Lora(Case):
    def adapter(self, model, name, rank=3, alpha=6, size=1.0):
        """The path of a random adapter of the matrices of attention and feed-forward."""
        values = [("general.architecture", "llama"), ("general.type", "adapter"),
                  ("adapter.type", "lora")]
        tensors, draw = [], random.Random(name)
        for t in self.json("inspect", model)["tensors"]:
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
        return self.write(name, head + bytes(-len(head) % 32) + data)

    def nll(self, model, *args):
        return self.json("ppl", model, "-f", "-", "--ctx=64", *args, stdin=TEXT)["nll"]

    def test_scales(self):
        for settings in [{}, {"type": "q8_0"}]:
            model = self.toy(**settings)
            lora = self.adapter(model, "one.gguf")
            plain, once = self.nll(model), self.nll(model, "--lora", lora)
            self.assertNotAlmostEqual(plain, once, delta=1e-3)
            self.assertEqual(self.nll(model, "--lora", lora + ":0"), plain)
            self.assertEqual(self.nll(model, "--lora", lora + ":1"), once)
            halves = self.nll(model, "--lora", lora + ":0.5", "--lora", lora + ":.5")
            self.assertAlmostEqual(halves, once, delta=1e-2)
            for threads in ["1", "3"]:
                self.assertEqual(self.nll(model, "--lora", lora, "-t", threads), once)

    def test_run_and_its_prompt_cache(self):
        model = self.toy(endless=1)
        lora, cache = self.adapter(model, "run.gguf"), self.path("prompt")
        args = ["run", model, "-p", "hello", "-n", "20", "--temp", "0"]
        plain, adapted = self.json(*args), self.json(*args, "--lora", lora)
        self.assertNotEqual(plain["text"], adapted["text"])
        self.assertEqual(self.json(*args, "--lora", lora, "--prompt-cache", cache)["text"],
                         adapted["text"])
        self.assertGreater(self.json(*args, "--lora", lora, "--prompt-cache", cache)
                           ["cached_tokens"], 0)

    def test_refusals(self):
        model = self.toy()
        lora = self.adapter(model, "refused.gguf")
        gpt2 = self.toy(arch="gpt2")
        for args, why in [
            ([self.w8a8(), "--lora", lora], "merge the adapter with the float model"),
            ([model, "--lora", model], "not an adapter"),
            ([model, "--lora", self.path("gone.gguf")], "gone.gguf: cannot be read"),
            ([gpt2, "--lora", lora], "another architecture than the model's, gpt2"),
        ]:
            for command in [["run", "-p", "hello"], ["ppl", "-f", self.write("text", TEXT)]]:
                line = self.fails(command[0], *args, *command[1:])
                self.assertTrue(line.startswith("tuffet: --lora: ") and why in line, line)
        self.assertIn("the adapter with --lora", self.fails("run", lora))


main()
