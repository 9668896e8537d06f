"""tuffet quantize, and the other commands on its result."""
import json
import math
import os
import random
import re
import signal
import struct
import subprocess
import unittest

from program import LAB, PATIENCE, TUFFET, Case, Terminal, main, opened, wait_until

# Threads of a toy mostly wait where other tests have the CPUs.
THREADS = [] if "TUFFET_THOROUGH" in os.environ else ["-t1"]
SHOWS_FILES = unittest.skipUnless(os.path.isdir("/proc/self/fd"),
                                  "no /proc that shows which files are open")
TEXT = b"hello world, once upon a time and the end. " * 40
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
INPUTS = [f"blk.{layer}.{part}" for layer in range(2) for part
          in ["attn_q", "attn_output", "ffn_up", "ffn_down"]] + ["output"]


class Quantize(Case):
    def setUp(self):
        self.text = self.write("text", TEXT)

    def arguments(self, *args, model=None, out="out"):
        ranges = [] if any(a.startswith("--dynamic") for a in args) else ["--dynamic=none"]
        return ["quantize", model or self.toy(endless=1), "-o", self.path(out), "--calib",
                self.text, *THREADS, *ranges, *args]

    def quantized(self, *args, **where):
        self.json(*self.arguments(*args, **where))
        return self.path(where.get("out", "out"))

    def ranges(self, *args):
        """The kind of range of each input, by name."""
        inputs = self.json(*self.arguments(*args))["inputs"]
        self.assertEqual([i["name"] for i in inputs], INPUTS)
        return {i["name"]: i["range"] for i in inputs if i["range"] != "static"}

    def left(self):
        return sorted(name for name in os.listdir(self.folder.name) if name.startswith("out"))

    def tearDown(self):
        for name in self.left():
            path = self.path(name)
            os.rmdir(path) if os.path.isdir(path) else os.remove(path)

    def test_json(self):
        found = self.lab(*self.arguments("--range=min-max"))
        self.assertEqual(set(found), {"seconds", "tokens", "window", "prefix", "tried", "cushion",
                                      "tune", "system", "kv_search", "bits_search", "vectors",
                                      "dynamic", "check", "inputs"})
        self.assertIsNone(found["system"])
        self.assertIsNone(found["tune"])
        self.assertIsNone(found["kv_search"])
        self.assertIsNone(found["bits_search"])
        self.assertIsNone(found["vectors"])
        self.assertEqual((found["tried"], found["dynamic"]), ([], []))
        # the context without the four tokens that a prefix may have
        self.assertEqual((found["window"], found["tokens"] % 252, found["prefix"]), (252, 0, [1]))
        for i in found["inputs"]:
            self.assertEqual(set(i), {"name", "range", "scale", "zero", "min", "max", "error"})
            self.assertAlmostEqual(i["scale"], (i["max"] - i["min"]) / 255, delta=1e-4 * i["scale"])
            self.assertAlmostEqual(i["zero"], -i["min"] / i["scale"], delta=0.51)
            self.assertTrue(0 < i["error"] < 0.01, i)
        done = subprocess.run([*TUFFET, *self.arguments()], capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        self.assertRegex(done.stderr,
                         rb"\Acheck: not measured: [^\n]*\n\Z")

    def test_what_it_takes_is_said_first(self):
        text = self.write("text", b"hello world, once upon a time. " * 90)
        t = Terminal("quantize", self.toy(endless=1), "-o", self.path("planned"), "--calib", text,
                     "-t1")
        t.wait_for(b"this takes less than a minute, longer with a search or --tune; about ")
        self.assertRegex(t.wait_for(b" of memory"),
                         rb"^[\d.]+ kB of disk, [\d.]+ kB at the end; about [\d.]+ MB of memory$")
        self.assertEqual(t.end(), 0)

    def test_the_same_file_on_every_isa(self):
        names = self.tuffet("--version").decode().splitlines()[1].split()[3:]
        args, first, made = [*self.arguments("--bits=4", "--group=32")], None, 0
        for name in names:
            done = subprocess.run([*TUFFET, *args, "--cpu", name], capture_output=True,
                                  timeout=PATIENCE)
            if done.returncode and b"this CPU has no kernels" in done.stderr:
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            first = first or self.read(self.path("out"))
            self.assertEqual(self.read(self.path("out")), first, name)
            made += 1
        self.assertGreater(made, 0)
        self.assertIn('no kernels "abacus"', self.fails(*args, "--cpu=abacus"))

    def test_the_text_that_the_model_writes(self):
        """It has the same tokens on every ISA level, with any number of threads, and half of the
        calibration text is it."""
        for template in [None, CHATML]:
            model = self.toy(endless=1, **({"template": template} if template else {}))
            args = ["quantize", model, "-o", self.path("out"), "--calib-window=64",
                    "--calib-tokens=512", "--dynamic=none"]
            files, checks = set(), []
            for more in [["-t1"], ["-t3"], ["-t1", "--cpu=c"]]:
                checks.append(self.json(*args, *more)["check"])
                files.add(self.read(self.path("out")))
            self.assertEqual(len(files), 1)
            self.assertEqual(set(checks[0]), {"conversation", "text"} if template else {"text"})

    def conversations(self, *lines):
        return self.write("said.jsonl", b"\n".join(
            line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))

    def test_conversations_of_a_file(self):
        """All that is said counts, and empty lines do not. Text has special tokens with --special
        alone."""
        model = self.toy(template=CHATML, endless=1, vocab="gpt2", ctx=600)
        said = [{"messages": [{"role": "user", "content": f"hello {i}, tell me of it"},
                              {"role": "assistant", "content": "once upon a time, " * 3}]}
                for i in range(40)]
        out = self.path("out")
        made = lambda *args: self.json("quantize", model, "-o", out, "--dynamic=none", *args)
        found = made("--calib", self.conversations(*said[:20], b" ", *said[20:]))
        self.assertEqual(set(found["check"]), {"conversation", "text"})
        once = self.read(out)
        with open(self.conversations(*said), "rb") as f:
            marked = self.write("said", b"\xef\xbb\xbf" + f.read())
        made("--calib", marked)
        self.assertEqual(self.read(out), once)
        self.assertIn("too few for a window of 590",
                      self.fails("quantize", model, "-o", out, "--calib",
                                 self.conversations(*said[:15]), "--calib-window=590"))
        made("--calib", self.conversations(*[{"messages": s["messages"][:1]} for s in said]))
        self.assertNotEqual(self.read(out), once)

        text = self.write("chatml", b"<|im_start|>user\nhello<|im_end|>\n" * 300)
        plain, special = (made("--calib", text, *more)["inputs"] for more in [[], ["--special"]])
        self.assertNotEqual(plain, special)

    def test_conversations_that_are_refused(self):
        model = self.toy(template=CHATML, endless=1, vocab="gpt2", ctx=600)
        good = {"messages": [{"role": "user", "content": "hello"}]}
        for line, why in [
                (b"{\"messages\": [", "said.jsonl:2: is not JSON: "),
                ({"text": "hello"}, 'said.jsonl:2: has no "messages"'),
                ([1], 'said.jsonl:2: has no "messages"'),
                ({"messages": [*good["messages"], {"role": "robot", "content": "x"}]},
                 'said.jsonl:2: message 2 has the role "robot": roles are system, developer, user'),
                ({"messages": [{"content": "x"}]}, "said.jsonl:2: message 1 has no role: "),
                ({"messages": good["messages"], "tools": []},
                 "said.jsonl:2: has tools, which the template does not know"),
                (good, "said.jsonl: has 2 conversations of ")]:
            with self.subTest(why):
                self.assertIn(why, self.fails("quantize", model, "-o", self.path("out"), "--calib",
                                              self.conversations(good, line)))
        for text in [json.dumps([good] * 60), json.dumps([good] * 60, indent=1),
                     json.dumps(good, indent=2), '[{"conversations": []}]']:
            path = self.write("said.json", text.encode())  # not calibrated on as a text
            self.assertIn("said.json: conversations must be one a line: jq",
                          self.fails("quantize", model, "-o", self.path("x"), "--calib", path))
        path = self.conversations(good)
        self.assertIn("--special is for text", self.fails("quantize", model, "-o", self.path("out"),
                                                          "--calib", path, "--special", status=2))
        self.assertIn("--special is for the text of --calib",
                      self.fails("quantize", model, "-o", self.path("out"), "--special", status=2))
        self.assertIn("template", self.fails("quantize", self.toy(), "-o", self.path("out"),
                                             "--calib", path))

    def test_the_check(self):
        """A part of the text is kept out, and both models are measured on it."""
        with open(self.text, "rb") as f:
            words = f.read().split()
        rng = random.Random(3)
        text = self.write("long", b" ".join(rng.choice(words) for _ in range(5000)))
        args = ["quantize", self.toy(endless=1), "-o", self.path("out"), "--calib", text,
                "--calib-window=64", "--calib-tokens=2048", "--dynamic=none"]
        found = self.json(*args)["check"]
        self.assertEqual(set(found), {"text"})
        check = found["text"]
        self.assertEqual(set(check), {"tokens", "floats", "file", "percent", "divergence", "same"})
        self.assertEqual(check["tokens"], 2048 // 64 * 63)
        self.assertAlmostEqual(check["percent"],
                               100 * (math.exp(check["file"] - check["floats"]) - 1), delta=1e-3)
        # a random model is no better than a guess, and its 8 bits are near it
        self.assertAlmostEqual(check["file"], check["floats"], delta=0.2)
        self.assertTrue(0 < check["divergence"] < 0.2 and 0.5 < check["same"] < 1, check)
        stored = self.json("inspect", self.path("out"))["values"]["tuffet.held_out"]
        want = [0] * 5 + [check[k] for k in ["tokens", "floats", "file", "divergence", "same"]]
        for a, b in zip(stored, want, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-5)
        self.assertIn(b"correct", self.tuffet("inspect", self.path("out"), "--verify"))
        done = subprocess.run([*TUFFET, *args], capture_output=True, timeout=PATIENCE)
        self.assertRegex(done.stderr.decode(),
                         r"check: text: perplexity \S+, [+-]\S+ % over floats; divergence \S+ "
                         r"nats; the same most likely token \S+ %\nnote: the float model cannot "
                         r"predict this text \(perplexity \S+ with \d+ tokens\)")
        # two windows: nothing can be kept out
        done = subprocess.run([*TUFFET, *args, "--calib-window=220", "--calib",
                               self.write("brief", b" ".join(words[:340]))],
                              capture_output=True, timeout=PATIENCE)
        self.assertIn(b"check: not measured", done.stderr)

    def test_a_token_of_the_template_that_is_an_outlier(self):
        """No prefix takes it, as it comes in every turn. The input that it widens gets a range by
        token."""
        plain = self.toy(template=CHATML, endless=1, vocab="gpt2", ctx=600)
        start, = self.json("tokenize", plain, "--special", "-p<|im_start|>")["tokens"]
        model = self.toy(template=CHATML, endless=1, vocab="gpt2", ctx=600, outlier=start)
        args = ["quantize", model, "-o", self.path("out"), "--calib-window=256",
                "--calib-tokens=2048", "--rotate=none", *THREADS]
        fixed = self.json(*args, "--dynamic=none")
        found = self.json(*args)
        self.assertEqual(fixed["dynamic"], [])
        self.assertEqual(found["dynamic"][0]["name"], "blk.0.ffn_down")
        self.assertEqual([i["name"] for i in found["inputs"] if i["range"] == "token"],
                         sorted((i["name"] for i in found["dynamic"]), key=INPUTS.index))
        lost = [f["check"]["conversation"]["divergence"] for f in (fixed, found)]
        self.assertLess(lost[1], lost[0] / 5)
        inputs = self.json("inspect", self.path("out"))["w8a8"]["inputs"]
        self.assertEqual(inputs["token"], len(found["dynamic"]))
        done = subprocess.run([*TUFFET, *args], capture_output=True, text=True, timeout=PATIENCE)
        self.assertRegex(done.stderr, r"(?m)^range per token: blk\.0\.ffn_down, which lost \S+ "
                                      r"nats with a static range$")

    def test_a_text_that_is_too_short(self):
        for text in [b"", b"once upon a time"]:
            self.text = self.write("text", text)
            self.assertRegex(self.fails(*self.arguments()),
                             r"text: has \d+ tokens: a calibration text needs at least 512")

    def test_the_other_commands_take_it(self):
        model, ids = self.quantized(), "-phello world"
        texts = {self.tuffet("run", model, ids, "-s3", "-n30", *args) for args
                 in [["-t1"], ["-t3"], ["--cpu=c"], ["--kv=i8"]]}
        self.assertEqual(len(texts), 1)
        self.assertGreater(len(texts.pop()), 10)
        # the prefix is the prompt
        self.assertEqual(self.json("run", model, "-p", "", "-n1")["prompt_tokens"], 0)
        ppl = [self.json("ppl", m, "-f", self.text, "--ctx=64")["ppl"] for m
               in [self.toy(endless=1), model]]
        self.assertAlmostEqual(ppl[1] / ppl[0], 1, delta=0.2)
        self.assertEqual(self.json("chat", model, "-phello", "-n3", "--template=phi3")["role"],
                         "assistant")
        plain = self.json("tokenize", self.toy(endless=1), ids)["tokens"]
        self.assertEqual(self.json("tokenize", model, ids)["tokens"], plain)
        # BOS is in the prefix
        self.assertEqual(self.json("tokenize", model, ids, "--bos")["tokens"], plain)
        self.assertIn(b"correct", self.tuffet("inspect", model, "--verify"))

    def test_inspect(self):
        made = self.lab(*self.arguments("--intact-tokens=1,13", "--smooth=0.5", "--rotate=o",
                                        "--weights=per-tensor", "--calib-window=50",
                                        "--calib-tokens=120", "--range=percentile",
                                        "--percentile=90", "--dynamic=0.attn_q,output",
                                        out="out-i"))
        model = self.path("out-i")
        facts, toy = self.json("inspect", model), self.json("inspect", self.toy(endless=1))
        self.assertIsNone(toy["w8a8"])
        about = facts["w8a8"]
        worst = sorted((i for i in made["inputs"] if i["range"] == "static" and i["error"] > 0.01),
                       key=lambda i: -i["error"])
        self.assertGreater(len(worst), 2)
        self.assertEqual([w["name"] for w in about["inputs"].pop("worst")],
                         [w["name"] for w in worst][:8])
        for key, x in about.pop("check")["text"].items():
            self.assertAlmostEqual(x, made["check"]["text"][key], delta=1e-4)
        self.assertEqual(about, {
            "weights": "int8 per tensor",
            "prefix": {"method": "intact", "tokens": [1, 13], "tuned": None}, "named": {},
            "rotation": {"values": 8, "ffn_down": 0, "residual": False},
            "smooth": 0.5, "calibration": {"method": "percentile", "tokens": 100, "window": 50},
            "inputs": {"static": 7, "token": 2, "lossy": len(worst)}})
        self.assertEqual((facts["parameters"], facts["runs"]), (toy["parameters"], True))
        self.assertEqual(facts["memory"]["context"], 254)
        self.assertEqual(facts["memory"]["kv_per_token"], toy["memory"]["kv_per_token"])
        self.assertLess(facts["memory"]["weights"], 12288)  # nothing is expanded

        text = self.tuffet("inspect", model).decode()
        for line in [r"weights +int8 per tensor", r"inputs +7 static, 2 per token",
                     r"rotation +values in blocks of 8",
                     r"smoothing +alpha 0.5", r"prefix +intact, 2 tokens: 1, 13",
                     r"calibration +percentile, 100 tokens in windows of 50"]:
            self.assertRegex(text, f"\n{line}\n")
        said = text[text.index("\nruns"):].splitlines()[2:]
        self.assertEqual(said[0],
                         f"{len(worst)} of 7 static inputs lose more than 1 % of their power "
                         "to 8 bits:")
        self.assertEqual([line.split()[0] for line in said[1:-2]], [w["name"] for w in worst][:8])
        check = made["check"]["text"]
        self.assertTrue(check["percent"] > 3 or check["divergence"] > 0.03, check)
        self.assertTrue(said[-2].startswith("check: text: perplexity "))
        self.assertIn(f", {check['percent']:+.1f} % over floats; divergence ", said[-2])
        self.assertIn("warning: this loss is high", said[-1])
        done = subprocess.run([*LAB, *self.arguments("--range=percentile", "--percentile=60")[1:]],
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        self.assertTrue(self.tuffet("inspect", self.path("out")).endswith(done.stderr))

    def test_a_rotated_residual_stream(self):
        """A tied head gets a tensor of its own; the model's quality stays."""
        for settings in [{}, {"arch": "qwen2", "tied": 1}, {"arch": "qwen3", "type": "q8_0"}]:
            toy = self.toy(endless=1, **settings)
            model = self.quantized("--rotate=all", "--smooth=0.5", model=toy)
            facts = self.json("inspect", model)
            self.assertEqual(facts["w8a8"]["rotation"],
                             {"values": 8, "ffn_down": 8, "residual": True})
            self.assertIs(facts["values"]["tuffet.rotate.residual"], True)
            self.assertIn("output.weight", [t["name"] for t in facts["tensors"]])
            text = self.tuffet("inspect", model).decode()
            self.assertRegex(text,
                             r"\nrotation +values in blocks of 8, "
                             r"the input of ffn_down in blocks of 8, the residual stream\n")
            ppl = [self.json("ppl", m, "-f", self.text, "--ctx=64")["ppl"] for m in [toy, model]]
            self.assertAlmostEqual(ppl[1] / ppl[0], 1, delta=0.2)
        gpt2 = self.toy(arch="gpt2", vocab="gpt2")
        self.assertEqual(self.fails(*self.arguments("--rotate=all", model=gpt2)),
                         f"tuffet: {gpt2}: cannot rotate the residual stream of gpt2 (all): "
                         "its norms are not RMSNorm")

    def test_what_auto_rotates(self):
        """auto rotates all that the model supports, unless that makes the file larger."""
        for settings, residual in [({}, True), ({"tied": 1}, False),
                                   ({"arch": "gpt2", "vocab": "gpt2"}, False)]:
            model = self.quantized(model=self.toy(endless=1, **settings))
            self.assertIs(self.json("inspect", model)["w8a8"]["rotation"]["residual"], residual,
                          settings)

    def cushioned(self, *args, start=(1,)):
        found = self.json(*self.arguments("--cushion-sample=6", *args))
        facts, prefix = self.json("inspect", self.path("out")), list(start)
        for r in found["cushion"]["rounds"]:
            self.assertEqual(list(r), ["token", "place", "before", "after", "nats", "taken",
                                       "why_not", "refused"])
            self.assertEqual(r["taken"], r["why_not"] is None)
            if r["taken"]:
                prefix.insert(len(prefix) - (r["place"] == "before last"), r["token"])
                self.assertTrue(r["after"] < found["cushion"]["tau"] * r["before"]
                                and r["nats"] <= found["cushion"]["cost"])
        self.assertEqual(found["prefix"][:len(prefix)], prefix)
        self.assertEqual(facts["w8a8"]["prefix"],
                         {"method": "cushion", "tokens": found["prefix"], "tuned": None})
        losses = [round(r[k], 2) for r in found["cushion"]["rounds"] for k in ("before", "after")]
        self.assertEqual([round(v, 2) for v in facts["values"]["tuffet.prefix.losses"]], losses)
        self.tuffet("run", self.path("out"), "-phello", "-n5")
        return found["prefix"], found["cushion"]

    def test_what_was_tried(self):
        """The prefix is the one of those tried that is nearest to the floats on kept-out text."""
        found = self.json(*self.arguments("--cushion=auto", "--cushion-tau=9", "--cushion-cost=9",
                                          "--cushion-max=3", "--cushion-sample=6",
                                          "--calib-window=32"))
        self.assertGreater(len(found["tried"]), 1)
        self.assertEqual(found["tried"][0]["tokens"], [1])
        best = min(found["tried"], key=lambda prefix: prefix["divergence"])
        self.assertEqual(found["prefix"], best["tokens"])
        self.assertEqual(self.json("inspect", self.path("out"))["w8a8"]["prefix"]["tokens"],
                         best["tokens"])

    def test_a_cushion(self):
        """A cushion begins with the given tokens, ends where no token lowers the error enough, and
        comes before the text of --intact-text."""
        loose = ["--cushion-tau=9", "--cushion-cost=9", "--cushion-max=3"]
        prefix, search = self.cushioned("--cushion=exhaustive", *loose)
        self.assertEqual((len(prefix), prefix[0], len(search["rounds"])), (3, 1, 2))
        self.assertEqual((search["tau"], search["cost"]), (9, 9))
        best = prefix
        prefix, search = self.cushioned("--cushion=exhaustive", "--cushion-tau=0.0001")
        self.assertEqual((prefix, len(search["rounds"]), search["rounds"][0]["why_not"]),
                         ([1], 1, "error"))
        prefix, search = self.cushioned("--cushion=auto", *loose, "--intact-tokens=1,9",
                                        start=[1, 9])
        self.assertEqual((len(prefix), prefix[:2], len(search["rounds"])), (3, [1, 9], 1))
        prefix, _ = self.cushioned("--cushion=exhaustive", *loose, "--intact-text=hello")
        self.assertEqual(prefix[:3], best)
        self.assertGreater(len(prefix), 3)
        for args in [["--cushion-max=9"], ["--cushion-max=1", "--intact-tokens=1,2"]]:
            self.fails(*self.arguments("--cushion=auto", *args), status=2)
        self.assertIn("sample",
                      self.fails(*self.arguments("--cushion=auto", "--cushion-sample=100000")))

    def test_the_paper_s_cushion(self):
        """It begins with BOS alone, adds tokens at the end, and asks nothing of likelihood."""
        found = self.lab(*self.arguments("--cushion=exhaustive", "--paper", "--cushion-sample=6",
                                         "--cushion-tau=9", "--cushion-max=3"))
        self.assertIsNone(found["cushion"]["cost"])
        rounds = found["cushion"]["rounds"]
        self.assertEqual([r["place"] for r in rounds], ["end", "end"])
        self.assertEqual(found["prefix"], [1, *(r["token"] for r in rounds)])
        self.assertEqual(self.json("inspect", self.path("out"))["w8a8"]["prefix"]["method"],
                         "cushion")

    def test_where_a_cushion_grows(self):
        """A token refused before the last one may be accepted at the end. One that costs the text
        too much is refused in both places."""
        self.text = self.write("long", TEXT[:len(TEXT) // 2] * 3)

        def searched(want, *args, start=(1,)):
            args = ["--cushion=auto", "--cushion-max=3", *args]
            _, search = self.cushioned(*args, start=start)
            self.assertEqual([(r["place"], r["why_not"], r["refused"]) for r in search["rounds"]],
                             want)
            return subprocess.run([*TUFFET, *self.arguments("--cushion-sample=6", *args)],
                                  capture_output=True, timeout=PATIENCE).stderr.decode()
        line = r'cushion: error \S+ -> \S+, \S+ nats per token: token \d+, "[^"]+"'
        said = searched([("end", None, 0), ("before last", "error", 0), ("end", None, 0)],
                        "--cushion-tau=0.6", "--cushion-cost=9",
                        "--cushion-max=4", "--intact-tokens=1,20", start=[1, 20])
        self.assertRegex(said,
                         f"^{line}\n{line}, before the last: refused, the error falls too little\n"
                         f"{line}\n")
        said = searched([("end", None, 1)], "--cushion-tau=9", "--cushion-cost=0",
                        "--intact-tokens=1,50", start=[1, 50])
        self.assertRegex(said, f"^{line}; 1 with less error raised -ln p too much\n")
        said = searched([("end", "likelihood", 4)], "--cushion-tau=9", "--cushion-cost=0",
                        "--intact-tokens=1,10", start=[1, 10])
        self.assertRegex(said, f"^{line}: refused, it raises -ln p too much\n")

    def test_every_option_changes_the_file(self):
        calib = ["--calib-tokens=512", "--calib-window=64"]
        files = [self.read(self.quantized(*calib))]
        for args in ["--calib-tokens=128", "--calib-window=100", "--smooth=0.8", "--rotate=o",
                     "--rotate=none", "--rotate=o+down",
                     "--cushion=auto --cushion-tau=9 --cushion-cost=9 --cushion-max=2 "
                     "--cushion-sample=6",
                     "--bits=4", "--bits=3", "--bits=2", "--bits=4 --group=32",
                     "--bits=4 --rounding=nearest", "--bits=4 --rounding=awq",
                     "--bits=4,ffn_down=8", "--bits=ffn_down=4",
                     "--bits=4 --tune --calib-window=32 --calib-tokens=64 --tune-epochs=1 "
                     "--tune-rate=0.1",
                     "--intact=none", "--intact-text=hello world",
                     "--intact-tokens=5,1", "--dynamic=all",
                     "--tune --calib-window=32 --calib-tokens=64 --tune-epochs=1 --tune-rate=0.1"]:
            files.append(self.read(self.quantized(*calib, *args.split(" --")[:1],
                                                  *("--" + a for a in args.split(" --")[1:]))))
            self.assertIn(b"yes", self.tuffet("inspect", self.path("out")), args)
        for args in [["--range=min-max"], ["--range=percentile"],
                     ["--range=percentile", "--percentile=90"], ["--weights=per-tensor"]]:
            self.lab(*self.arguments(*calib, *args))
            files.append(self.read(self.path("out")))
        self.assertEqual(len(set(files)), len(files))
        self.lab(*self.arguments(*calib, "--range=mse", "--weights=per-channel"))
        self.assertEqual(self.read(self.path("out")), files[0])
        for args in ["--intact=auto", "--intact=bos", "-t3", "--intact-text=", "--cushion=none",
                     "--rotate=auto", "--bits=8", "--bits=4,8", "--rounding=awq"]:
            self.assertEqual(self.read(self.quantized(*calib, args)), files[0], args)

    def test_bits_of_weights(self):
        model = self.quantized("--bits=3,ffn_down=8,1.attn_v=4,0-1.attn_q=2,0=4", "--group=32")
        kept = "int8 per channel, in groups of 32 of 2 bits in 1 matrices, 3 in 4, 4 in 8"
        self.assertEqual(self.json("inspect", model)["w8a8"]["weights"], kept)
        self.assertTrue(self.tuffet("run", model, "-phello", "-s3", "-n5"))
        for wrong in ["5", "4g", "4g16", "4g320", "8g32", "4g32g", "attn_q=", "=4", "4=4", "g32",
                      "attn_q=4g", "0-3=4", "attn_q"]:
            self.assertIn(f'--bits: "{wrong}" is neither 2, 3, 4 or 8',
                          self.fails(*self.arguments(f"--bits={wrong}"), status=2))
        self.assertEqual(self.left(), ["out"])

    def test_groups_by_matrix(self):
        """The same file, whether groups come from --group or from --bits."""
        by_matrix = self.quantized("--bits=4g32,ffn_down=3g128,1.attn_q=2,0.attn_v=8",
                                   "--group=64", out="out-by-matrix")
        facts = self.json("inspect", by_matrix)
        self.assertEqual(facts["w8a8"]["weights"],
                         "int8 per channel, in groups of 32 of 2 bits in 1 matrices, 4 in 10, "
                         "in groups of 128 of 3 bits in 2 matrices")
        self.assertTrue(self.tuffet("run", by_matrix, "-phello", "-s3", "-n5"))
        for rounding in ("gptq", "nearest", "awq"):
            files = [self.read(self.quantized(*args, f"--rounding={rounding}")) for args in
                     [("--bits=4g32",), ("--bits=4", "--group=32")]]
            self.assertEqual(*files)

    def test_groups_without_an_option(self):
        """64, or 32 where that takes no more bytes, because of padding."""
        def matrices(*args, **settings):
            model = self.quantized("--bits=4", *args, model=self.toy(endless=1, **settings))
            return {t["name"]: t for t in self.json("inspect", model)["tensors"]
                    if t["type"].startswith("int4")}

        kinds = set()
        for settings in {}, {"wide": 1}:
            own, fine, usual = (matrices(*args, **settings)
                                for args in [(), ("--group=32",), ("--group=64",)])
            self.assertEqual(len(own), 14)
            for name, t in own.items():
                less = fine[name]["bytes"] <= usual[name]["bytes"]
                self.assertEqual(t, (fine if less else usual)[name] | {"offset": t["offset"]})
                kinds.add(t["type"])
        self.assertEqual(kinds, {"int4 g32", "int4 g64"})

    def test_search_for_bits_of_weights(self):
        budget = ["--bits-search=5.5", "--group=32", "--calib-window=64"]
        found = self.json(*self.arguments(*budget))["bits_search"]
        model = self.path("out")
        self.assertEqual(len(found["matrices"]), 14)
        self.assertEqual(found["matrices"][7]["name"], "blk.1.attn_q")
        self.assertLessEqual(found["bits"], 5.5)
        self.assertGreater(min(m["loss"] for m in found["matrices"]), found["floor"])
        kinds = {t["name"]: t["type"] for t in self.json("inspect", model)["tensors"]}
        for m in found["matrices"]:
            self.assertEqual(kinds[m["name"] + ".weight"],
                             "I8" if m["bits"] == 8 else f"int{m['bits']} g32")
        by_hand = ["--bits", found["as"], *budget[1:]]
        hand = self.json("inspect", self.quantized(*by_hand, out="out-by-hand"))
        facts = self.json("inspect", model)
        self.assertEqual(hand["values"]["tuffet.checksum"], facts["values"]["tuffet.checksum"])
        # the file tells the expected loss of each matrix, which inspect shows
        self.assertFalse([t for t in hand["tensors"] if "nats" in t])
        nats = {t["name"]: t.get("nats", 0) for t in facts["tensors"]}
        for m in found["matrices"]:
            self.assertAlmostEqual(nats.pop(m["name"] + ".weight"), m["cost"],
                                   delta=1e-4 * m["cost"])
            self.assertEqual(m["cost"] > 0, m["bits"] < 8)
        self.assertFalse(any(nats.values()))
        first = max(found["matrices"], key=lambda m: m["cost"])
        self.assertRegex(self.tuffet("inspect", model).decode(),
                         rf"\nrounding +[0-9.e-]+ nats expected: {first['name']}\.weight [0-9.]+")
        self.assertRegex(self.tuffet("inspect", model, "--tensors").decode(),
                         rf" {first['name']}\.weight  [0-9.e-]+ nats\n")
        said = subprocess.run([*TUFFET, *self.arguments(*budget, out="out-said")],
                              capture_output=True, text=True, check=True).stderr
        self.assertIn(f"bits each in the layers: --bits {found['as']}\n", said)
        self.assertEqual(self.left(), ["out", "out-by-hand", "out-said"])

    def test_losses_of_matrices_beside_new_tensors(self):
        """A file that is written once more, with tensors of a named prefix, keeps the losses."""
        search = ["--bits-search=5.5", "--calib-window=64"]
        plain, more = (
            {t["name"]: t["nats"] for t in self.json("inspect", model)["tensors"] if "nats" in t}
            for model in [self.quantized(*search), self.quantized(
                *search, "--intact-system=Be brief", "--template=chatml", out="out-more")])
        self.assertTrue(plain)
        self.assertEqual(plain, more)

    def test_search_for_bits_within_bytes(self):
        """The file is as small as the budget says, and nearly as large."""
        least, most = (os.path.getsize(self.quantized(f"--bits={bits}")) for bits in (2, 8))
        for part in (0.3, 0.5, 0.7):
            budget = int(least + part * (most - least))
            size = os.path.getsize(self.quantized(f"--bits-search={budget / 1e6:.6f}MB",
                                                  "--calib-window=64"))
            self.assertLessEqual(size, budget)
            self.assertGreater(size, budget - 5000)

    def test_budgets_of_bits_that_cannot_be_met(self):
        for budget in ["", "0", "-2", "x", "2.5.1", "2,5", "1e1", "nan", "8.1", "MB", "0MB", "5GB",
                       "5MB ", "5B", "9999999999MB", "99999999999999999999MB", " 2"]:
            self.assertIn(f'like 700MB, not "{budget}"',
                          self.fails(*self.arguments("--bits-search", budget), status=2))
        for args, why in [(["--bits-search=2"],
                           "bits, more than the budget of 2"),
                          (["--bits-search=2", "--group=64"],
                           "bits with groups of 64, more than the budget of 2"),
                          (["--bits-search=0.001MB"], "more than the budget of 1000"),
                          (["--bits-search=5", "--calib-tokens=40"], "two windows")]:
            self.assertIn(why, self.fails(*self.arguments("--calib-window=40", *args)))
        for args, why in [(["--bits-search=4", "--bits=4"], "exclude each other")]:
            self.assertIn(why, self.fails(*self.arguments(*args), status=2))
        self.assertEqual(self.left(), [])

    def test_inspect_shows_bits(self):
        model = self.quantized("--bits=3,ffn_down=8,attn_v=4", "--group=32")
        facts = self.json("inspect", model)
        kinds = {t["name"]: t["type"] for t in facts["tensors"] if t["name"].endswith("weight")}
        for part, kind in {"attn_q": "int3 g32", "attn_v": "int4 g32", "ffn_up": "int3 g32",
                           "ffn_down": "I8", "attn_norm": "F32"}.items():
            self.assertEqual([kinds[f"blk.{layer}.{part}.weight"] for layer in range(2)],
                             [kind] * 2)
        self.assertEqual({kind: facts["types"][kind]["tensors"] for kind in facts["types"]
                          if kind.startswith("i")}, {"int3 g32": 10, "int4 g32": 2})
        own = sum(t["bytes"] for t in facts["tensors"] if not t["name"].startswith("tuffet."))
        self.assertAlmostEqual(facts["bits"], 8 * own / facts["parameters"], delta=1e-4)
        self.assertLess(facts["bits"], self.json("inspect", self.quantized())["bits"])
        self.quantized("--bits=3,ffn_down=8,attn_v=4", "--group=32")
        text = self.tuffet("inspect", model).decode()
        self.assertRegex(text, r"\ntensors .*, 10 int3 g32 \(.* kB\), 2 int4 g32 \(.*\)[\n,]")
        self.assertRegex(text, rf"\nparameters +{facts['parameters']}, {facts['bits']:.2f} bits")
        self.assertRegex(self.tuffet("inspect", model, "--tensors").decode(),
                         r"\nint4 g32 .* blk\.0\.attn_v\.weight\n")

    def test_a_cache_of_the_file(self):
        plain = self.quantized()
        named = self.quantized("--kv=tuffet:window=0,group=16,k=1@mixed,v=1", out="out-named")
        args = ["-phello", "-s1", "-n60"]
        asked = self.tuffet("run", plain, *args, "--kv=tuffet:window=0,group=16,k=1@mixed,v=1")
        self.assertNotEqual(self.tuffet("run", plain, *args), asked)
        self.assertEqual(self.tuffet("run", named, *args), asked)
        self.assertEqual(self.tuffet("run", named, *args, "--kv=i8"),
                         self.tuffet("run", plain, *args))
        per_token = [self.json("inspect", i)["memory"]["kv_per_token"] for i in (plain, named)]
        # keys, then values in groups of 16 channels: codes and scales of each
        block = (8 * 16 // 8 + 4 * 8) + (16 * 16 // 8 + 4 * 16)
        # i8 has 16 sums of 256 slots
        self.assertEqual(per_token, [2 * 2 * (16 + 4 + 4 + 16 + 4 + 1 / 4), 2 * 2 * block // 16])
        data = self.read(named)
        at = data.index(b"tuffet:window=0")
        broken = self.write("broken", data[:at] + b"taffet" + data[at + 6:])
        self.assertIn('tuffet.kv: no KV cache is called "taffet"', self.fails("run", broken, *args))

    def test_a_file_with_a_deleted_knob(self):
        """Files of earlier versions may have residual, which is window. Command lines may not."""
        new = self.quantized("--kv=kivi:window=0016,group=16,bits=1", out="out-new")
        data = self.read(new)
        self.assertEqual(data.count(b"window=0016"), 1)
        old = self.write("old", data.replace(b"window=0016", b"residual=16"))
        args = ["-phello", "-s1", "-n60"]
        text = self.tuffet("run", new, *args)
        self.assertEqual(self.tuffet("run", old, *args), text)
        self.assertNotEqual(self.tuffet("run", old, *args, "--kv=f16"), text)
        self.assertEqual(*(self.json("inspect", i)["memory"] for i in (old, new)))
        self.assertIn("residual is window: write window=N",
                      self.fails("run", new, *args, "--kv=kivi:residual=16", status=2))

    def test_values_that_exceed_f16(self):
        """The model computes what the toy computes; only a cache of f32 can hold its values."""
        toy, large = self.toy(endless=1), self.toy(endless=1, values=1e6)
        self.assertIn("NaN or infinity", self.fails("run", large, "-phello", "-n1", "--kv=f16"))
        said = subprocess.run([*TUFFET, *self.arguments("--kv=f32", model=large)],
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(b"made without a prefix: keys or values exceed f16", said.stderr)
        losses = [self.json("ppl", model, "-f", self.text, "--ctx=64")["nll"]
                  for model in (self.path("out"), self.quantized("--kv=f32", "--intact=none",
                                                                 model=toy, out="out-toy"))]
        self.assertAlmostEqual(*losses, delta=0.05)
        own, f16 = (self.json("inspect", self.path("out"), *args)["memory"]["kv_per_token"]
                    for args in ([], ["--kv=f16"]))
        self.assertEqual(own, 2 * f16)
        for args in (["--rotate=none", "--smooth=0.5"], ["--bits=4", "--group=32"],
                     ["--bits-search=6", "--group=32"], ["--dynamic=auto"]):
            self.assertEqual(self.json(*self.arguments("--kv=f32", "--intact=none", *args,
                                                       model=large))["prefix"], [])
        for args in (["--intact=bos"], ["--intact-tokens=5,6"],
                     ["--cushion=auto", "--cushion-max=2", "--cushion-sample=8"],
                     ["--intact=none", "--intact-system=Be brief", "--template=chatml"]):
            self.assertIn("keys or values exceed f16",
                          self.fails(*self.arguments("--kv=f32", "--json", *args, model=large)))
        with_prefix = self.json(*self.arguments("--kv=f32", model=toy))  # its values fit
        self.assertEqual(with_prefix["prefix"], self.json(*self.arguments(model=toy))["prefix"])

    SEARCH = ["--calib-window=40", "--calib-tokens=200", "--kv=tuffet:window=0,group=16"]

    def test_bits_by_layer(self):
        """The result is the file's default KV cache and within the budget. Nothing else changes."""
        plain = self.json("inspect", self.quantized(*self.SEARCH, out="out-plain"))
        found = self.json(*self.arguments(*self.SEARCH, "--kv-search=60B"))["kv_search"]
        self.assertEqual(set(found), {"budget", "floor", "k", "v", "tried", "searched", "uniform",
                                      "kept"})
        self.assertEqual((found["budget"], found["tried"]), (60, []))
        self.assertEqual(self.left(), ["out", "out-plain"])
        for side, bits, alone in [("k", [1, 1.25, 1.5, 2, 2.5, 3, 4], 1.25),
                                  ("v", [1, 1.5, 2, 3, 4, 8], 1)]:
            self.assertEqual(([point["bits"] for point in found[side]["all"]],
                              found[side]["alone"]), (bits, alone))
            self.assertGreater(found[side]["all"][0]["divergence"],
                               found[side]["all"][-1]["divergence"])
            self.assertEqual([set(layer) for layer in found[side]["layers"]],
                             [{"bits", "divergence"}] * 2)
        k, v = ["/".join(f"{layer['bits']:g}" for layer
                         in found[side]["layers"]).replace("/", "x1/", 1) for side in "kv"]
        self.assertIn(found["searched"]["kv"],
                      [f"tuffet:window=0,group=16,k={a},v={b}" for a in [k, k.split("/")[-1]] for b
                       in [v, v.split("/")[-1]]])
        kept = found[found["kept"]]
        self.assertEqual(kept["divergence"],
                         min(found["searched"]["divergence"], found["uniform"]["divergence"]))
        facts = self.json("inspect", self.path("out"))
        self.assertEqual(facts["memory"]["kv_per_token"], kept["bytes"])
        self.assertLessEqual(kept["bytes"], 60)
        self.assertEqual(facts["values"].pop("tuffet.kv"), kept["kv"])
        plain["values"].pop("tuffet.kv")
        for values in [facts["values"], plain["values"]]:
            values.pop("tuffet.checksum")
            values.pop("tuffet.held_out")  # with the other cache
        self.assertEqual((facts["values"], [t["name"] for t in facts["tensors"]]),
                         (plain["values"], [t["name"] for t in plain["tensors"]]))
        self.assertIn(b"correct", self.tuffet("inspect", self.path("out"), "--verify"))
        args = ["-phello", "-s1", "-n60"]
        self.assertEqual(self.tuffet("run", self.path("out"), *args),
                         self.tuffet("run", self.path("out-plain"), *args, "--kv", kept["kv"]))

        # the same budget in bits per number; -t has no effect
        again = self.json(*self.arguments(*self.SEARCH, "--kv-search=7.5", "-t3",
                                          out="out-again"))["kv_search"]
        self.assertEqual(again, found)
        self.assertEqual(self.read(self.path("out-again")), self.read(self.path("out")))

    def test_settings_at_a_depth(self):
        """With a depth, clip, retention and group are searched too, and the budget counts slots."""
        found = self.json(*self.arguments("--calib-window=160", "--calib-tokens=800", "--kv="
                                          "tuffet:window=0,group=16,clip=none",
                                          "--kv-search=7.5@700"))["kv_search"]
        tried = found["tried"]
        self.assertTrue(all(t["bytes"] <= 60 for t in tried))
        for knob in ["clip=centre", "clip=zero", "retain=window:32", "v=@channel", "group=32"]:
            self.assertTrue(any(knob in t["kv"] for t in tried), knob)
        best = min(tried, key=lambda t: t["divergence"])["kv"].split(",k=")[0]
        self.assertEqual(found["searched"]["kv"].split(",k=")[0], best)
        facts = self.json("inspect", self.path("out"))
        self.assertEqual(facts["values"]["tuffet.kv"], found[found["kept"]]["kv"])

    def test_bits_by_layer_for_people_and_after_tuning(self):
        said = subprocess.run([*TUFFET, *self.arguments(*self.SEARCH, "--kv-search=60B", "--tune",
                                                        "--tune-epochs=1")], capture_output=True,
                              timeout=PATIENCE).stderr.decode()
        self.assertRegex(said,
                         r"(?m)^cache: \d+ bytes per token, \S+ nats from f16 on held-out text: "
                         r"tuffet:window=0,group=16,k=\S+,v=\S+\n {7}\S")
        self.assertEqual(self.left(), ["out"])
        facts = self.json("inspect", self.path("out"))
        self.assertEqual(facts["w8a8"]["prefix"]["tuned"], "prediction")
        self.assertLessEqual(facts["memory"]["kv_per_token"], 60)

    def test_what_cannot_be_searched(self):
        for budget in ["", "0", "-2", "x", "2.5.1", "2,5", "1e1", "nan", "16.5", "B", "0B", "5.5B",
                       "5B ", "5KB", "9999999999B", " 2", "@9", "2@", "2@0", "2@x", "2@9B", "2 @9"]:
            self.assertIn(f'5632B, and a depth like @8192, not "{budget}"',
                          self.fails(*self.arguments(*self.SEARCH, "--kv-search", budget),
                                     status=2))
        for args, why in [(["--kv-search=20B"],
                           "takes at least 36 bytes in this cache, more than the budget of 20"),
                          (["--kv-search=60B", "--kv=f16"], "f16 has no bits to search for"),
                          (["--kv-search=60B", "--kv=skvq"], "search with clip=zero"),
                          (["--kv-search=60B@100"], "at this depth, f16 slots included"),
                          (["--kv-search=60B", "--kv=tuffet"],
                           "a window of 40 tokens is too short"),
                          (["--kv-search=60B", "--calib-tokens=40"], "two windows")]:
            self.assertIn(why, self.fails(*self.arguments(*self.SEARCH, *args)))
        self.assertEqual(self.left(), [])

    def test_a_cache_that_is_calibrated(self):
        kv = "skvq:window=0,sinks=0,group=16,v=1.5"
        plain, named = self.quantized(), self.quantized(f"--kv={kv}", out="out-named")
        args = ["-phello", "-s1", "-n60"]
        text = self.tuffet("run", named, *args)
        self.assertEqual(self.tuffet("run", named, *args, f"--kv={kv}"), text)
        self.assertNotEqual(self.tuffet("run", named, *args, f"--kv={kv},clip=none"), text)
        self.assertEqual(self.tuffet("run", named, *args, "--kv=i8"),
                         self.tuffet("run", plain, *args))
        self.assertIn(f"not calibrated for this KV cache, but for {kv}",
                      self.fails("run", named, *args, "--kv=skvq"))
        self.assertIn("but for none: ", self.fails("run", plain, *args, "--kv=skvq"))
        self.assertIn(b"yes", self.tuffet("inspect", named, "--verify"))
        self.assertGreater(self.json("inspect", named)["memory"]["kv_per_token"], 0)
        self.assertEqual(self.json("inspect", named, "--kv=skvq")["memory"]["kv_per_token"], 0)

    def test_windows(self):
        """Two windows of four, the second and the fourth of which are kept out. If the prefix has
        no BOS, BOS replaces their first tokens."""
        def inputs(changed, *args):
            # the tokenizer puts a space in front, and a token is a byte
            text = bytearray(b"QZXJKVWQ" * 64 + b"QZXJKVW")
            if changed:
                text[changed - 1] = ord("B")
            self.write("text", bytes(text))
            found = self.json(*self.arguments("--calib-window=130", "--calib-tokens=260", *args))
            self.assertEqual((found["tokens"], found["window"]), (260, 130))
            return found["inputs"]
        for intact, first_counts in [("--intact=bos", True), ("--intact=none", False)]:
            whole = inputs(None, intact)
            for token, counts in [(65, True), (195, False), (260, first_counts), (325, True),
                                  (455, False)]:
                self.assertEqual(inputs(token, intact) != whole, counts, (intact, token))

    def test_prefixes(self):
        def prefix(*args, **where):
            return self.json(*self.arguments(*args, **where))["prefix"]
        self.assertEqual(prefix("--intact=none"), [])
        self.assertEqual(prefix("--intact-tokens=0,419"), [0, 419])
        self.assertEqual(prefix("--intact-text=hello"),
                         [1, *self.json("tokenize", self.toy(), "-phello")["tokens"]])
        marked = "<|user|>\nhello</s>\n"
        tokens = self.json("tokenize", self.toy(), "--special", "-p", marked)["tokens"]
        self.assertLess(len(tokens), 8)
        for text in [marked, "<s>" + marked]:  # BOS once
            self.assertEqual(prefix("--intact-text", text, model=self.toy()), [1, *tokens])
        # fills the context
        self.assertEqual(len(prefix("--intact-tokens", ",".join(["1"] * 200), "--calib-window=56")),
                         200)
        gpt2 = self.toy(vocab="gpt2")  # its tokenizer does not add BOS
        self.assertEqual(prefix(model=gpt2), [])
        self.assertEqual(prefix("--intact=bos", model=gpt2),
                         [self.json("inspect", gpt2)["tokenizer"]["bos"]])
        self.assertIn("no BOS",
                      self.fails(*self.arguments("--intact=bos",
                                                 model=self.toy(vocab="gpt2", endless=1))))

    def test_a_prefix_of_few_bits(self):
        toy, ppl, files, size = self.toy(endless=1, kv=4), [], [], 2 * 2 * 32
        for bits, kind, shape, bytes in [(16, "F16", [8, 4, 2, 2], 2 * size),
                                         (8, "Q8_0", [32, 2, 2], size // 32 * 34),
                                         (4, "Q4_1", [32, 2, 2], size // 32 * 20)]:
            model = self.quantized("--intact-tokens=1,9", f"--prefix-bits={bits}", model=toy)
            facts = self.json("inspect", model)
            for name in ["tuffet.prefix.k", "tuffet.prefix.v"]:
                tensor = next(t for t in facts["tensors"] if t["name"] == name)
                self.assertEqual((tensor["type"], tensor["shape"], tensor["bytes"]),
                                 (kind, shape, bytes))
            self.assertEqual(facts["types"][kind], {"tensors": 2, "bytes": 2 * bytes})
            files.append(self.read(model))
            ppl.append(self.json("ppl", model, "-f", self.text, "--ctx=64")["ppl"])
            self.assertIn(b"correct", self.tuffet("inspect", model, "--verify"))
            memory = facts[
                "memory"]["weights"] if bits == 16 else memory + 2 * 2 * size * (bits == 8)
            self.assertEqual(facts["memory"]["weights"], memory)  # the prefix is held once, as f16
        self.assertEqual(files[0], self.read(self.quantized("--intact-tokens=1,9", model=toy)))
        self.assertEqual(len(set(ppl)), 3)
        self.assertAlmostEqual(ppl[1] / ppl[0], 1, delta=0.01)
        self.assertAlmostEqual(ppl[2] / ppl[0], 1, delta=0.05)

        narrow = self.toy(endless=1)
        for args in [[], ["--cushion=exhaustive"], ["--cushion=exhaustive", "--intact=none"]]:
            os.remove(self.path("out")) if self.left() else None
            self.assertEqual(self.fails(*self.arguments("--prefix-bits=4", *args, model=narrow)),
                             f"tuffet: {narrow}: a token has 2 x 8 keys, not a multiple of 32: "
                             "store the prefix as F16, not Q4_1")
            self.assertEqual(self.left(), [])
        # no prefix, so no error
        self.json(*self.arguments("--prefix-bits=4", "--intact=none", model=narrow))

    def test_a_prompt_that_begins_with_the_prefix(self):
        text, more = "hello world, once", " upon a time and"
        bare, held = self.quantized(), self.quantized("--intact-text", text, out="out2")
        facts = self.json("inspect", held)["values"]
        self.assertEqual(facts["tuffet.prefix.text"], len(facts["tuffet.prefix.tokens"]) - 1)
        self.assertNotIn("tuffet.prefix.text", self.json("inspect", bare)["values"])

        def run(*args, model=held):
            found = self.json("run", model, "-n12", "--temp=0", *args)
            return found["text"], found["prompt_tokens"], found["prefix_tokens"]
        tokens = [len(self.json("tokenize", bare, "-p", t)["tokens"]) for t in [text, text + more]]
        self.assertEqual(run("-p", text + more)[1:], (tokens[1], tokens[0]))
        self.assertEqual(run("-p", text + more, model=bare)[1:], (tokens[1], 0))
        # a prompt that is the text, and one that is empty, begin where the prefix ends
        self.assertEqual(run("-p", text), (run("-p", "", "--special")[0], tokens[0], tokens[0]))
        self.assertEqual(run("-p", text + more, "--special")[2], tokens[0])
        self.assertEqual(run("-p", "<s>" + text, "--special")[1:], (tokens[0], tokens[0]))
        # other text comes behind it
        self.assertEqual(run("-p", "the end")[2], 0)
        # one that is fed twice over is another
        self.assertNotEqual(run("-p", text + more)[0],
                            run("-p", text + "," + text + more)[0])

    def test_a_prefix_of_the_template_s_first_tokens(self):
        """Chat and others feed the rest of a conversation. The file says how many tokens are text:
        those that all conversations begin with, however they were named."""
        model = self.toy(template=CHATML, endless=1, vocab="gpt2", ctx=600)
        begin, prompt = "<|im_start|>", "user\nhello<|im_end|>\n<|im_start|>assistant\n"
        ids = self.json("tokenize", model, "--special", "-p", begin + prompt)["tokens"]
        start, user = ids[:2]
        said = self.conversations(*[{"messages": [
            {"role": "user", "content": f"hello {i}, tell me of it"},
            {"role": "assistant", "content": "once upon a time, " * 3}]} for i in range(40)])
        both = f"--intact-tokens={start},{user}"
        for args, text in [([f"--intact-text={begin}"], 1), ([f"--intact-tokens={start}"], 1),
                           ([both], None), ([both, "--calib", said], 2),
                           ([f"--intact-tokens={user}", "--calib", said], None)]:
            made = self.quantized(*args, model=model)
            self.assertEqual(self.json("inspect", made)["values"].get("tuffet.prefix.text"), text,
                             args)
            if not text:
                continue

            def run(text):
                found = self.json("run", made, "--special", "-n9", "--temp=0", "-p", text)
                return found["text"], found["prompt_tokens"], found["prefix_tokens"]
            answer = run(begin + prompt)
            self.assertEqual(answer[1:], (len(ids), text))
            self.assertEqual(self.json("chat", made, "-phello", "-n9", "--temp=0")["content"],
                             answer[0])
            if text == 1:  # what is left can be written
                self.assertEqual(run(prompt), (answer[0], len(ids) - 1, 0))
            found, floats = (self.json("ppl", m, "--special", "-f", "-",
                                       stdin=(begin + prompt).encode()) for m in [made, model])
            self.assertEqual((found["tokens"], floats["tokens"]), (len(ids) - text, len(ids) - 1))
            if text == 1:  # they are the same tokens
                self.assertAlmostEqual(found["nll"], floats["nll"], delta=0.5)
        # the tokens that all conversations of the text begin with are one of the prefixes that are
        # tried where none is not enough
        outlier = self.toy(template=CHATML, endless=1, vocab="gpt2", ctx=600, outlier=start)
        tried = self.json(*self.arguments("--calib", said, "--rotate=none", model=outlier))["tried"]
        self.assertIn([start, user], [prefix["tokens"][:2] for prefix in tried])
        self.assertEqual(tried[0]["tokens"], [])

    def tuned(self, *args):
        """The report of tuning with one window of five held out, and the model's perplexity."""
        found = self.json(*self.arguments("--calib-window=32", "--calib-tokens=160", *args))["tune"]
        self.assertEqual(len(found["validation"]), 2 * found["epochs"] + 1)
        self.assertEqual(found["validation"][found["kept"]], min(found["validation"]))
        self.assertEqual(self.left(), ["out"])
        self.assertIn(b"correct", self.tuffet("inspect", self.path("out"), "--verify"))
        self.assertEqual(self.json("inspect", self.path("out"))["w8a8"]["prefix"]["tuned"],
                         found["loss"])
        return found, self.json("ppl", self.path("out"), "-f", self.text, "--ctx=32",
                                "-n160")["ppl"]

    def test_tuning(self):
        self.json(*self.arguments("--calib-window=32", "--calib-tokens=160"))
        before = self.json("ppl", self.path("out"), "-f", self.text, "--ctx=32", "-n160")["ppl"]
        found, after = self.tuned("--tune", "--tune-rate=0.1")
        self.assertEqual((found["loss"], found["epochs"]), ("prediction", 2))
        self.assertLess(found["validation"][found["kept"]], 0.99 * found["validation"][0])
        self.assertLess(after, before)
        self.assertIn(b"tuned by prediction", self.tuffet("inspect", self.path("out")))
        found, _ = self.tuned("--calibrate", "--tune-epochs=1", "--tune-rate=0.001",
                              "--prefix-bits=16")
        self.assertEqual((found["loss"], found["epochs"]), ("layer outputs", 1))
        self.json(*self.arguments("--tune", "--calib-window=32", "--calib-tokens=160",
                                  "--prefix-bits=8", model=self.toy(endless=1, kv=4)))
        self.assertEqual(self.json("inspect", self.path("out"))["types"]["Q8_0"]["tensors"], 2)
        said = subprocess.run([*TUFFET,
                               *self.arguments("--tune", "--calib-window=32", "--calib-tokens=160",
                                               "--tune-rate=0.1")], capture_output=True,
                              timeout=PATIENCE).stderr.decode()
        self.assertRegex(said,
                         r"(?m)^tuning: loss on held-out text \S+ -> \S+, "
                         r"after \d\.\d of 2 epochs$")

    def test_ranges_behind_the_tuned_prefix(self):
        args = ["--calib-window=32", "--calib-tokens=160"]
        before = self.json(*self.arguments(*args))["inputs"]
        found = self.json(*self.arguments(*args, "--tune", "--tune-rate=0.1"))
        after, last = found["inputs"], len(before) - 1
        self.assertGreater(found["tune"]["kept"], 0)
        self.assertEqual(after[0], before[0])  # the first one reads the text alone
        for i in 1, last:
            self.assertNotEqual((after[i]["min"], after[i]["max"]),
                                (before[i]["min"], before[i]["max"]))
        self.assertEqual(self.left(), ["out"])
        few = [self.json(*self.arguments(*args, "--bits=4", *more)) for more in
               ([], ["--tune", "--tune-rate=0.1"])]
        self.assertGreater(few[1]["tune"]["kept"], 0)
        self.assertEqual(few[1]["inputs"], few[0]["inputs"], "weights of few bits stay")

    def test_what_cannot_be_tuned(self):
        for args, why in [(["--tune", "--calibrate"], "exclude each other"),
                          (["--tune", "--intact=none"], "no prefix"),
                          (["--calibrate", "--calib-tokens=255"], "two windows")]:
            self.assertIn(why, self.fails(*self.arguments(*args), status=2))
            self.assertEqual(self.left(), [])

    def test_dynamic(self):
        token = {name: "token" for name in INPUTS}
        for list, names in {"all": INPUTS, "output": INPUTS[-1:], "0": INPUTS[:4],
                            "0-1": INPUTS[:-1], "ffn_down": INPUTS[3:8:4],
                            "1.attn_q": INPUTS[4:5], "0-1.attn_output": INPUTS[1:8:4],
                            "0.ffn_up,output,1": [INPUTS[2], *INPUTS[4:]]}.items():
            self.assertEqual(self.ranges("--dynamic", list), {name: token[name] for name in names},
                             list)
        model = self.quantized("--dynamic=all")
        self.assertGreater(len(self.tuffet("run", model, "-phello", "-s1", "-n20")), 5)
        self.assertEqual(self.json("inspect", model)["w8a8"]["inputs"],
                         {"static": 0, "token": 9, "lossy": 0, "worst": []})

    def test_models_of_every_kind(self):
        for settings in [{"arch": "qwen2"}, {"arch": "qwen3"}, {"arch": "gpt2", "vocab": "gpt2"},
                         {"type": "q8_0"}]:
            model = self.quantized("--smooth=0.5", model=self.toy(endless=1, **settings))
            self.assertGreater(len(self.tuffet("run", model, "-phello", "-s1", "-n20")), 5)

    def test_a_checksum_is_not_handed_on(self):
        # 64 bytes more before the data, so that tensors stay aligned
        data = self.read(self.toy(endless=1))
        more = struct.pack("<Q15sII", 15, b"tuffet.checksum", 4,
                           1) + struct.pack("<Q20sI?", 20, b"0123456789" * 2, 7, True)
        tensors, values = struct.unpack_from("<QQ", data, 8)
        model = self.write("checked",
                           data[:8] + struct.pack("<QQ", tensors, values + 2) + more + data[24:])
        self.assertIn(b"correct", self.tuffet("inspect", self.quantized(model=model), "--verify"))

    def test_a_llama2c_model(self):
        random.seed(1)
        dim, hidden, layers, heads, kv_heads, vocab, ctx = shape = 16, 32, 1, 2, 1, 260, 64
        kv = dim // heads * kv_heads
        data = struct.pack("<7i", *shape)
        for n, mean in [(vocab * dim, 0), (dim, 1), (dim * dim, 0), (dim * kv, 0), (dim * kv, 0),
                        (dim * dim, 0), (dim, 1), (dim * hidden, 0),
                        (dim * hidden, 0), (dim * hidden, 0), (dim, 1), (ctx * dim // heads, 0)]:
            data += struct.pack(f"<{n}f", *(random.gauss(mean, 0.3) for _ in range(n)))
        pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256)),
                  b" "]
        words = struct.pack("<i", max(map(len, pieces))) + b"".join(struct.pack("<fi", 0, len(p))
                                                                    + p for p in pieces)
        model, tokenizer = self.write("model.bin", data), self.write("tokenizer.bin", words)
        self.assertIn("--tokenizer FILE", self.fails(*self.arguments(model=model)))
        result = self.quantized("--tokenizer", tokenizer, model=model)
        facts = self.json("inspect", result)
        self.assertEqual((facts["format"], facts["tokenizer"]["tokens"],
                          facts["memory"]["context"]), ("gguf", 260, 63))
        # the file contains the tokenizer
        self.assertEqual(self.json("run", result, "-phello", "-s1", "-n5")["prompt_tokens"], 6)

    def test_wrong_use(self):
        toy = self.toy(endless=1)
        self.assertIn("-o FILE", self.fails("quantize", toy, "--calib", self.text, status=2))
        for args, why in [
            (["--smooth=2"], "within 0 .. 1"), (["--smooth=nan"], "--smooth"),
            (["--rotate=x"], "auto|none|o|o+down|all"),
            (["--intact=eos"], "auto|none|bos"), (["--prefix-bits=3"], "16|8|4"),
            (["--range=mse"], "--range"), (["--weights=per-tensor"], "--weights"),
            (["--dynamic-per=token"], "--dynamic-per"), (["--cushion=paper"], "exhaustive"),
            (["--intact=bos", "--intact-text=a"], "exclude each other"),
            (["--intact=none", "--intact-tokens=1"], "exclude each other"),
            (["--intact-text=a", "--intact-tokens=1"], "exclude each other"),
            (["--calib-tokens=0"], "at least 1"),
            (["--group=16"], "32, 64 or 128"), (["--rounding=up"], "gptq|nearest|awq"),
            (["--bits=4", "--rounding=awq", "--smooth=0.5"], "scale the same inputs"),
            (["--calib-tokens=100"], "less than the window of 252"),
        ]:
            self.assertIn(why, self.fails(*self.arguments(*args), status=2))
        for args, why in [(["--range=x"], "min-max|percentile|mse"),
                          (["--percentile=0"], "above 0"),
                          (["--bits=4", "--weights=per-tensor"], "leave out --weights per-tensor"),
                          (["--percentile=101"], "at most 100")]:
            done = subprocess.run([*LAB, *self.arguments(*args)[1:]], capture_output=True,
                                  timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (2, b""), args)
            self.assertIn(why, done.stderr.decode())
        for item in ["99", "0-99", "1-0", "0-", "ffn", "0.", "0.ffn", "0.output", "0x1", "-1", "+1",
                     " 0", "", "4294967296", "99999999999999999999",
                     "0-4294967296", "0-99999999999999999999", "all ", "0.attn_q.attn_q"]:
            for list in [item, "0," + item + ",0"]:
                self.assertIn(f'"{item}" is not an input',
                              self.fails(*self.arguments("--dynamic", list), status=2))
        for item in ["5", "1", "0", "", "16", "44", "four", "4 ", "ffn_down", "ffn_down=5", "ffn=4",
                     "ffn_down=", "=4", "output=4", "ffn_down:4", "ffn_down=4=4", "0.=4", "1-0=4",
                     "9=4", "0.ffn=4", "0-=4", "0.attn_q"]:
            for list in [item, "4," + item + ",ffn_up=8"]:
                self.assertIn(f'"{item}" is neither 2, 3, 4 or 8',
                              self.fails(*self.arguments("--bits", list), status=2))
        for list in ["", "x", "1,x", "1,", ",1", "1,,2", "-1", "420", "4294967297",
                     "99999999999999999999", "1 2", "1;2"]:
            self.assertIn(f'like 1,13, not "{list}"',
                          self.fails(*self.arguments("--intact-tokens", list), status=2))
        self.assertEqual(self.left(), [])

    def damaged(self, bits, part="ffn_up"):
        """A toy with the given bits as a weight of layer 1, row 3, of a part."""
        toy = self.toy(endless=1)
        tensor = next(t for t in self.json("inspect", toy)["tensors"]
                      if t["name"] == f"blk.1.{part}.weight")
        at = tensor["offset"] + (3 * tensor["shape"][0] + 5) * 4
        data = self.read(toy)
        return self.write(f"damaged-{part}-{bits}",
                          data[:at] + struct.pack("<I", bits) + data[at + 4:])

    def test_failures(self):
        short = self.write("short", b"hello world")
        quantized = self.quantized(out="q")
        toy, out = self.toy(endless=1), self.path("out")
        many = ",".join(["1"] * 256)
        for args, why in [
            ([toy, "-o", out, "--calib", short],
             f"{short}: has 2 tokens: a calibration text needs at least 512"),
            ([toy, "-o", out, "--calib", "no such text"], "no such text: No such file"),
            ([toy, "-o", self.path("nowhere/out"), "--calib", self.text],
             self.path("nowhere/out") + ": "),
            ([toy, "-o", self.folder.name, "--calib", self.text], self.folder.name + ": "),
            (["no such file", "-o", out, "--calib", self.text], "no such file: cannot be read"),
            ([quantized, "-o", out, "--calib", self.text],
             f"{quantized}: is already quantized: give the float model"),
            ([self.toy(vocab=""), "-o", out, "--calib", self.text], "no tokenizer"),
            ([toy, "-o", out, "--calib", self.text, "--calib-window=256"],
             "no room for a window of 256 after a prefix of 4"),
            ([toy, "-o", out, "--calib", self.text, "--intact-tokens", many],
             "no room for a window of 1 after a prefix of 256"),
            ([toy, "-o", out, "--calib", self.text, "-t2000"], "2000 threads"),
            *[([self.damaged(bits), "-o", out, "--calib", self.text],
               "NaN or infinity in the weights of blk.1.ffn_up, row 3")
              for bits in [0x7fc00000, 0x7f800000, 0xff800000]],
            *[([self.damaged(0x7fc00000, part), "-o", out, "--calib", self.text, "--rotate=all"],
               f"NaN or infinity in the weights of blk.1.{part}, row 3") for part
               in ["ffn_up", "ffn_down"]],
        ]:
            self.assertIn(why, self.fails("quantize", *args))
            self.assertEqual(self.left(), [])

    def test_a_file_is_replaced_by_a_whole_one_only(self):
        self.write("out", b"precious")
        self.assertIn("NaN", self.fails(*self.arguments(model=self.damaged(0x7fc00000))))
        self.assertEqual((self.read(self.path("out")), self.left()), (b"precious", ["out"]))
        self.assertIn(b"yes", self.tuffet("inspect", self.quantized()))
        self.assertEqual(self.left(), ["out"])

    def interrupted(self, is_there, args, sig):
        """Sends the signal when the program has such a file open: is_there(path). Returns the exit
        status and what the program has left; it prints nothing."""
        with subprocess.Popen([*TUFFET, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as p:
            wait_until(lambda: p.poll() is not None or any(map(is_there, opened(p))))
            self.assertIsNone(p.poll(), "it was too quick")
            p.send_signal(sig)
            said = p.communicate(timeout=PATIENCE)
        self.assertEqual(said, (b"", b""))
        return p.returncode, self.left()

    @SHOWS_FILES
    def test_a_kill_or_an_interrupt_of_a_step_leaves_nothing(self):
        """The model that is tuned or searched is open, and has no name in the folder; on some
        systems one that ends with a number."""
        self.text = self.write("long", TEXT * 30)
        model = self.toy(endless=1, ctx=4096)
        brief, long = [["--calib-window=32", "--calib-tokens=64"],
                       ["--calib-window=200", "--calib-tokens=3000"]]
        system = ["--intact-system=" + TEXT.decode() * 6, "--template=chatml"]
        draft = re.compile(re.escape(self.path("")) + r"(#\d+ \(deleted\)|out\.tmp\d+)")
        for name, args in [("tune", ["--tune", "--tune-epochs=100000", *brief]),
                           ("kv", ["--kv-search=8", *long]),
                           ("bits", ["--bits-search=5.5", "--group=32", *long]),
                           ("system", [*system, *brief])]:
            args = self.arguments("-t1", *args, model=model)
            with self.subTest(name):
                status, left = self.interrupted(draft.fullmatch, args, signal.SIGKILL)
                self.assertEqual(status, -signal.SIGKILL)
                for path in left:
                    self.assertRegex(path, r"\Aout\.tmp\d+\Z")
                    os.remove(self.path(path))
                if name in ["tune", "kv"]:
                    self.assertEqual(self.interrupted(draft.fullmatch, args, signal.SIGINT),
                                     (130, []))

    @SHOWS_FILES
    def test_an_interrupt_leaves_nothing(self):
        """The new file has no name, or on some systems one that ends with the process's number."""
        self.text = self.write("long", TEXT * 200)
        model = self.toy(endless=1)
        args = self.arguments("--calib-tokens=500000", "--smooth=0.5", "-t1", "--json",
                              model=model)

        def is_new(path):
            return path.startswith(self.folder.name + "/") and path not in [self.text, model]
        self.assertEqual(self.interrupted(is_new, args, signal.SIGINT), (130, []))
        status, left = self.interrupted(is_new, args, signal.SIGTERM)
        self.assertEqual(status, -signal.SIGTERM)
        for name in left:
            self.assertRegex(name, r"\Aout\.tmp\d+\Z")


main()
