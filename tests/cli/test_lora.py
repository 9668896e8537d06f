"""--lora of run, chat, ppl and quantize"""
import os

from adapters import adapter
from program import Case, main

TEXT = b"hello world, once upon a time " * 40


class Lora(Case):
    def nll(self, model, *args):
        return self.json("ppl", model, "-f", "-", "--ctx=64", *args, stdin=TEXT)["nll"]

    def test_scales(self):
        for settings in [{}, {"type": "q8_0"}]:
            model = self.toy(**settings)
            lora = adapter(self, model, "one.gguf")
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
        lora, cache = adapter(self, model, "run.gguf"), self.path("prompt")
        args = ["run", model, "-p", "hello", "-n", "20", "--temp", "0"]
        plain, adapted = self.json(*args), self.json(*args, "--lora", lora)
        self.assertNotEqual(plain["text"], adapted["text"])
        self.assertEqual(self.json(*args, "--lora", lora, "--prompt-cache", cache)["text"],
                         adapted["text"])
        self.assertGreater(self.json(*args, "--lora", lora, "--prompt-cache", cache)
                           ["cached_tokens"], 0)

    def test_refusals(self):
        model = self.toy()
        lora = adapter(self, model, "refused.gguf")
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

    def test_quantize_refuses(self):
        model, codes, gpt2 = self.toy(), self.toy(type="q8_0"), self.toy(arch="gpt2")
        lora, out = adapter(self, model, "merged.gguf"), self.path("no.gguf")
        for name, adapters, why in [
            (codes, [lora], "is Q8_0: adapters are merged with the float model"),
            (self.w8a8(), [lora], "merge the adapter with the float model"),
            (gpt2, [lora], "another architecture than the model's, gpt2"),
            (model, [lora, self.path("gone.gguf")], "gone.gguf: cannot be read"),
        ]:
            args = [arg for one in adapters for arg in ("--lora", one)]
            self.assertIn(why, self.fails("quantize", name, "-o", out, *args))
            self.assertFalse(os.path.exists(out))
        self.assertIn("would replace it", self.fails("quantize", model, "-o", lora, "--lora", lora))


main()
