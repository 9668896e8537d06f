"""tuffet inspect --activations"""
import math
import os
import re
import struct
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

from program import LAB, TUFFET, Case, interrupt, main, opened, wait_until

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/demo/stories2M.gguf")
TEXT = (b"Once upon a time, there was a little girl named Lily. She liked to play in the garden. "
        b"One day, she saw a big dog <b>&\n") * 40
SUFFIXES = ["attention", "magnitudes", "tokens"]
SVG = "{http://www.w3.org/2000/svg}"


class Activations(Case):
    def setUp(self):
        self.text = self.write("text", TEXT)

    def found(self, model, *args):
        return self.json("inspect", model, "--activations", self.text, *args)

    def w8a8(self, *args, model=DEMO):
        path = self.path("w8a8" + "".join(args) + os.path.basename(model))
        if not os.path.exists(path):
            self.tuffet("quantize", model, "-o", path, "--calib", self.text, "--calib-tokens=500",
                        "--calib-window=100", "--json", *args)
        return path

    def drawn(self):
        return sorted(name for name in os.listdir(self.folder.name) if name.endswith(".svg")
                      or ".svg" in name)

    def tearDown(self):
        for name in self.drawn():
            os.remove(self.path(name))

    def test_what_a_cache_would_change(self):
        run = self.found(DEMO, "--tokens=250")["runs"][0]
        self.assertNotIn("kept", run["blocks"][-1])  # that is the last norm
        for block in run["blocks"][:-1]:
            self.assertEqual(list(block["kept"]), ["newest", "fill", "log2", "heavy", "best"])
            for size in range(3):
                shares = [kept[size] for kept in block["kept"].values()]
                self.assertTrue(0 <= min(shares) and max(shares) == shares[-1] < 1)
            for side in "keys_of_2_bits", "values_of_2_bits":
                self.assertAlmostEqual(sum(block[side].pop("output_sizes")), 1,
                                       places=5)
            self.assertEqual(list(block["keys_of_2_bits"]), ["keys", "scores", "weights", "output"])
            self.assertEqual(list(block["values_of_2_bits"]), ["values", "output"])
            for error in [*block["keys_of_2_bits"].values(), *block["values_of_2_bits"].values()]:
                self.assertGreater(error, 0)
        self.assertIn("Effect of a quantized KV cache",
                      self.tuffet("inspect", DEMO, "--activations", self.text,
                                  "--tokens=250").decode())

    def test_layers_with_a_state_have_no_attention(self):
        model, args = self.toy(arch="qwen35", ctx=1024), ["--tokens=250"]
        blocks = self.found(model, *args)["runs"][0]["blocks"][:-1]
        self.assertEqual([block["attention"] is None for block in blocks],
                         [True, True, True, False])
        self.assertEqual(set(blocks[0]["heads"]), {None})
        self.assertIsNone(blocks[0]["kept"]["fill"][0])
        text = self.tuffet("inspect", model, "--activations", self.text, *args).decode()
        self.assertEqual(len(re.findall(r"^blk\S+ .* -  channel", text, re.M)), 3)

    def test_json(self):
        found = self.found(DEMO, "--tokens=100")
        self.assertEqual(set(found), {"file", "text", "tokens", "windows", "runs"})
        self.assertEqual((found["file"], found["text"], found["tokens"], found["windows"],
                          len(found["runs"])), (DEMO, self.text, 100, 1, 1))
        run, facts = found["runs"][0], self.json("inspect", DEMO)
        self.assertEqual(set(run), {"prefix", "window", "blocks", "inputs", "worst", "tokens"})
        self.assertEqual((run["prefix"], run["window"]), (0, 101))
        parts = ["attn_q", "attn_output", "ffn_up", "ffn_down"]
        self.assertEqual([b["name"] for b in run["blocks"]],
                         [f"blk.{i}" for i in range(facts["layers"])] + ["output_norm"])
        self.assertEqual([i["name"] for i in run["inputs"]],
                         [f"blk.{i}.{p}" for i in range(facts["layers"]) for p in parts]
                         + ["output"])
        for row in run["inputs"]:
            self.assertEqual((row.pop("ends"), row.pop("calibrated_ends")), (None, None))
        for row in run["blocks"] + run["inputs"]:
            self.assertEqual(set(row) - {"attention", "heads", "kept", "keys_of_2_bits",
                                         "values_of_2_bits"},
                             {"name", "top", "top_10_percent", "median", "largest", "window",
                              "position", "channel", "token", "text"})
            magnitudes = [*row["top"], row["top_10_percent"], row["median"]]
            self.assertEqual(sorted(magnitudes, reverse=True), magnitudes)
            # of the only window
            self.assertEqual((row["largest"], row["window"]), (row["top"][0], 0))
            self.assertLess(row["channel"], facts["feed_forward"]
                            if row["name"].endswith("ffn_down") else facts["width"])
            self.assertEqual((row["token"], row["text"]),
                             tuple(run["tokens"][row["position"]][key]
                                   for key in ["token", "text"]))
        for row in run["blocks"][:-1]:
            self.assertEqual(len(row["heads"]), facts["heads"])
            self.assertTrue(all(0 < share < 1 for share in row["heads"]))
            self.assertAlmostEqual(row["attention"], sum(row["heads"]) / facts["heads"], delta=1e-5)
        self.assertNotIn("attention", run["blocks"][-1])
        worst = max(run["blocks"][:-1], key=lambda row: sum(row["top"]))
        self.assertEqual(f"blk.{run['worst']}", worst["name"])
        self.assertEqual(max(t["top"] for t in run["tokens"]), worst["largest"])

    def test_tokens_are_those_of_the_text(self):
        ids = self.json("tokenize", DEMO, "-f", self.text, "--bos")["tokens"]
        found = self.found(DEMO, "--tokens=60")["runs"][0]["tokens"]
        self.assertEqual([t["token"] for t in found], ids[:61])
        pieces = "".join(t["text"] for t in found[1:])
        self.assertEqual(pieces[0], " ")  # which SentencePiece puts there
        self.assertTrue(TEXT.decode().startswith(pieces[1:]))
        self.assertEqual(found[0]["text"], "<s>")

    def test_largest_agree_with_quantize(self):
        self.write("text", TEXT[:900])
        toy = self.toy(vocab="gpt2", seed=5)  # begins nothing with BOS
        out = self.path("q.gguf")
        seen = self.json("quantize", toy, "-o", out, "--calib", self.text, "--rotate=none",
                         "--intact=none", "--calib-window=50", "--calib-tokens=1000")
        found = self.found(toy, "--ctx=50", "--tokens=1000")  # all of the text
        self.assertGreater(found["windows"], 3)
        # quantize keeps one window in seven out
        self.assertEqual(found["tokens"] - seen["tokens"], 100)
        same = 0
        for input, row in zip(seen["inputs"], found["runs"][0]["inputs"], strict=True):
            self.assertEqual(input["name"], row["name"])
            share = max(-input["min"], input["max"]) / row["largest"]
            self.assertLess(share, 1 + 1e-5)
            same += share > 1 - 1e-5
            self.assertLessEqual(row["top"][0], row["largest"])
        self.assertGreater(same, len(seen["inputs"]) / 2)

    def test_with_and_without_a_prefix(self):
        model = self.w8a8("--intact=bos")
        found = self.found(model, "--tokens=100")
        without, with_it = found["runs"]
        self.assertEqual([(r["prefix"], r["window"]) for r in found["runs"]], [(0, 101), (1, 100)])
        self.assertEqual(with_it["tokens"][3]["token"], without["tokens"][4]["token"])
        self.assertEqual(with_it["worst"], without["worst"])
        plain = self.found(DEMO, "--tokens=100")["runs"][0]
        for a, b in zip(without["blocks"], plain["blocks"], strict=True):
            for x, y in zip([*a["top"], a["top_10_percent"], a["median"]],
                            [*b["top"], b["top_10_percent"], b["median"]]):
                self.assertAlmostEqual(x / y, 1, delta=0.15)
            if "attention" in a:
                self.assertAlmostEqual(a["attention"], b["attention"], delta=0.02)
        made = self.json("quantize", DEMO, "-o", self.path("again"), "--calib", self.text,
                         "--calib-tokens=500", "--calib-window=100", "--intact=bos")
        ranges = {i["name"]: 256 * i["scale"] for i in made["inputs"]}
        for row in with_it["inputs"]:
            self.assertLessEqual(row["largest"], ranges[row["name"]])
        self.assertEqual([r["prefix"] for r in self.found(self.w8a8("--intact=none"),
                                                          "--tokens=100")["runs"]], [0])

    def clipped(self, *args):
        """The path of a W8A8 toy of which calibration had about 1 % at the ends of ranges."""
        path = self.path("clipped" + "".join(args))
        if not os.path.exists(path):
            # it may lose much, which is a warning
            subprocess.run([*LAB, self.toy(endless=1), "-o", path,
                            "--calib", self.text, "--calib-tokens=500", "--calib-window=100",
                            "--range=percentile", "--percentile=99", *args],
                           check=True, capture_output=True)
        return path

    def test_numbers_at_the_ends_of_ranges(self):
        window = ["--tokens=500", "--ctx=100"]
        model = self.clipped("--dynamic=none", "--intact=none")
        run, = self.found(model, *window)["runs"]
        inputs = run["inputs"]
        data, key, n = self.read(model), b"tuffet.input.ends", len(inputs)
        at = data.index(key) + len(key)
        # GGUF: an array of f32
        self.assertEqual(struct.unpack_from("<IIQ", data, at), (9, 6, n))
        own = struct.unpack_from(f"<{n}f", data, at + 16)
        self.assertGreater(sum(own), 0)
        for row, share in zip(inputs, own, strict=True):
            self.assertAlmostEqual(row["calibrated_ends"], share, delta=1e-5 * share)
            self.assertTrue(0 <= row["ends"] < 0.1, row)
            self.assertAlmostEqual(row["ends"], share, delta=0.01 + share / 2)
        self.assertTrue(all("ends" not in block for block in run["blocks"]))

        def listed(model):
            text = self.tuffet("inspect", model, "--activations", self.text, *window).decode()
            lines = text.split("Numbers at the ends of static ranges")[1].split("\n\n")[0]
            return re.findall(r"^(\S+) +(\d+\.\d+) +(\d+\.\d+|-)(  more than ten times)?$", lines,
                              re.MULTILINE)
        *rows, total = listed(model)
        first = sorted(inputs, key=lambda row: -row["ends"])[:8]
        self.assertEqual([row[0] for row in rows], [row["name"] for row in first if row["ends"]])
        for (_, share, calibrated, more), row in zip(rows, first):
            self.assertAlmostEqual(float(share), 100 * row["ends"], delta=1e-3)
            self.assertAlmostEqual(float(calibrated), 100 * row["calibrated_ends"], delta=1e-3)
            self.assertEqual(more, "")
        self.assertEqual(total[0], "all")
        self.assertTrue(min(row["ends"] for row in inputs) - 1e-4 <= float(total[1]) / 100
                        <= max(row["ends"] for row in inputs) + 1e-4)

        # calibration had none: all inputs above 0.1 % are listed
        fewer = self.write("fewer", data[:at + 16] + bytes(4 * n) + data[at + 16 + 4 * n:])
        many = [row["name"] for row in inputs if row["ends"] > 0.001]
        rows = listed(fewer)
        self.assertGreater(len(many), 0)
        self.assertEqual({row[0] for row in rows if row[3]} - {"all"}, set(many))
        # the file does not say
        older = self.write("older", data.replace(key, b"x" + key[1:]))
        for row, before in zip(self.found(older, *window)["runs"][0]["inputs"], inputs):
            self.assertEqual((row["ends"], row["calibrated_ends"]), (before["ends"], None))
        self.assertEqual({row[2:] for row in listed(older)}, {("-", "")})

        # other tokens
        self.write("text", b"The 42 XYZ! zebra? 7%; quick_fox, [jumps] \"over\" {it}.\n" * 40)
        other = self.found(model, *window)["runs"][0]["inputs"]
        self.assertEqual([row["calibrated_ends"] for row in other],
                         [row["calibrated_ends"] for row in inputs])
        self.assertTrue(all(0 <= row["ends"] <= 1 for row in other))
        self.assertNotEqual([row["ends"] for row in other], [row["ends"] for row in inputs])

    def test_ends_of_static_ranges_only(self):
        def ends(model):
            return [[(row["ends"], row["calibrated_ends"]) for row in run["inputs"]]
                    for run in self.found(model, "--tokens=100")["runs"]]
        nothing = (None, None)
        without, with_it = ends(self.clipped("--dynamic=none", "--intact=bos"))
        self.assertEqual(set(without), {nothing})  # its ranges are by token
        self.assertTrue(all(None not in row for row in with_it))
        some, = ends(self.clipped("--dynamic=1.attn_q", "--intact=none"))
        self.assertEqual([i for i, row in enumerate(some) if row == nothing], [4])
        self.assertEqual({row for run in ends(self.toy(endless=1)) for row in run}, {nothing})
        self.assertNotIn("ends of static ranges",
                         self.tuffet("inspect", self.toy(endless=1), "--activations",
                                     self.text).decode())

    def test_same_results_everywhere(self):
        for model in [self.toy(endless=1), self.w8a8("--intact=bos", model=self.toy(endless=1))]:
            answers = [self.found(model, "--tokens=80", *args)
                       for args in [["-t1"], ["-t3"], ["--cpu=c"]]]
            self.assertEqual(answers[1:], answers[:1] * 2)

    def test_text_output(self):
        model = self.w8a8("--intact=bos")
        text = self.tuffet("inspect", model, "--activations", self.text, "--tokens=100").decode()
        self.assertIn(f"{self.text}, 100 tokens in 1 window of 100 after BOS\n", text)
        self.assertRegex(text, r'\nprefix +1 "<s>"\n')
        without, with_it = self.found(model, "--tokens=100")["runs"]
        rows = re.findall(r"\n(blk\.\d+|output_norm)? +(without|with) +(.*) channel (\d+) +(\d+) "
                          r"\"(.*)\" at (\d+)", text)
        self.assertEqual(len(rows), 2 * len(without["blocks"]))
        for i, (name, which, numbers, channel, token, piece, position) in enumerate(rows):
            run = [without, with_it][i % 2]
            want = run["blocks"][i // 2]
            self.assertEqual((name, which), [(want["name"], "without"), ("", "with")][i % 2])
            numbers = [float(x) for x in numbers.replace("%", "").split()]
            for x, y in zip(numbers[:5], [*want["top"], want["top_10_percent"], want["median"]],
                            strict=True):
                self.assertAlmostEqual(x, y, delta=1e-3 * y)
            attention = [round(100 * want["attention"], 1)] if "attention" in want else []
            self.assertEqual(numbers[5:], attention)
            self.assertEqual((int(channel), int(token), int(position)),
                             (want["channel"], want["token"], want["position"]))
        for row in [row for run in [without, with_it] for row in run["inputs"]]:
            self.assertIn(f"{row['top'][0]:.4g} ", text)
        self.assertNotIn("without", self.tuffet("inspect", DEMO, "--activations",
                                                self.text).decode())

    def test_windows(self):
        # "<" is the token of the largest numbers
        self.write("text", TEXT.replace(b" <b>&", b"")[:1200] + TEXT)
        found = self.found(DEMO, "--tokens=500", "--ctx=50")
        self.assertEqual((found["tokens"], found["windows"], found["runs"][0]["window"]),
                         (10 * 49, 10, 50))
        first, *_ = rows = found["runs"][0]["blocks"]
        self.assertTrue(all(row["window"] < 10 and row["position"] < 50 for row in rows))
        self.assertEqual(first["text"], "<")
        self.assertGreater(first["window"], 1)
        self.assertLess(first["top"][0], first["largest"])
        text = self.tuffet("inspect", DEMO, "--activations", self.text, "--tokens=500",
                           "--ctx=50").decode()
        self.assertIn(f'channel {first["channel"]:<5} {first["token"]} "<" at {first["position"]} '
                      f'of window {first["window"]}\n', text)
        short = self.write("short", b"Once upon")
        self.assertEqual(self.json("inspect", DEMO, "--activations", short)["tokens"], 2)
        toy = self.toy(ctx=64, vocab="llama")
        self.assertEqual(self.found(toy)["runs"][0]["window"], 64)

    def test_drawings(self):
        for model, runs in [(DEMO, 1), (self.w8a8("--intact=bos"), 2)]:
            self.tuffet("inspect", model, "--activations", self.text, "--tokens=100", "--svg",
                        self.path("d"))
            self.assertEqual(self.drawn(), [f"d-{name}.svg" for name in SUFFIXES])
            answer = self.found(model, "--tokens=100", "--svg", self.path("e"))
            for name in SUFFIXES:
                data = self.read(self.path(f"d-{name}.svg"))
                self.assertEqual(data, self.read(self.path(f"e-{name}.svg")))
                self.assertLess(len(data), 100000)
                svg = ElementTree.fromstring(data)
                texts = [(t.text or "").strip() for t in svg.iter(SVG + "text")]
                self.assertTrue(texts[0].endswith(os.path.basename(model)), texts[0])
                self.assertFalse([e for e in svg.iter()
                                  if any(key.endswith("href") for key in e.attrib)])
                self.assertEqual(("without the prefix" in " ".join(texts)), runs == 2)
                if name == "tokens":
                    self.assertIn("\\n", texts)
                    self.assertIn("&", texts)
                    # which the prefix takes away
                    self.assertEqual([t for t in texts if t.startswith("0: ")], ["0: <s>"])
                if name == "magnitudes":
                    layers = len(answer["runs"][0]["blocks"]) - 1
                    self.assertEqual(len(list(svg.iter(SVG + "circle"))), runs * 5 * layers)
                if name == "attention":
                    heads = sum(len(b.get("heads", [])) for b in answer["runs"][0]["blocks"])
                    self.assertEqual(len(list(svg.iter(SVG + "path"))), runs * heads + 1)
            self.tearDown()

    def test_failures(self):
        short = self.write("short", b"Once")
        for args, why in [([DEMO, "--activations", "no such text"], "no such text: No such file"),
                          (["no such model", "--activations", self.text],
                           "no such model: cannot be read"),
                          ([DEMO, "--activations", short],
                           f"{short}: a window of 1 tokens is too short"),
                          ([DEMO, "--activations", self.text, "--ctx=513"],
                           "--ctx 513 is not a window that the model can read: use 3 to 512"),
                          ([DEMO, "--activations", self.text, "--ctx=2"],
                           "--ctx 2 is not a window that the model can read: use 3 to 512"),
                          ([self.toy(vocab=""), "--activations", self.text], "no tokenizer"),
                          ([DEMO, "--activations", self.text, "-t2000"], "2000 threads"),
                          ([DEMO, "--activations", self.text, "--svg", self.path("nowhere/d")],
                           self.path("nowhere/d-magnitudes.svg") + ": No such file")]:
            self.assertIn(why, self.fails("inspect", *args))
            self.assertEqual(self.drawn(), [])
        self.assertIn("--activations FILE", self.fails("inspect", DEMO, "--svg=x"))
        for other in ["--values", "--tensors", "--verify"]:
            self.assertIn("a separate report", self.fails("inspect", DEMO, "--activations",
                                                          self.text, other, status=2))
        self.assertIn("at least 1", self.fails("inspect", DEMO, "--activations", self.text,
                                               "--tokens=0", status=2))

    def test_a_drawing_that_cannot_be_renamed(self):
        os.mkdir(self.path("d-tokens.svg"))
        try:
            self.assertIn("d-tokens.svg: ", self.fails("inspect", DEMO, "--activations", self.text,
                                                       "--svg", self.path("d")))
        finally:
            os.rmdir(self.path("d-tokens.svg"))

    def test_nan_and_infinity(self):
        toy = self.toy()
        at = next(t["offset"] for t in self.json("inspect", toy)["tensors"]
                  if t["name"] == "blk.1.ffn_up.weight")
        data = self.read(toy)
        for bits in [b"\x00\x00\xc0\x7f", b"\x00\x00\x80\xff"]:
            bad = self.write("bad", data[:at] + bits + data[at + 4:])
            run = self.found(bad, "--tokens=50", "--svg", self.path("d"))["runs"][0]
            self.assertEqual(run["blocks"][2]["top"][0], None)
            self.assertFalse(math.isnan(run["blocks"][1]["top"][0]))
            for name in SUFFIXES:
                self.assertNotRegex(self.read(self.path(f"d-{name}.svg")), b"[^a-z](nan|inf)")
            self.tuffet("inspect", bad, "--activations", self.text)

    @unittest.skipUnless(os.path.isdir("/proc/self/fd"), "no /proc that shows which files are open")
    def test_an_interrupt_leaves_nothing(self):
        self.text = self.write("long", TEXT * 40)  # that takes it a while

        def draws():
            return any(path.startswith(self.folder.name + "/") and path != self.text
                       for path in opened(p))
        with subprocess.Popen([*TUFFET, "inspect", DEMO, "--activations", self.text,
                               "--tokens=1000000", "-t1", "--svg", self.path("d")],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            wait_until(lambda: p.poll() is not None or draws())
            self.assertIsNone(p.poll(), "it was too quick")
            out, err = interrupt(p)
        self.assertEqual((p.returncode, out, err), (130, b"", b""))
        self.assertEqual(self.drawn(), [])


main()
