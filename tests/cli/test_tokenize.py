"""tuffet tokenize"""
import json
import os
import pathlib

from program import Case, main

SHARED = os.environ.get("TUFFET_SHARED") or os.path.join(
    os.environ.get("TUFFET_SOURCE", "."), "../shared")
TEXT = "hello world, once upon ä time\n\n<|user|>"


class Tokenize(Case):
    def test_round_trip(self):
        for vocab in ["llama", "gpt2"]:
            toy = self.toy(vocab=vocab)
            for special in [[], ["--special"]]:
                ids = self.tuffet("tokenize", toy, "-p", TEXT, *special)
                self.assertRegex(ids, rb"^\d+( \d+)+\n$")
                self.assertEqual(self.tuffet("tokenize", toy, "--decode", *special,
                                             stdin=ids).decode(), TEXT)
                self.assertEqual(self.json("tokenize", toy, "--decode", *special, stdin=ids),
                                 {"text": TEXT})
                answer = self.json("tokenize", toy, "-p", TEXT, *special)
                self.assertEqual(answer["tokens"], list(map(int, ids.split())))
                self.assertEqual(len(answer["pieces"]), len(answer["tokens"]))
                self.assertEqual("<|user|>" in answer["pieces"], bool(special))
                pieces = self.tuffet("tokenize", toy, "-p", TEXT, "--pieces",
                                     *special).decode().splitlines()
                self.assertEqual([int(line.split("\t")[0]) for line in pieces], answer["tokens"])
                self.assertIn("\\xc3", pieces[answer["pieces"].index("\ufffd")])

    def test_user_tokens_of_one_byte(self):
        """Behind each of them, the text begins with a space: more tokens than bytes."""
        toy = self.toy()
        data, key = bytearray(self.read(toy)), b"tokenizer.ggml.token_type"
        user = self.json("tokenize", toy, "-p", "za")["tokens"][-1]
        at = data.index(key) + len(key) + 4 + 4 + 8 + 4 * user
        data[at:at + 4] = (4).to_bytes(4, "little")  # user-defined
        answer = self.json("tokenize", self.write("user.gguf", data), "-p", "az" * 20)
        self.assertEqual(answer["pieces"].count("a"), 20)
        self.assertGreater(len(answer["tokens"]), 42)
        got = self.json("ppl", self.path("user.gguf"), "-f", "-", stdin=b"az" * 20)
        self.assertEqual(got["tokens"], len(answer["tokens"]))

    def test_texts(self):
        toy, text = self.toy(), self.write("text", TEXT.encode())
        want = self.tuffet("tokenize", toy, "-p", TEXT)
        self.assertEqual(self.tuffet("tokenize", toy, "-f", text), want)
        self.assertEqual(self.tuffet("tokenize", toy, stdin=TEXT.encode()), want)
        self.assertEqual(self.tuffet("tokenize", toy, "--bos", "-p", TEXT), b"1 " + want)
        self.assertEqual(self.tuffet("tokenize", toy, "--bos", "--special", "-p", "<s>" + TEXT),
                         self.tuffet("tokenize", toy, "--bos", "--special", "-p", TEXT))
        self.assertEqual(self.tuffet("tokenize", toy, "-p", ""), b"\n")
        self.assertEqual(self.json("tokenize", toy, "-p", ""), {"tokens": [], "pieces": []})
        self.assertEqual(self.tuffet("tokenize", toy, "--decode", "-p", ""), b"")
        data = bytes(range(1, 256)) * 3
        ids = self.tuffet("tokenize", self.toy(vocab="gpt2"), stdin=b"\0" + data)
        self.assertGreater(len(ids.split()), len(data) // 2)

    def test_separators(self):
        toy = self.toy()
        want = self.tuffet("tokenize", toy, "--decode", "-p", "365 381")
        for ids in ["365,381", " 365\n\t381\r\n", "365, 381"]:
            self.assertEqual(self.tuffet("tokenize", toy, "--decode", "-p", ids), want)

    def test_invalid_ids(self):
        for ids, at in [("365 x", 4), ("-1", 0), ("365 420", 4), ("1.5", 0),
                        ("99999999999999999999", 0), ("365;381", 0)]:
            self.assertIn(f"byte {at} of the text is not",
                          self.fails("tokenize", self.toy(), "--decode", "-p", ids))

    def test_eos_and_pairs(self):
        toy = self.toy()
        bare = self.tuffet("tokenize", toy, "-p", "hello")
        self.assertEqual(self.tuffet("tokenize", toy, "--eos", "-p", "hello"), bare)
        self.assertIn("no token between", self.fails("tokenize", toy, "-phello", "--pair", "a"))
        toy = self.toy(adds_eos=1)
        self.assertEqual(self.tuffet("tokenize", toy, "--eos", "-p", "hello"), bare[:-1] + b" 2\n")
        pair = self.tuffet("tokenize", toy, "-phello", "--pair", "hello")
        self.assertEqual(pair, b"1 " + (bare[:-1] + b" 2 ") + bare[:-1] + b" 2\n")
        self.assertEqual(set(self.json("tokenize", toy, "-phello", "--pair", "hello")["types"]),
                         {0})
        self.assertIn("--pair", self.fails("tokenize", toy, "--decode", "-p1", "--pair", "a",
                                           status=2))
        self.assertIn("--eos", self.fails("tokenize", toy, "--decode", "-p1", "--eos", status=2))

    def test_bert(self):
        """Texts and pairs of a real model with the tokens of an independent tokenizer."""
        folder = pathlib.Path(SHARED, "models/embed")
        model = folder / "all-minilm-l6-v2.f16.gguf"
        if not model.exists():
            self.skipTest("shared/models/embed is not there")
        texts = [json.loads(line) for line in (folder / "ids").read_text("utf-8").splitlines()]
        self.assertEqual(len(texts), 20)
        for one in texts:
            got = self.json("tokenize", model, "--bos", "--eos", "-f", "-",
                            stdin=one["text"].encode())["tokens"]
            self.assertEqual(len(got) > 512, one["cut"])
            self.assertEqual(got[:511] + got[-1:] if one["cut"] else got, one["ids"])
        pairs = [json.loads(line) for line in (folder / "pairs").read_text("utf-8").splitlines()]
        self.assertEqual(len(pairs), 15)
        for one in pairs:
            got = self.json("tokenize", model, "-p", one["query"], "--pair", one["document"])
            self.assertEqual((got["tokens"], got["types"]), (one["ids"], one["types"]))

    def test_needs_only_a_vocabulary(self):
        self.assertIn("no tokenizer in it", self.fails("tokenize", self.toy(vocab=""), "-phello"))
        other = self.read(self.toy()).replace(b"llama", b"other", 1)  # the architecture
        self.assertEqual(self.tuffet("tokenize", self.write("other", other), "-phello"), b"365\n")


main()
