"""tuffet eval: its answers, compared with the oracle and other commands. test_task.c checks the
texts that questions become."""
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import unittest

from program import TOY, Case, Terminal, main

DEMO = str(pathlib.Path(__file__).parents[2] / "models/demo/stories2M.gguf")
WORDS = "once upon a time the world and hello in an apple fell on that thing".split()


def phrase(rng, n):
    return " ".join(rng.choices(WORDS, k=n))


def questions(rng, task):
    """(the JSON object, [(context, continuation)], [characters of the answer]). The continuation
    begins with the white space."""
    n = 3 if task == "openbookqa" else 2
    answers = [phrase(rng, rng.randint(1, 5)) for _ in range(n)]
    query = phrase(rng, rng.randint(3, 30))
    lengths = [len(a) for a in answers]
    if task == "winogrande":
        rest = phrase(rng, 3)
        doc = {"context_options": [f"{query} {a}" for a in answers], "continuation": rest}
        return doc, [(f"{query} {a}", f" {rest}") for a in answers], lengths
    if task == "hellaswag":
        doc = {"activity_label": "Hello", "ctx_a": query, "ctx_b": "and the", "endings": answers}
        return doc, [(f"Hello: {query} And the", f" {a}") for a in answers], lengths
    if task == "piqa":
        doc = {"query": f"Question: {query}\n", "choices": answers}
        return doc, [(f"Question: {query}\nAnswer:", f" {a}") for a in answers], lengths
    glue = "  " if task == "copa" else " "
    return {"query": query, "choices": answers}, [(query, glue + a) for a in answers], lengths


class Eval(Case):
    def ids(self, model, text):
        return self.json("tokenize", model, "-p", text, "--bos")["tokens"]

    def oracle(self, model, ids, first):
        """-ln p of ids[first:], by the oracle."""
        out = subprocess.run([*TOY, "nll", model, " ".join(map(str, ids)), str(len(ids)),
                              str(first)], capture_output=True, check=True)
        mean, n = out.stdout.split()
        self.assertEqual(int(n), len(ids) - first)
        return float(mean) * int(n)

    def nll(self, model, context, rest):
        ids, begin = self.ids(model, context + rest), self.ids(model, context)
        self.assertEqual(ids[:len(begin)], begin)
        return self.oracle(model, ids, len(begin))

    def lines(self, *objects, name="lines"):
        return self.write(name, b"".join(json.dumps(o).encode() + b"\n" for o in objects))

    def eval(self, model, task, *objects, args=()):
        return self.json("eval", model, "--task", task, "-f", self.lines(*objects), "-t1", *args)

    def last_word(self, model, text, *args):
        """-ln p of it, as eval has it."""
        got = self.eval(model, "lambada", {"text": text}, args=args)
        self.assertEqual(got["items"], 1)
        return math.log(got["ppl"]), got["cut"]

    def test_choices_agree_with_the_oracle(self):
        rng = random.Random(1)
        differ = 0
        for task, vocab in [("piqa", "llama"), ("winogrande", "gpt2"), ("openbookqa", "gpt2"),
                            ("copa", "llama"), ("hellaswag", "llama")]:
            model, key = self.toy(vocab=vocab), "label" if task == "hellaswag" else "gold"
            docs, best, best_norm = [], [], []
            while len(docs) < 4:
                doc, options, lengths = questions(rng, task)
                nll = [self.nll(model, *o) for o in options]
                norm = [x / length for x, length in zip(nll, lengths)]
                by_margin = sorted(nll)[1] - sorted(nll)[0], sorted(norm)[1] - sorted(norm)[0]
                if by_margin[0] > 1e-2 and by_margin[1] > 1e-3:  # f32 and f64 agree on it
                    docs.append(doc)
                    best.append(nll.index(min(nll)))
                    best_norm.append(norm.index(min(norm)))
            same = sum(a == b for a, b in zip(best, best_norm)) / len(docs)
            normalized = task in ["piqa", "openbookqa", "hellaswag"]
            differ += normalized and same < 1
            for right, acc, acc_norm in [(best, 1, same), (best_norm, same, 1)]:
                asked = [{**doc, key: gold} for doc, gold in zip(docs, right)]
                got = self.eval(model, task, *asked, args=["--kv=f32"])
                want = {"task": task, "acc": acc, "items": 4, "cut": 0}
                if normalized:
                    want["acc_norm"] = acc_norm
                self.assertEqual({k: v for k, v in got.items() if k != "seconds"
                                  and "stderr" not in k}, want)
                self.assertAlmostEqual(got["acc_stderr"], math.sqrt(acc * (1 - acc) / 3),
                                       delta=1e-6)
                self.assertEqual("acc_norm_stderr" in got, normalized)
        self.assertGreater(differ, 0)

    def test_the_last_word_agrees_with_the_oracle(self):
        rng, sum_nll = random.Random(2), 0
        model = self.toy(vocab="gpt2")
        words = [(1, "apple"), (20, "world"), (37, "x"), (3, "that\nthing")]
        texts = [(phrase(rng, n), " " + word) for n, word in words]
        for context, word in texts:
            want = self.nll(model, context, word)
            got, cut = self.last_word(model, context + word, "--kv=f32")
            self.assertAlmostEqual(got, want, delta=1e-3)
            self.assertEqual(cut, 0)
            sum_nll += want
        got = self.eval(model, "lambada", *[{"text": a + b} for a, b in texts], args=["--kv=f32"])
        self.assertAlmostEqual(math.log(got["ppl"]), sum_nll / len(texts), delta=1e-3)

    def test_a_greedy_continuation_is_right(self):
        prompt = "Once upon a time, there was a little girl named"
        told = prompt + self.tuffet("run", DEMO, "--temp=0", "-n40", "-p", prompt).decode()
        words = told.split(" ")
        self.assertGreater(len(words), 30)
        texts = [" ".join(words[:n]) for n in range(11, 30)]
        got = self.eval(DEMO, "lambada", *[{"text": t} for t in texts])
        self.assertEqual((got["acc"], got["acc_stderr"], got["items"]), (1, 0, len(texts)))
        mixed = [t if i % 2 else t.rsplit(" ", 1)[0] + " xylophone" for i, t in enumerate(texts)]
        got = self.eval(DEMO, "lambada", *[{"text": t} for t in mixed])
        self.assertAlmostEqual(got["acc"], 9 / 19, delta=1e-6)
        self.assertAlmostEqual(got["acc_stderr"], math.sqrt(9 / 19 * 10 / 19 / 18), delta=1e-6)

    def test_steps_of_computing(self):
        """Words longer than the logits that are kept, and near the end of a step of 128 tokens."""
        model = self.toy(ctx=512)
        word = " " + "".join(random.Random(3).choices("bcdfgjkmqrsvxyz", k=80))
        for context, n in [("hello", 80), ("q" + 54 * " z", 20), ("q" + 58 * " z", 20),
                           ("q" + 62 * " z", 20), ("q" + 120 * " z", 40)]:
            got, _ = self.last_word(model, context + word[:n + 1], "--kv=f32")
            self.assertAlmostEqual(got, self.nll(model, context, word[:n + 1]), delta=1e-2)
        # exp(1400)
        self.assertIsNone(self.eval(model, "lambada", {"text": "hello " + 3 * word[1:]})["ppl"])

    def test_what_does_not_fit_is_cut_after_bos(self):
        model = self.toy()
        context, word = phrase(random.Random(4), 40), " zzzzz"
        ids = self.ids(model, context + word)
        # the word has 6 tokens: no room for all of them in the second case
        for ctx, first in [(24, 25 - 6), (4, 1)]:
            left = [ids[0], *ids[len(ids) - ctx:]]  # the last one takes none
            got, cut = self.last_word(model, context + word, "--kv=f32", f"--ctx={ctx}")
            self.assertAlmostEqual(got, self.oracle(model, left, first), delta=1e-3)
            self.assertEqual(cut, 1)
        bosless = self.toy(vocab="gpt2")
        ids = self.ids(bosless, context + word)
        got, cut = self.last_word(bosless, context + word, "--kv=f32", "--ctx=24")
        self.assertAlmostEqual(got, self.oracle(bosless, ids[len(ids) - 25:], 25 - 6), delta=1e-3)

    def test_a_prefix_with_bos(self):
        model = self.path("w8a8.gguf")
        text = self.write("calib", b"hello world, once upon a time and the end. " * 60)
        self.json("quantize", self.toy(), "-o", model, "--calib", text, "--intact=bos")

        def of_text(words):
            got = self.json("ppl", model, "-f", self.write("words", words.encode()))
            return got["nll"] * got["tokens"]

        for n in [1, 30]:
            context = phrase(random.Random(5), n)
            got, _ = self.last_word(model, context + " apple")
            self.assertAlmostEqual(got, of_text(context + " apple") - of_text(context), delta=1e-4)
        letters = ["q", "z", "v", "x"] * 8  # two tokens each with the space
        want, cut = self.last_word(model, " ".join(letters[-12:]))
        self.assertEqual(cut, 0)
        self.assertEqual(self.last_word(model, " ".join(letters), "--ctx=24"), (want, 1))

    def test_a_token_across_context_and_answer(self):
        """A token that begins in the context and ends in the answer is scored with the answer."""
        toy = self.read(self.toy())
        new = "x\u2581a".encode()
        self.assertEqual(toy.count(struct.pack("<Q", 5) + b"hello"), 1)
        model = self.write("parted.gguf", toy.replace(struct.pack("<Q", 5) + b"hello",
                                                      struct.pack("<Q", 5) + new))
        whole, begin = self.ids(model, "the x apple"), self.ids(model, "the x")
        same = len(os.path.commonprefix([whole, begin]))
        self.assertEqual(same, len(begin) - 1)
        got, _ = self.last_word(model, "the x apple", "--kv=f32")
        self.assertAlmostEqual(got, self.oracle(model, whole, same), delta=1e-3)

    def test_lines(self):
        good = b'{"text": "once upon a time"}'
        want = self.eval(self.toy(), "lambada", {"text": "once upon a time"})
        want.pop("seconds")
        for data, args in [(good, []), (b"\n \t\r\n" + good + b"\r\n\n", []),
                           (good + b"\n{", ["-n1"])]:
            for file, stdin in [(self.write("in", data), b""), ("-", data)]:
                got = self.json("eval", self.toy(), "--task=lambada", "-f", file, *args,
                                stdin=stdin)
                got.pop("seconds")
                self.assertEqual(got, want)
        # the spread of one is not known
        self.assertEqual((want["items"], want["acc_stderr"]), (1, None))
        for data, why in [(b"", "the file has no questions"),
                          (b"\n\n", "the file has no questions"),
                          (good + b"\n\n" + b'{"text": "a b"', "line 3: byte 14: '}' expected"),
                          (good + b'\n{"text": "\x1b[2Ja"}',
                           "line 2: byte 10: control character 0x1b"),
                          (good + b"\n\x1b[2J", "line 2: byte 1: '[' or '{' expected"),
                          (b"\0" + good, "line 1: "), (b"[" * 100000, "line 1: "),
                          (good + b'\n{"txt": 1}', 'line 2: "text" is missing')]:
            path = self.write("in", data)
            line = self.fails("eval", self.toy(), "--task=lambada", "-f", path)
            self.assertTrue(line.startswith(f"tuffet: {path}: {why}"), line)
        self.assertIn('"gold" is 2, but there are 2 options',
                      self.fails("eval", self.toy(), "--task=copa", "-f",
                                 self.lines({"query": "a", "choices": ["b", "c"], "gold": 2})))

    def test_text_output(self):
        share = r"\d+\.\d\d % \(standard error \d+\.\d\d\)"
        lambada = self.lines({"text": "once upon a time"}, {"text": "hello " * 300 + "world"},
                             name="lambada")
        self.assertRegex(self.tuffet("eval", self.toy(), "--task=lambada", "-f", lambada).decode(),
                         rf"^lambada: accuracy {share}, perplexity of the last word \d+\.\d{{4}} "
                         r"over 2 items, 1 of them cut to fit, [\d.]+ items/s\n$")
        piqa = self.lines(*[{"query": "once", "choices": ["upon", "a time"], "gold": 0}] * 2,
                          name="piqa")
        self.assertRegex(self.tuffet("eval", self.toy(), "--task=piqa", "-f", piqa).decode(),
                         rf"^piqa: accuracy {share}, by length {share} over 2 items, "
                         r"[\d.]+ items/s\n$")
        self.assertNotIn(b"error", self.tuffet("eval", self.toy(), "--task=piqa", "-n1", "-f",
                                               piqa))

    def test_equal_chances(self):
        """The shortest answer is the most likely, and the first of equally long ones. The greedy
        choice is the first token of the vocabulary."""
        model = self.toy(uniform=1)
        got = self.eval(model, "copa", {"query": "once", "choices": ["hello world", "a", "i"],
                                        "gold": 1})
        self.assertEqual(got["acc"], 1)
        got = self.eval(model, "lambada", {"text": "once upon"})
        self.assertEqual(got["acc"], 0)
        self.assertAlmostEqual(got["ppl"], 420, delta=0.01)

    def test_wrong_use(self):
        path = self.lines({"text": "a b"})
        for args, why in [(["-f", path], "--task lambada|piqa"), (["--task=lambada"], "-f FILE"),
                          (["--task=chess", "-f", path], 'not "chess"')]:
            self.assertIn(why, self.fails("eval", self.toy(), *args, status=2))
        self.assertIn("No such file", self.fails("eval", self.toy(), "--task=lambada", "-f",
                                                 self.path("none")))
        self.assertIn("no tokenizer", self.fails("eval", self.toy(vocab=""), "--task=lambada", "-f",
                                                 path))

    def test_an_interrupt(self):
        path = self.write("many", b'{"text": "once upon a time there was a world"}\n' * 200000)
        t = Terminal("eval", self.toy(), "--task=lambada", "-f", path, "-t1")
        t.wait_for(b"answering [")
        t.type(b"\x03")
        self.assertEqual(t.end(), 130)
        self.assertFalse(re.search(rb"accuracy", t.screen))


main()
