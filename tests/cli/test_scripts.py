"""The scripts that write tables of accuracy: their cells are what the program measures."""
import json
import pathlib
import subprocess
import sys
import unittest

from program import PATIENCE, TUFFET, WRAPPER, Case, main

SCRIPTS = pathlib.Path(__file__).parents[2] / "tools/scripts"
TEXT = b"hello world, once upon a time and the end. " * 60


@unittest.skipIf(WRAPPER, "the scripts run the program themselves")
class Scripts(Case):
    def table(self, script, *args):
        """The rows that the script prints, each as a list of cells."""
        done = subprocess.run([sys.executable, SCRIPTS / script, self.toy(endless=1), "--tuffet",
                               *TUFFET, *args], capture_output=True, check=True, timeout=PATIENCE)
        rows = [line.split("|")[1:-1] for line in done.stdout.decode().splitlines()]
        return [[cell.strip() for cell in row] for row in rows]

    def setUp(self):
        self.text = self.write("text", TEXT)
        questions = [json.dumps({"text": "once upon a time and the end"})] * 3
        self.questions = self.write("questions", "\n".join(questions).encode())
        self.shown = ["--text", self.text, "--tokens=300", "--ctx=100"]

    def ppl(self, model):
        return self.json("ppl", model, "-f", self.text, "-n300", "--ctx=100")["ppl"]

    def quantized(self, *args):
        self.tuffet("quantize", self.toy(endless=1), "-o", self.path("q"), "--calib", self.text,
                    "--calib-window=100", "--calib-tokens=500", "--dynamic=all", "--json", *args)
        return self.path("q")

    def test_intact_tables(self):
        calib = ["--calib", self.text, "--calib-window=100", "--calib-tokens=500", "--rotate=none"]
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
            "--calib-tokens=500", "--lambada", self.questions, "--passages=2", "--only",
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


main()
