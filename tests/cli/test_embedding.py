"""tuffet embed and tuffet rerank: toys, MiniLM against an independent program's vectors and its
retrieval, rerankers of random weights."""
import array
import json
import math
import os
import pathlib
import struct
import subprocess
import unittest

from program import PATIENCE, TUFFET, Case, main

SHARED = pathlib.Path(os.environ.get("TUFFET_SHARED") or
                      os.path.join(os.environ.get("TUFFET_SOURCE", "."), "../shared"))
TEXTS = ["hello world", "once upon a time there was", "x"]


def lines(texts):
    return "".join(t + "\n" for t in texts).encode()


def json_lines(texts):
    return lines(map(json.dumps, texts))


def with_texts(data, **texts):
    """The bytes of a GGUF file with further strings, before its other values."""
    def value(key, text):
        key, text = key.encode(), text.encode()
        return struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(text)) + text
    more = b"".join(value(k.replace("__", "."), v) for k, v in texts.items())
    more += value("general.filler", "x" * (-len(more + value("general.filler", "")) % 64))
    (n,) = struct.unpack_from("<Q", data, 16)
    return data[:16] + struct.pack("<Q", n + len(texts) + 1) + more + data[24:]


def floats(path, width):
    all_ = array.array("f", pathlib.Path(path).read_bytes())
    return [all_[i:i + width] for i in range(0, len(all_), width)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def nmse(got, want):
    off = sum((x - y) ** 2 for a, b in zip(got, want) for x, y in zip(a, b))
    return off / sum(y * y for b in want for y in b)


class Embedding(Case):
    def vectors(self, *args, stdin):
        got = [json.loads(line) for line in self.tuffet("embed", *args, stdin=stdin).splitlines()]
        self.assertEqual([v["index"] for v in got], list(range(len(got))))
        return [v["embedding"] for v in got]

    def npy(self, path):
        data = self.read(path)
        self.assertEqual(data[:8], b"\x93NUMPY\x01\0")
        head = data[10:128].decode()
        self.assertEqual((struct.unpack("<H", data[8:10]), head[-1]), ((118,), "\n"))
        said = eval(head)  # a dictionary, as NumPy writes it
        self.assertEqual((said["descr"], said["fortran_order"]), ("<f4", False))
        n, width = said["shape"]
        self.assertEqual(len(data), 128 + 4 * n * width)
        all_ = array.array("f", data[128:])
        return [list(all_[i * width:(i + 1) * width]) for i in range(n)]

    def test_forms_of_texts_and_vectors(self):
        toy = self.toy()
        want = self.vectors(toy, stdin=lines(TEXTS))
        self.assertEqual((len(want), {len(v) for v in want}), (3, {32}))
        self.assertEqual(len(set(map(tuple, want))), 3)
        for v in want:
            self.assertAlmostEqual(dot(v, v), 1, 5)
        path = self.write("texts", lines(TEXTS)[:-1])
        self.assertEqual(self.vectors(toy, path, stdin=b""), want)
        self.assertEqual(self.vectors(toy, "-", stdin=lines(TEXTS).replace(b"\n", b"\r\n")), want)
        self.assertEqual(self.vectors(toy, "--json-lines", stdin=json_lines(TEXTS)), want)
        self.assertEqual(self.vectors(toy, stdin=lines(TEXTS[1:])), want[1:])
        out = self.path("vectors.npy")
        self.assertEqual(self.tuffet("embed", toy, path, "-o", out), b"")
        self.assertEqual(self.npy(out), [list(array.array("f", v)) for v in want])
        (two,) = self.vectors(toy, "--json-lines", stdin=json_lines(["hello\nworld"]))
        self.assertNotIn(two, want)

    def test_options(self):
        toy = self.toy()
        want = self.vectors(toy, stdin=lines(TEXTS))
        raw = self.vectors(toy, "--raw", stdin=lines(TEXTS))
        for a, b in zip(want, raw):
            size = math.sqrt(dot(b, b))
            self.assertGreater(abs(size - 1), 0.01)
            self.assertLess(max(abs(x - y / size) for x, y in zip(a, b)), 1e-6)
        last = self.vectors(toy, "--pooling=last", stdin=lines(TEXTS))
        self.assertEqual(last, self.vectors(self.toy(pooling=3), stdin=lines(TEXTS)))
        self.assertNotEqual(last, want)
        for v, part in zip(want, self.vectors(toy, "--dims=5", stdin=lines(TEXTS))):
            size = math.sqrt(dot(v[:5], v[:5]))
            self.assertLess(max(abs(x / size - y) for x, y in zip(v[:5], part)), 1e-6)
            self.assertEqual(len(part), 5)

    def test_prompts(self):
        named = self.write("named.gguf", with_texts(
            self.read(self.toy()), tuffet__prompt__query="hello ", tuffet__prompt__none=""))
        whole = self.vectors(named, stdin=lines(["hello " + t for t in TEXTS]))
        self.assertEqual(self.vectors(named, "--prompt-name=query", stdin=lines(TEXTS)), whole)
        self.assertEqual(self.vectors(named, "--prompt-name=none", stdin=lines(TEXTS)),
                         self.vectors(named, stdin=lines(TEXTS)))
        self.assertIn('has no prompt "document"', self.fails(
            "embed", named, "--prompt-name=document", stdin=b"x\n"))

    def test_long_texts(self):
        toy = self.toy()
        long = "hello world " * 200
        n = len(self.tuffet("tokenize", toy, "--bos", "--eos", "-p", long).split())
        self.assertIn(f"standard input: line 2 has {n} tokens, and the model takes 256",
                      self.fails("embed", toy, stdin=lines(["x", long])))
        done = subprocess.run([*TUFFET, "embed", toy, "--truncate"], input=lines(["x", long]),
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr),
                         (0, b"tuffet: 1 of 2 texts were cut to 256 tokens\n"))
        cut = json.loads(done.stdout.splitlines()[1])["embedding"]
        ids = self.tuffet("tokenize", toy, "--bos", "-p", long).split()[1:256]
        short = self.tuffet("tokenize", toy, "--decode", stdin=b" ".join(ids)).decode()
        self.assertEqual(self.vectors(toy, stdin=lines([short])), [cut])

    @unittest.skipUnless(os.path.exists("/dev/zero"), "no /dev/zero")
    def test_files_without_an_end(self):
        for args in ["embed", self.toy()], ["rerank", self.toy(), "query"]:
            self.assertIn("/dev/zero has more than 256 MiB, or no end",
                          self.fails(*args, "/dev/zero"))

    def test_errors(self):
        toy = self.toy()
        for args, text, said in [
                ([], b"", "there is no text"),
                (["--json-lines"], b'"x"\nx\n', "line 2 is not a string of JSON"),
                (["--json-lines"], b'"x"\n["x"]\n', "line 2 is not a string of JSON"),
                ([self.path("none")], b"", "No such file"),
                (["--dims=33"], b"x\n", "33 numbers")]:
            self.assertIn(said, self.fails("embed", toy, *args, stdin=text))
        self.assertIn(".npy", self.fails("embed", toy, "-ox", stdin=b"x", status=2))
        self.assertIn("too many", self.fails("embed", toy, "a", "b", stdin=b"x", status=2))
        self.assertIn("QUERY is missing", self.fails("rerank", toy, stdin=b"x", status=2))
        self.assertIn("is no reranker", self.fails("rerank", toy, "q", stdin=b"x"))

    def test_a_failure_leaves_the_old_file(self):
        out = self.write("old.npy", b"old")
        self.fails("embed", self.toy(), "-o", out, stdin=lines(["x", "hello " * 300]))
        self.assertEqual(self.read(out), b"old")


class MiniLM(Case):
    vectors = Embedding.vectors
    files = SHARED / "models/embed"

    def model(self, kind):
        path = self.files / f"all-minilm-l6-v2.{kind}.gguf"
        if not path.exists():
            self.skipTest(f"{path.name} is not in shared/models/embed")
        return path

    def test_vectors_of_an_independent_program(self):
        """It computes erf in GELU, as the folder of the model says; GGUF files do not say it."""
        erf = self.write("erf.gguf", with_texts(self.model("f16").read_bytes(),
                                                tuffet__gelu="erf"))
        rows = [json.loads(line)
                for line in (self.files / "ids").read_text("utf-8").splitlines()]
        for name, args in [("embeddings", []), ("embeddings-raw", ["--raw"])]:
            done = subprocess.run([*TUFFET, "embed", erf, "--json-lines", "--truncate", *args],
                                  input=json_lines(r["text"] for r in rows), capture_output=True,
                                  timeout=PATIENCE)
            cut = sum(r["cut"] for r in rows)
            self.assertEqual(done.stderr.decode(),
                             f"tuffet: {cut} of 20 texts were cut to 512 tokens\n")
            got = [json.loads(line)["embedding"] for line in done.stdout.splitlines()]
            self.assertEqual(len(got), 20)
            self.assertLess(nmse(got, floats(self.files / f"{name}.f32", 384)), 1e-9, name)

    def retrieve(self, model):
        said = json.loads((self.files / "retrieval.json").read_text("utf-8"))
        documents = self.vectors(model, stdin=lines(said["documents"]))
        queries = self.vectors(model, stdin=lines(q["query"] for q in said["queries"]))
        ranked = [sorted(range(len(documents)), key=lambda i: -dot(q, documents[i]))
                  for q in queries]
        at = [r.index(q["right"]) for r, q in zip(ranked, said["queries"])]
        self.assertEqual((len(at), len(documents)), (15, 60))
        return ranked, documents, queries, said, sum(a < 1 for a in at), sum(a < 5 for a in at)

    def test_retrieval(self):
        ranked, documents, queries, said, first, five = self.retrieve(self.model("f16"))
        self.assertEqual((first, five), (13, 15))
        for got, q in zip(ranked, said["queries"]):
            self.assertEqual(got[:5], q["ranking"][:5])
        self.assertLess(nmse(documents, floats(self.files / "docs.f32", 384)), 1e-5)
        _, others, _, _, first, five = self.retrieve(self.model("q8_0"))
        self.assertEqual((first, five), (13, 15))
        self.assertGreater(min(dot(a, b) for a, b in zip(documents, others)), 0.999)

    def test_int8(self):
        """Weights and inputs of 8 bits, made without options."""
        floats_, out = self.model("f16"), self.path("int8.gguf")
        said = json.loads(self.tuffet("quantize", floats_, "-o", out, "--json"))
        self.assertEqual(said["vectors"]["texts"], 16)
        self.assertLess(said["vectors"]["mean"], 0.002)
        _, documents, queries, _, _, five = self.retrieve(out)
        self.assertEqual(five, 15)
        _, exact, exact_queries, _, _, _ = self.retrieve(floats_)
        cosines = [dot(a, b) for a, b in zip(documents + queries, exact + exact_queries)]
        self.assertGreater(min(cosines), 0.99)
        self.assertLess(min(cosines), 0.9999)  # another form of the weights
        again = self.path("again.gguf")
        said = json.loads(self.tuffet("quantize", self.model("q8_0"), "-o", again, "--json"))
        self.assertLess(said["vectors"]["mean"], 0.003)
        self.assertEqual(self.retrieve(again)[-1], 15)
        few = self.path("few.gguf")
        said = json.loads(self.tuffet("quantize", floats_, "-o", few, "--bits=4",
                                      "--calib-tokens=512", "--json"))
        self.assertLess(said["vectors"]["mean"], 0.05)
        text = lines(TEXTS)
        self.assertEqual(self.tuffet("embed", out, "--cpu=c", "-t1", stdin=text),
                         self.tuffet("embed", out, "-t2", stdin=text))
        self.assertEqual(self.vectors(out, stdin=lines(TEXTS[1:])),
                         self.vectors(out, stdin=text)[1:])


class Int8(Case):
    """Every kind of encoder, of random weights."""
    vectors = Embedding.vectors
    kinds = ["bert", "bert-cls", "nomic-bert", "nomic-bert-moe", "modern-bert", "jina-bert-v2",
             "jina-bert-v2-code", "jina-bert-v3", "eurobert", "gemma-embedding-dense", "neo-bert",
             "llama-embed"]

    def test_vectors(self):
        for kind in self.kinds:
            path = SHARED / f"models/random/{kind}.gguf"
            if not path.exists():
                self.skipTest(f"{path.name} is not in shared/models/random")
            out = self.path(f"{kind}.int8.gguf")
            self.tuffet("quantize", path, "-o", out, "--dynamic=all", "--json")
            for a, b in zip(self.vectors(path, stdin=lines(TEXTS)),
                            self.vectors(out, stdin=lines(TEXTS))):
                self.assertGreater(dot(a, b), 0.97, kind)
                self.assertNotEqual(a, b, kind)

    def test_the_models_own_keys(self):
        path = SHARED / "models/random/bert.gguf"
        if not path.exists():
            self.skipTest(f"{path.name} is not in shared/models/random")
        erf = self.write("erf.gguf", with_texts(path.read_bytes(), tuffet__gelu="erf",
                                                tuffet__prompt__query="hello "))
        made = [self.path("tanh.int8.gguf"), self.path("erf.int8.gguf")]
        for model, out in zip([path, erf], made):
            self.tuffet("quantize", model, "-o", out, "--json", "--dynamic=none")
        plain = self.path("erf.f32.gguf")
        self.tuffet("quantize", erf, "-o", plain, "--gguf=f32", "--json")
        self.assertEqual(self.vectors(plain, "--prompt-name=query", stdin=lines(TEXTS)),
                         self.vectors(erf, "--prompt-name=query", stdin=lines(TEXTS)))
        tanh, other = (self.vectors(m, stdin=lines(TEXTS)) for m in made)
        self.assertNotEqual(tanh, other)
        self.assertEqual(self.vectors(made[1], "--prompt-name=query", stdin=lines(TEXTS)),
                         self.vectors(made[1], stdin=lines(["hello " + t for t in TEXTS])))

    def test_a_reranker(self):
        path, out = SHARED / "models/random/bert-rerank.gguf", self.path("int8.gguf")
        if not path.exists():
            self.skipTest(f"{path.name} is not in shared/models/random")
        self.tuffet("quantize", path, "-o", out, "--json")
        scores = [[json.loads(line)["score"] for line in self.tuffet(
            "rerank", model, "a query", "--json", "--raw", stdin=lines(TEXTS)).splitlines()]
            for model in (path, out)]
        for a, b in zip(*scores):
            self.assertLess(abs(a - b), 0.1 * max(map(abs, scores[0])))

    def test_options_that_it_cannot_have(self):
        path, out = SHARED / "models/random/bert.gguf", self.path("int8.gguf")
        if not path.exists():
            self.skipTest(f"{path.name} is not in shared/models/random")
        self.assertRegex(self.fails("quantize", path, "-o", out, "--gguf=q4_0", "--rounding=gptq",
                                    status=2), "--rounding gptq: .* is an encoder")
        for option in ["--kv=i8", "--kv-search=4", "--bits-search=4", "--tune", "--smooth=0.5",
                       "--rotate=o", "--rounding=awq", "--cushion=auto", "--intact-text=x"]:
            name = option.split("=")[0].replace("-text", "")
            self.assertRegex(self.fails("quantize", path, "-o", out, option),
                             f"is an encoder .bert.: {name}.* is not for encoders")


class Rerank(Case):
    def model(self, name):
        path = SHARED / f"models/random/{name}.gguf"
        if not path.exists():
            self.skipTest(f"{path.name} is not in shared/models/random")
        return path

    def test_scores(self):
        model = self.model("bert-rerank")
        rows = [json.loads(line) for line in self.tuffet(
            "rerank", model, "a query", "--json", stdin=lines(TEXTS)).splitlines()]
        self.assertEqual(sorted(r["index"] for r in rows), [0, 1, 2])
        self.assertEqual([r["text"] for r in rows], [TEXTS[r["index"]] for r in rows])
        scores = [r["score"] for r in rows]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(len(set(scores)), 3)
        self.assertTrue(all(0 < s < 1 for s in scores))
        raw = [json.loads(line) for line in self.tuffet(
            "rerank", model, "a query", "--json", "--raw", stdin=lines(TEXTS)).splitlines()]
        for a, b in zip(rows, raw):
            self.assertEqual(a["index"], b["index"])
            self.assertAlmostEqual(a["score"], 1 / (1 + math.exp(-b["score"])), 5)
        text = self.tuffet("rerank", model, "a query", "--json-lines", "--top=2",
                           stdin=json_lines(TEXTS)).decode()
        self.assertEqual(text, "".join(f"{r['score']:.6f}\t{r['text']}\n" for r in rows[:2]))
        self.assertIn("tuffet rerank", self.fails("embed", model, stdin=b"x\n"))

    def test_template(self):
        """It makes the tokens of the model's pairs, and names in the texts are text in both."""
        plain = self.model("bert-rerank")
        path = self.write("template.gguf", with_texts(
            self.read(plain), tokenizer__chat_template__rerank="<s>{query}</s></s>{document}</s>"))
        for query in ["a query", "a </s> query {document}"]:
            texts = lines([*TEXTS, "one </s> two {query}"])
            self.assertEqual(self.tuffet("rerank", path, query, stdin=texts),
                             self.tuffet("rerank", plain, query, stdin=texts))
        other = self.write("other.gguf", with_texts(
            self.read(plain), tokenizer__chat_template__rerank="<s>{document}</s></s>{query}</s>"))
        self.assertNotEqual(self.tuffet("rerank", other, "a query", stdin=texts),
                            self.tuffet("rerank", path, "a query", stdin=texts))

    def test_long_documents(self):
        """Both kinds of pairs keep the query; the score is that of the cut document."""
        plain = self.model("bert-rerank")
        path = self.write("template.gguf", with_texts(
            self.read(plain), tokenizer__chat_template__rerank="<s>{query}</s></s>{document}</s>"))
        long = "hello world once upon a time " * 200
        for model in (plain, path):
            self.assertIn("line 2 has", self.fails("rerank", model, "q", stdin=lines(["x", long])))
            self.assertIn("no room for the query", self.fails(
                "rerank", model, long, "--truncate", stdin=b"x\n"))
            done = subprocess.run([*TUFFET, "rerank", model, "q", "--truncate"],
                                  input=lines(["x", long]), capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0)
            self.assertRegex(done.stderr, rb"^tuffet: 1 of 2 texts were cut to \d+ tokens\n$")
            self.assertEqual(len(done.stdout.splitlines()), 2)


if __name__ == "__main__":
    main()
