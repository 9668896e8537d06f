"""tuffet ppl"""
import math
import subprocess

from program import TOY, Case, main

TEXT = "hello world, once upon a time " * 40


class Perplexity(Case):
    def nll(self, model, ids, ctx, first=1):
        """By the oracle: the mean, and of how many tokens."""
        out = subprocess.run([*TOY, "nll", model, " ".join(map(str, ids)), str(ctx), str(first)],
                             capture_output=True, check=True)
        mean, n = out.stdout.split()
        return float(mean), int(n)

    def windows(self, model, ctx, bos):
        ids = self.json("tokenize", model, "-p", TEXT, "--bos")["tokens"]
        for at in range(0, len(ids), ctx):
            ids[at] = bos if bos is not None else ids[at]
        return ids

    def test_agrees_with_the_oracle(self):
        text = self.write("text", TEXT.encode())
        for model, bos in [(self.toy(), 1), (self.toy(vocab="gpt2"), None)]:
            ids = self.windows(model, 64, bos)
            self.assertGreater(len(ids), 3 * 64)
            for args, first in [([], 1), (["--score=second-half"], 33)]:
                want, n = self.nll(model, ids, 64, first)
                got = self.json("ppl", model, "-f", text, "--ctx=64", "--kv=f32", *args)
                self.assertEqual(set(got), {"ppl", "nll", "tokens", "seconds"})
                self.assertEqual(got["tokens"], n)
                self.assertAlmostEqual(got["nll"], want, delta=1e-4)
                self.assertAlmostEqual(got["ppl"], math.exp(got["nll"]), delta=1e-3)

    def test_it_stops_after_n(self):
        got = self.json("ppl", self.toy(), "-f", "-", "--ctx=64", "--tokens=128",
                        stdin=TEXT.encode())
        self.assertEqual(got["tokens"], 2 * 63)

    def test_equal_chances(self):
        got = self.json("ppl", self.toy(uniform=1), "-f", "-", "--ctx=64", stdin=TEXT.encode())
        self.assertAlmostEqual(got["ppl"], 420, delta=0.01)

    def test_more_than_a_number_can_hold(self):
        """A damaged head that makes all but one token impossible: exp(nll) is infinite."""
        toy = self.toy()
        at = next(t["offset"] for t in self.json("inspect", toy)["tensors"]
                  if t["name"] == "output_norm.weight")
        data = self.read(toy)
        large = self.write("large", data[:at] + b"\x00\x00\x00\x4b" * 32 + data[at + 128:])
        got = self.json("ppl", large, "-f", "-", "--ctx=64", stdin=TEXT.encode())
        self.assertIsNone(got["ppl"])
        self.assertGreater(got["nll"], 710)

    def test_text_output(self):
        self.assertRegex(self.tuffet("ppl", self.toy(), "-f", "-", stdin=TEXT.encode()),
                         rb"^perplexity \d+\.\d+ over \d+ tokens, [\d.]+ tokens/s\n$")

    def test_too_little(self):
        self.assertIn("too few", self.fails("ppl", self.toy(), "-f", "-", stdin=b""))


main()
