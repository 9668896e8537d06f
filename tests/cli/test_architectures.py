"""tuffet quantize on a toy of each architecture: searching a prefix, letting it learn, and
searching the bits of a cache. Each works, or is refused in a line."""
from program import Case, main

TEXT = b"hello world, once upon a time and the end. " * 60

# RoPE of these depends on the length of the session, so that no prefix's keys can be stored.
NO_PREFIX = ["minicpm", "phi3"]
WINDOWS = ["gemma2", "gemma3"]
PREFIX = ["ernie4_5", "exaone4", "falcon", "gemma", "gemma4", "gpt2", "gptneox", "granite",
          "hunyuan-dense", "mistral3", "olmo2", "qwen2", "qwen3", "smollm3", "stablelm",
          "starcoder2", *WINDOWS]
CUSHION = ["--cushion=auto", "--cushion-sample=6", "--cushion-tau=9", "--cushion-cost=9",
           "--cushion-max=2"]


class Architectures(Case):
    def arguments(self, arch, *args):
        """The text has windows of more tokens than those of the models' attention."""
        return ["quantize", self.toy(arch=arch, endless=1), "-o", self.path("out"), "--calib",
                self.write("text", TEXT), "--calib-window=40", "--calib-tokens=120", "-t1", *args]

    def learns(self, loss, *args):
        """The prefix is at least as good on held-out text, or is refused before work starts."""
        for arch in PREFIX:
            with self.subTest(arch):
                tuned = self.json(*self.arguments(arch, *args, "--tune-epochs=1"))["tune"]
                self.assertEqual((tuned["loss"], len(tuned["validation"])), (loss, 3))
                self.assertEqual(tuned["validation"][tuned["kept"]], min(tuned["validation"]))
        for arch in NO_PREFIX:
            with self.subTest(arch):
                said = self.fails(*self.arguments(arch, *args))
                self.assertIn(f"no prefix for {arch}: its RoPE depends on the length of", said)

    def test_tune(self):
        self.learns("prediction", *CUSHION, "--tune")

    def test_calibrate(self):
        self.learns("layer outputs", "--intact-tokens=1,9", "--calibrate")

    def test_cushion(self):
        self.json(*self.arguments("bitnet", *CUSHION))

    def test_layers_with_a_state(self):
        """A prefix has their states: BOS by --intact auto, and what a search adds."""
        for args in [], CUSHION:
            with self.subTest(args):
                made = self.json(*self.arguments("qwen35", *args))
                self.assertEqual(made["prefix"][0], 1)
                self.tuffet("ppl", self.path("out"), "-f", self.path("text"), "--ctx", "40")

    def test_tuning_does_not_know_sub_norms(self):
        for args in [*CUSHION, "--tune"], ["--intact-tokens=1,9", "--calibrate"]:
            self.assertIn("tuning does not support norms within attention and feed-forward",
                          self.fails(*self.arguments("bitnet", *args)))

    def test_layers_that_share(self):
        """With a prefix and without; what the architecture rules out is refused in a line."""
        none = "--intact=none"
        for args in ([none], [none, "--bits=4", "--rounding=awq"], [none, "--bits-search=4.5"],
                     [none, "--dynamic=all"], [none, "--rotate=o"],
                     [none, "--kv=kivi:window=16,group=16"],
                     ["--intact-tokens=1,9"], CUSHION):
            with self.subTest(args):
                found = self.json(*self.arguments("gemma4", *args))
                self.assertLess(abs(found["check"]["text"]["percent"]), 40)
                self.tuffet("ppl", self.path("out"), "-f", self.path("text"), "--ctx", "40")
        self.assertIn("the channels of its values cannot be reordered",
                      self.fails(*self.arguments("gemma4", none, "--kv=skvq")))

    def test_kv_search(self):
        args = ["--intact=none", "--kv=tuffet:window=0,group=16", "--kv-search=60B"]
        for arch in ["bitnet", *PREFIX, *NO_PREFIX]:
            with self.subTest(arch):
                if arch == "gemma3":  # a toy with windows in both its layers
                    self.assertIn("all its layers have windows, which stay in floats",
                                  self.fails(*self.arguments(arch, *args)))
                    continue
                found = self.json(*self.arguments(arch, *args))["kv_search"]
                self.assertLessEqual(found[found["kept"]]["bytes"], 60)


main()
