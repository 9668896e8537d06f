"""tuffet run"""
import json
import os
import re
import shutil
import subprocess

from program import PATIENCE, TUFFET, Case, Terminal, interrupt, main


class Run(Case):
    def test_the_prompt_may_come_in_three_ways(self):
        args, text = ["run", self.toy(endless=1), "-s1", "-n9"], b"hello world\n"
        want = self.tuffet(*args, "-p", text)
        self.assertEqual(self.tuffet(*args, "-f", self.write("prompt", text)), want)
        self.assertEqual(self.tuffet(*args, "-f", "-", stdin=text), want)
        self.assertEqual(self.tuffet(*args, stdin=text), want)
        self.assertNotEqual(self.tuffet(*args, stdin=text[:-1]), want)

    def test_without_a_model(self):
        """The model that ships is found beside the program."""
        folder = self.path("program")
        os.mkdir(folder)
        program = os.path.join(folder, "tuffet")
        os.symlink(os.path.abspath(TUFFET[-1]), program)
        command = [*TUFFET[:-1], program, "run", "-s1", "-n9"]
        toy = self.toy(endless=1)
        os.symlink(toy, os.path.join(folder, "stories2M.gguf"))
        done = subprocess.run(command, input=b"hello", capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(done.stdout, self.tuffet("run", toy, "-s1", "-n9", stdin=b"hello"))
        os.unlink(os.path.join(folder, "stories2M.gguf"))
        done = subprocess.run(command, input=b"hello", capture_output=True, timeout=PATIENCE)
        if done.returncode:  # else there is an installed one
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"MODEL is missing, and stories2M.gguf is neither", done.stderr)

    def test_json_is_the_same_text(self):
        for seed in range(1, 6):
            args = ["run", self.toy(), "-phello", "-s", str(seed)]
            answer = self.json(*args)
            self.assertEqual(set(answer), {"text", "stop", "tokens", "prompt_tokens",
                                           "prefix_tokens", "cached_tokens",
                                           "guessed_tokens", "first_s", "tok_s",
                                           "prompt_tok_s", "seed", "ends"})
            self.assertIsNone(answer["ends"], "its inputs are floats")
            self.assertEqual((answer["seed"], answer["prompt_tokens"]), (seed, 2))
            self.assertGreater(answer["first_s"], 0)
            self.assertEqual(self.tuffet(*args).decode(), answer["text"] + "\n")

    def test_numbers_at_the_ends_of_ranges(self):
        model = self.w8a8()
        ends = self.json("run", model, "-phello", "-s1", "-n9", "--lookup=0")["ends"]
        self.assertGreater(ends["numbers"], ends["at_ends"])
        self.assertTrue(0 <= ends["calibrated"] < 0.1, ends)
        more = self.json("run", model, "-phello", "-s1", "-n12", "--lookup=0")["ends"]
        self.assertGreater(more["numbers"], ends["numbers"])
        self.assertEqual(more["calibrated"], ends["calibrated"])

    def test_options_at_the_ends_of_their_ranges(self):
        toy = self.toy(endless=1)
        def text(*args):
            return self.json("run", toy, "-phello", "-n40", *args)["text"]
        likeliest, hot = text("--temp=0"), ["--temp=3", "--min-p=0", "-s5"]
        self.assertEqual(text(*hot, "--top-p=0"), likeliest)
        self.assertEqual(text(*hot, "--top-k=1"), likeliest)
        self.assertNotEqual(text(*hot, "--top-p=1"), likeliest)
        self.assertEqual(text(*hot, "--top-p=1", "--top-k=0"), text(*hot, "--top-p=1"))
        penalty = ["--temp=0", "--repeat-penalty=5"]
        self.assertNotEqual(text(*penalty), likeliest)
        self.assertEqual(text(*penalty, "--repeat-last=0"), likeliest)
        self.assertEqual(text(*penalty, "--repeat-last=-1"), text(*penalty, "--repeat-last=1000"))

    def test_no_token(self):
        """The prompt is computed, and kept in its cache."""
        toy, cache = self.toy(endless=1, template="{{ messages[0].content }}"), self.path("cache")
        answer = self.json("run", toy, "-phello world", "-n0", "--prompt-cache", cache)
        self.assertEqual((answer["text"], answer["tokens"], answer["stop"]), ("", 0, "length"))
        self.assertTrue(os.path.exists(cache))
        answer = self.json("chat", toy, "-phello", "-n0")
        self.assertEqual((answer["content"], answer["tokens"], answer["stop"]), ("", 0, "length"))
        args = ["--temp=0", "-phello", "--ctx=40"]
        self.assertEqual(self.json("run", toy, *args, "-n-1")["tokens"],
                         self.json("run", toy, *args)["tokens"])

    def test_a_seed_is_a_text(self):
        toy = self.toy(endless=1)
        texts = {self.tuffet("run", toy, "-phello", "-n20", "-s", str(seed)) for seed in range(5)}
        self.assertEqual(len(texts), 5)
        chosen = self.json("run", toy, "-phello", "-n20")
        again = self.json("run", toy, "-phello", "-n20", "-s", str(chosen["seed"]))
        self.assertEqual(again["text"], chosen["text"])
        # -1, as in llama.cpp and in requests, is a seed from the clock
        clock = self.json("run", toy, "-phello", "-n20", "-s", "-1")
        self.assertLess(clock["seed"], 2**63)
        self.assertEqual(self.json("run", toy, "-phello", "-n20", "-s", str(clock["seed"]))["text"],
                         clock["text"])
        self.assertIn("below 2^64, or -1", self.fails("run", toy, "-s", "-2", status=2))
        greedy = self.tuffet("run", toy, "-phello", "-n20", "--temp=0")
        self.assertEqual(self.tuffet("run", toy, "-phello", "-n20", "--top-k=1"), greedy)
        self.assertNotEqual(self.tuffet("run", toy, "-phello", "-n20", "--temp=0",
                                        "--repeat-penalty=5"), greedy)

    def test_why_it_stops(self):
        endless = self.toy(endless=1)
        self.assertEqual(self.json("run", endless, "-phello", "-n7")["stop"], "length")
        self.assertEqual(self.json("run", endless, "-phello", "-n7")["tokens"], 7)
        full = self.json("run", endless, "-phello", "-c16")
        # the last one is not fed
        self.assertEqual((full["stop"], full["prompt_tokens"] + full["tokens"]), ("context", 17))
        self.assertEqual(self.json("run", self.toy(), "-phello", "-s1")["stop"], "end")

    def test_prompts(self):
        toy = self.toy()
        self.assertEqual(self.json("run", toy, "-p", "", "-n1")["prompt_tokens"], 1)
        self.assertGreater(self.json("run", toy, "-p", "<|user|>", "-n1")["prompt_tokens"], 4)
        self.assertEqual(self.json("run", toy, "-p", "<|user|>", "-n1",
                                   "--special")["prompt_tokens"], 2)
        spaced = self.toy(seed=58)  # it goes on with a word
        self.assertEqual(self.tuffet("run", spaced, "-phello", "-n1", "--temp=0"), b" upon\n")
        self.assertEqual(self.tuffet("run", spaced, "-phello", "-n1", "--temp=0", "--echo"),
                         b"hello upon\n")
        self.assertIn("the prompt is empty", self.fails("run", self.toy(vocab="gpt2"), "-p", ""))
        self.assertIn("the prompt has 257 tokens, but the context holds only 256",
                      self.fails("run", toy, "-p", "x" * 255))
        self.assertIn("needs --tokenizer", self.fails("run", self.toy(vocab=""), "-phello"))

    def test_same_text_everywhere(self):
        for args in [["--weights=f32"], ["--weights=f16"]]:
            texts = {self.tuffet("run", self.toy(type="q8_0", endless=1), "-phello", "-s3", "-n30",
                                 *args, *more) for more in [[], ["-t1"], ["-t3"], ["--cpu=c"]]}
            self.assertEqual(len(texts), 1)

    def test_same_text_with_a_quantized_cache(self):
        toy, args = self.toy(endless=1), ["-phello", "-s3", "-n120"]
        seen = {self.tuffet("run", toy, *args)}
        for kv in ["kivi:window=16,group=16,bits=1", "logquant:window=8,group=16,bits=1",
                   "skvq:reorder=none,clip=zero,window=0,sinks=1,bits=1.5"]:
            texts = {self.tuffet("run", toy, *args, "--kv", kv, *more) for more in [[], ["-t1"],
                                                                                    ["-t3"],
                                                                                    ["--cpu=c"]]}
            self.assertEqual(len(texts), 1)
            seen |= texts
        self.assertGreater(len(seen), 2)  # few bits tell
        self.assertIn("mixed keys, and the file lacks the importance of its channels",
                      self.fails("run", toy, "-phello", "--kv=tuffet"))
        self.assertIn("not calibrated for this KV cache",
                      self.fails("run", toy, "-phello", "--kv=skvq"))

    def test_guesses_change_nothing_but_time(self):
        toy, text = self.toy(endless=1), " ".join(["hello world"] * 20)
        for args in [["--temp=0"], ["--temp=0.3", "-s1"], ["--temp=0", "--repeat-penalty=1.3"],
                     ["--temp=0", "--kv=kivi:window=16,group=16,bits=1"],
                     ["--temp=0", "--slide", "-c90"], ["--temp=0", "--regex=(hello |world ){50}"]]:
            plain, guessing = (self.json("run", toy, "-p", text, "-n60", *args, f"--lookup={n}")
                               for n in (0, 14))
            self.assertEqual([plain[k] for k in ("text", "stop", "tokens", "guessed_tokens")],
                             [guessing[k] for k in ("text", "stop", "tokens")] + [0], args)
        guesses = self.json("run", toy, "-p", text, "-n60", "--temp=0", "--lookup=14")
        self.assertGreater(guesses["guessed_tokens"], 20)
        self.assertLess(guesses["guessed_tokens"], guesses["tokens"])
        self.assertIn("a lookup of 15 tokens: at most 14",
                      self.fails("run", toy, "-phello", "--lookup=15"))

    def test_a_draft_model_changes_nothing_but_time(self):
        toy, draft = self.toy(endless=1), self.toy(endless=1, seed=9)
        for args in [["--temp=0"], ["--temp=0.7", "-s1"], ["--temp=0", "--slide", "-c90"]]:
            args = ["run", toy, "-phello", "-n60", *args]
            want = self.json(*args, "--lookup=0")
            for other in toy, draft:
                got = self.json(*args, "--draft", other)
                self.assertEqual((got["text"], got["stop"]), (want["text"], want["stop"]))
        args = ["run", toy, "-phello", "-n100", "--temp=0"]
        self.assertGreater(self.json(*args, "--draft", toy)["guessed_tokens"],
                           self.json(*args)["guessed_tokens"])
        self.assertIn("the draft model has another vocabulary than",
                      self.fails("run", toy, "-phello", "--draft", self.toy(vocab="gpt2")))
        self.assertIn("--draft: ", self.fails("run", toy, "-phello", "--draft=absent"))
        self.assertIn("--lookup 0 allows none",
                      self.fails("run", toy, "-phello", "--draft", toy, "--lookup=0", status=2))

    def test_the_block_that_predicts_changes_nothing_but_time(self):
        """Also in files of tuffet pack and tuffet quantize, which keep it."""
        toy = self.toy(arch="qwen35-mtp", endless=1, type="q8_0", tied=1)
        packed, made = self.path("mtp.packed"), self.path("mtp.w8a8")
        self.tuffet("pack", toy, "-o", packed, "--json")
        self.tuffet("quantize", toy, "-o", made, "--intact=none", "-t1", "--json", "--calib",
                    self.write("text", b"hello world, once upon a time and the end. " * 40))
        for model in toy, packed, made:
            for args in [["--temp=0"], ["--temp=0.7", "-s1"], ["--temp=0", "--slide", "-c90"]]:
                args = ["run", model, "-phello", "-n60", *args]
                want, got = self.json(*args, "--lookup=0"), self.json(*args, "--draft=mtp")
                self.assertEqual((got["text"], got["stop"]), (want["text"], want["stop"]))
        self.assertIn("there is no block that predicts further tokens in it",
                      self.fails("run", self.toy(), "-phello", "--draft=mtp"))

    def test_a_bound_on_experts_changes_no_text(self):
        model = self.toy(arch="qwen3moe", endless=1)
        args = ["run", model, "-phello world", "-s3", "-n30"]
        least = re.search(r"one layer of one token needs (\d+)$",
                          self.fails(*args, "--experts-mem=1"))[1]
        for size in [least, "1G"]:
            self.assertEqual(self.tuffet(*args, "--experts-mem", size), self.tuffet(*args))
        self.assertIn("has no experts",
                      self.fails("run", self.toy(), "--experts-mem=1G", "-phello"))
        self.assertIn("bytes such", self.fails(*args, "--experts-mem=some", status=2))

    def test_the_file_in_memory(self):
        args = ["run", self.toy(), "-p", "hello", "--temp=0", "-n9"]
        self.assertEqual(self.tuffet(*args, "--preload"), self.tuffet(*args))
        parts = self.path("part-00001-of-00002.gguf")  # the second part is missing
        shutil.copy(self.toy(), parts)
        self.assertIn("part-00002-of-00002.gguf",
                      self.fails("run", parts, "-p", "hello", "--preload"))

    def test_a_share_of_the_time(self):
        args = ["run", self.toy(endless=1), "-s1", "-n100", "-t1", "--lookup=0", "-phello"]
        whole, part = self.json(*args), self.json(*args, "--power=1%", "--nice=1")
        self.assertEqual(part["text"], whole["text"])
        self.assertLess(part["tok_s"], 2000)  # the toy computes more than 10000
        for wrong in "0", "101", "-5", "half", "50%%", "5 %", "":
            self.assertIn("--power must be a share", self.fails(*args, "--power", wrong, status=2))
        self.assertIn("--nice must be at most 19", self.fails(*args, "--nice=20", status=2))

    def test_slide(self):
        toy = self.toy(endless=1)
        full = self.json("run", toy, "-phello", "-c32", "-n200", "-s1")
        slid = self.json("run", toy, "-phello", "-c32", "-n200", "-s1", "--slide")
        self.assertEqual((full["stop"], slid["stop"], slid["tokens"]), ("context", "length", 200))
        self.assertTrue(slid["text"].startswith(full["text"][:-4]))
        self.assertEqual(self.json("run", toy, "-p", "x" * 300, "-n5", "--slide",
                                   "-c64")["prompt_tokens"], 302)

    def test_text_is_streamed(self):
        toy = self.toy(endless=1, ctx=100000)
        with subprocess.Popen([*TUFFET, "run", toy, "-t1"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            os.read(p.stdout.fileno(), 1)
            self.assertIsNone(p.poll())
            out, err = interrupt(p)
            self.assertEqual((p.returncode, err, out[-1:]), (130, b"", b"\n"))

    def test_an_interrupt_ends_the_text(self):
        toy = self.toy(endless=1, ctx=100000)
        with subprocess.Popen([*TUFFET, "run", toy, "-t1", "-s1", "--json"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as p:
            with self.assertRaises(subprocess.TimeoutExpired):
                p.wait(1)
            out, err = interrupt(p)
        self.assertEqual((p.returncode, err, json.loads(out)["stop"]), (130, b"", "interrupt"))

    def test_at_a_terminal(self):
        t = Terminal("run", self.toy(endless=1), "-phello", "-n20", "-s1")
        self.assertEqual(t.end(), 0)
        text, figures = t.screen.decode().replace("\r\n", "\n").rsplit("\n\n", 1)
        self.assertRegex(figures,
                         r"^prompt: 2 tokens, .*; generated: 20 tokens, .*; stopped by: length; "
                         r"seed 1\n$")
        # the model writes control characters, which are not for the terminal
        plain = self.tuffet("run", self.toy(endless=1), "-phello", "-n20", "-s1").decode()
        self.assertTrue(any(not c.isprintable() for c in plain))
        self.assertEqual(text, "".join(c if c.isprintable() or c in "\n\t" else "\ufffd"
                                       for c in plain[:-1]))


main()
