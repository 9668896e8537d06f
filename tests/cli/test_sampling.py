"""The sampler's options, the budget of thoughts and loops, in tuffet run and tuffet chat."""
import pathlib
import subprocess

from program import PATIENCE, TUFFET, Case, main

SHIPPED = str(pathlib.Path(__file__).resolve().parents[2] / "models/demo/stories2M.gguf")
PLAIN = "{{ messages[0].content }}"
STEPS = [["--dry-multiplier=1", "--dry-allowed-length=1"], ["--xtc-probability=1"],
         ["--typical=0.2"], ["--top-nsigma=0.3"], ["--mirostat=2", "--mirostat-ent=1"],
         ["--dynatemp-range=0.8"]]


class Sampling(Case):
    def story(self, *args, seed=1, n=120):
        return self.tuffet("run", SHIPPED, "-pOnce", f"-s{seed}", f"-n{n}", *args)

    def test_each_step_has_an_effect_and_the_same_seed_gives_the_same_text(self):
        plain = self.story()
        for step in STEPS:
            text = self.story(*step)
            self.assertNotEqual(text, plain, step)
            self.assertEqual(self.story(*step, "-t2", "--lookup=0"), text, step)

    def test_what_is_off_changes_nothing(self):
        off = ["--dry-multiplier=0", "--xtc-probability=0", "--typical=1", "--top-nsigma=0",
               "--mirostat=0", "--dynatemp-range=0", "--dry-base=3", "--xtc-threshold=0.3",
               "--min-tokens=0"]
        self.assertEqual(self.story(*off), self.story())
        none = ["--dry-multiplier=1", "--dry-penalty-last-n=0"]
        self.assertEqual(self.story(*none), self.story())

    def test_dry_ends_repetitions(self):
        greedy = ["run", SHIPPED, "-pOnce", "--temp=0", "--ignore-eos", "-n400"]
        text = self.json(*greedy)["text"]
        dry = self.json(*greedy, "--dry-multiplier=2", "--dry-sequence-breaker=none")["text"]

        def repeated(text):
            words = text.split()
            runs = [tuple(words[i:i + 8]) for i in range(len(words) - 7)]
            return len(runs) - len(set(runs))

        self.assertGreater(repeated(text), 20)
        self.assertEqual(repeated(dry), 0)

    def test_breakers(self):
        args = ["--dry-multiplier=2", "--dry-allowed-length=1", "--temp=0"]
        every = [f"--dry-sequence-breaker={letter}" for letter in "aeioutnsrh.,"]
        usual = [f"--dry-sequence-breaker={text}" for text in ["\n", ":", '"', "*"]]
        none, default, same, some, most = (self.story(*args, *breakers, n=300) for breakers in [
            ["--dry-sequence-breaker=none"], [], usual, every[:1], every])
        self.assertEqual(default, same)
        self.assertEqual(len({none, some, most}), 3)

    def test_the_text_does_not_end_early(self):
        args = ["run", SHIPPED, "-pOnce", "--temp=0"]
        usual = self.json(*args)
        self.assertEqual(usual["stop"], "end")
        longer = self.json(*args, f"--min-tokens={usual['tokens'] + 5}")
        self.assertGreaterEqual(longer["tokens"], usual["tokens"] + 5)
        self.assertTrue(longer["text"].startswith(usual["text"]))
        endless = self.json(*args, "--ignore-eos", "-n350")
        self.assertEqual((endless["stop"], endless["tokens"]), ("length", 350))

    def test_each_answer_has_its_least_tokens(self):
        toy = self.toy(template="{% for m in messages %}{{ m.content }}\n{% endfor %}", uniform=1)
        said = self.tuffet("chat", toy, "-n6", "--min-tokens=6", "--json", "-s1",
                           stdin=b"a\nb\nc\n").splitlines()
        self.assertEqual(len(said), 3)
        for line in said:
            self.assertIn(b'"stop":"length","tokens":6', line)

    def test_thoughts_end(self):
        """The model that ships writes the tag with several tokens."""
        for prompt, n, want in [("Hm. <think>", 5, 5), ("Hm. <think>\n", 0, 0), ("Hm.", 5, None)]:
            args = ["run", SHIPPED, "-p" + prompt, "--temp=0", "-n60", f"--think={n}"]
            said = self.json(*args)
            if want is None:
                self.assertNotIn("</think>", said["text"])
                continue
            thought, text = said["text"].split("</think>")
            self.assertTrue(text)
            alone = self.json(*args[:-1], "--think=-1", f"-n{want}" if want else "-n1")
            self.assertEqual(alone["text"] if want else "", thought)

    def test_thoughts_before_a_form_end(self):
        args = ["chat", self.toy(template=PLAIN + "{{ '<think>\n' }}", uniform=1), "-phello",
                "--temp=1", "--min-p=0", "--top-p=1", "--regex=[0-9]{3}", "-n60"]
        for seed in range(4):
            said = self.json(*args, f"-s{seed}", "--think=4")
            self.assertEqual(said["stop"], "end")
            self.assertRegex(said["content"], r"[0-9]{3}\Z")
            self.assertLess(said["tokens"], 30)

    def test_no_thoughts(self):
        thinks = self.toy(endless=1,
                          template=PLAIN + "{% if enable_thinking is defined %}n{% endif %}")
        args = ["chat", thinks, "-phello", "-s1", "-n9"]
        none = self.tuffet(*args, "--no-think")
        self.assertEqual(self.tuffet(*args, "--think=0"), none)
        self.assertNotEqual(self.tuffet(*args, "--think=5"), none)

    def test_loops(self):
        args = ["run", SHIPPED, "-pOnce", "--temp=0", "--ignore-eos", "-n500", "--kv=f16"]
        self.assertEqual(self.json(*args)["stop"], "length")
        said = self.json(*args, "--stop-loops=on")
        self.assertEqual(said["stop"], "loop")
        self.assertTrue(self.json(*args)["text"].startswith(said["text"]))

    def test_loops_of_a_chat(self):
        args = ["chat", self.toy(template=PLAIN, ctx=900), "-phello", "-s1",
                "--regex=(0123456789){60}", "--json"]
        done = subprocess.run([*TUFFET, *args], capture_output=True, timeout=PATIENCE)
        self.assertIn(b'"stop":"loop","tokens":40,', done.stdout)
        self.assertRegex(done.stderr, rb"\Atuffet: the answer ends here, since it repeats itself")
        self.assertEqual(done.stderr.count(b"\n"), 1)
        said = self.json(*args[:-1], "--stop-loops=off")
        self.assertEqual((said["stop"], said["content"]), ("end", "0123456789" * 60))


if __name__ == "__main__":
    main()
