"""The scripts that write tables of accuracy: their cells are what the program measures."""
import json
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from program import PATIENCE, TUFFET, WRAPPER, Case, main

SCRIPTS = pathlib.Path(__file__).parents[2] / "tools/lab"
TEXT = b"hello world, once upon a time and the end. " * 60


@unittest.skipIf(WRAPPER, "the scripts run the program themselves")
class Scripts(Case):
    def table(self, script, *args, model=None):
        """The rows that the script prints, each as a list of cells."""
        done = subprocess.run([sys.executable, SCRIPTS / script, model or self.toy(endless=1),
                               "--tuffet", *TUFFET, *args], capture_output=True, check=True,
                              timeout=PATIENCE)
        rows = [line.split("|")[1:-1] for line in done.stdout.decode().splitlines()]
        return [[cell.strip() for cell in row] for row in rows]

    def setUp(self):
        self.text = self.write("text", TEXT)
        questions = [json.dumps({"text": "once upon a time and the end"})] * 3
        self.questions = self.write("questions", "\n".join(questions).encode())
        self.shown = ["--text", self.text, "--tokens=300", "--ctx=100"]

    def test_lookup(self):
        """A model is its own draft, so guesses hold."""
        _, _, *rows = self.table("lookup.py", "--text", self.text_of_lines(), "--code",
                                 self.text_of_lines(), "--chars=60", "-n100", "-r1", "--temp=0",
                                 "--chat=<s>{}", "--draft", self.toy(endless=1))
        self.assertEqual([row[0] for row in rows],
                         ["summarizes", "corrects", "answers", "writes JSON", "writes a story",
                          "goes on with prose", "goes on with code"])
        for row in rows:
            self.assertGreater(float(row[2]), 0)
            self.assertRegex(row[4], r"^\d+\.\d\d \(\d+\.\d\d to \d+\.\d\d\)$")
            self.assertRegex(row[5], r"^\d+%$")
        self.assertTrue(any(row[5] != "0%" for row in rows), rows)

    def text_of_lines(self):
        return self.write("lines", b"hello world, once upon a time. The end!\n" * 40)

    def ppl(self, model, *args):
        return self.json("ppl", model, "-f", self.text, "-n300", "--ctx=100", *args)["ppl"]

    def quantized(self, *args):
        self.tuffet("quantize", self.toy(endless=1), "-o", self.path("q"), "--calib", self.text,
                    "--calib-window=100", "--calib-tokens=300", "--dynamic=all", "--json", *args)
        return self.path("q")

    def test_intact_tables(self):
        calib = ["--calib", self.text, "--calib-window=100", "--calib-tokens=300", "--rotate=none"]
        head, _, floats, none, given, error = self.table(
            "intact_tables.py", *self.shown, *calib, "--tasks", f"lambada={self.questions}",
            "--items=2", "--pivots=1,13", "--only", "3 bits, AWQ, (none|intact)")
        self.assertEqual(head, ["weights", "rounding", "prefix", "perplexity", "over floats",
                                "lambada"])
        base = self.ppl(self.toy(endless=1))
        self.assertEqual(floats[:4], ["floats", "", "", f"{base:.3f}"])
        for row, options in [(none, ["--intact=none"]), (given, ["--intact-tokens=1,13"])]:
            model = self.quantized("--bits=3", "--group=128", "--rounding=awq", "--rotate=none",
                                   *options)
            ppl = self.ppl(model)
            right = self.json("eval", model, "--task=lambada", "-f", self.questions, "-n2")["acc"]
            self.assertEqual(row[3:], [f"{ppl:.3f}", f"{100 * (ppl / base - 1):+.1f} %",
                                       f"{100 * right:.1f}"])
        self.assertEqual((none[:3], given[2]), (["3 bits", "AWQ", "none"], "intact"))
        self.assertEqual((error[0], error[-1]), ("standard error", "0.0"))

    def test_accuracy(self):
        head, _, floats, row = self.table(
            "accuracy.py", *self.shown, "--calib", self.text, "--calib-window=100",
            "--calib-tokens=300", "--lambada", self.questions, "--passages=2", "--only",
            "dynamic per token, no prefix$")
        base = self.ppl(self.toy(endless=1))
        ppl = self.ppl(self.quantized("--intact=none", "--rotate=none"))
        self.assertEqual(len(head), 5)
        self.assertEqual(floats[1], f"{base:.3f}")
        self.assertEqual(row[:3], ["dynamic per token, no prefix", f"{ppl:.3f}",
                                   f"{100 * (ppl / base - 1):+.2f} %"])

    def test_kv_accuracy(self):
        _, _, row = self.table("kv_accuracy.py", *self.shown, "--kv=f16", "--lambada",
                               self.questions, "--passages=2")
        self.assertEqual((row[:2], row[3]), (["`f16`", "16.00"], "+0.0 %"))

    def test_kv_accuracy_of_a_model_with_windows(self):
        """One of two layers has a window: the cache's bits are those of the other."""
        row = self.table("kv_accuracy.py", *self.shown, "--kv=f16",
                         model=self.toy(arch="gemma2"))[-1]
        self.assertEqual(row[:2], ["`f16`", "16.00"])

    def test_papers(self):
        rows = self.table("papers.py", *self.shown, "--calib", self.text, "--calib-window=100",
                          "--calib-tokens=300", "--prefix=1,13", "--only=intact-4")
        rows = [row for row in rows if len(row) == 7]
        self.assertEqual(rows[0][:3], ["weights", "prefix", "cache 16 bits"])
        self.assertEqual([row[:2] for row in rows[2:]], [["4 bits", "none"], ["4 bits", "prefix"],
                                                         ["3 bits", "none"], ["3 bits", "prefix"]])
        model = self.quantized("--bits=3", "--group=128", "--rounding=nearest", "--rotate=none",
                               "--intact-tokens=1,13")
        self.assertEqual(rows[-1][2], f"{self.ppl(model, '--kv=f16'):.3f}")

    def test_papers_that_grow_the_prefix(self):
        rows = self.table("papers.py", *self.shown, "--calib", self.text, "--calib-window=60",
                          "--calib-tokens=240", "--prefix=1", "--only=intact-2")
        rows = [row for row in rows if len(row) == 3]
        self.assertEqual(rows[0], ["prefix", "4 bits", "3 bits"])
        self.assertEqual([row[0] for row in rows[2:]], ["1", "2", "4", "8", "16", "32"])
        for _, four, three in rows[2:]:
            self.assertGreater(float(three), float(four))

    def test_papers_without_such_a_table(self):
        done = subprocess.run([sys.executable, SCRIPTS / "papers.py", self.toy(), *self.shown,
                               "--calib", self.text, "--prefix=1", "--only=nothing"],
                              capture_output=True, check=False, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"there is no table nothing; there are cushion-1,", done.stderr)

    def test_needle(self):
        sys.path.insert(0, str(SCRIPTS))
        import needle  # pylint: disable=import-outside-toplevel

        def answer(command, *args):
            if command == "tokenize":
                return {"tokens": [1] * 1250}  # four letters each
            with open(args[args.index("-f") + 1], encoding="utf-8") as f:
                asked.append(json.loads(f.readline())["text"])
            return {"acc": len(asked) % 2}

        asked = []
        text = self.write("long", b"Some words. " * 416 + b"The end.")
        found = needle.Needle(answer, "model", [text], self.folder.name)
        self.assertEqual(found.total(), 10)  # of 512 and 1024 tokens, at five depths
        shares = found.found("f16")
        self.assertEqual((found.mean(shares), len(asked)), (0.5, 10))
        for question, (length, depth) in zip(asked, shares):
            number = question.split()[-1]
            first = question.index(f"is {number}. ")
            self.assertAlmostEqual(first / (4 * (length - 60)), depth, delta=0.05)
            self.assertEqual(question.count(number), 2)
        drawing = xml.etree.ElementTree.fromstring(needle.heat_map([("f16", shares)]))
        self.assertEqual(sum(tag.tag.endswith("rect") for tag in drawing), 1 + 10)


main()
