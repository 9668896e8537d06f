"""examples/search.c, which is linked to the shared libraries: an index of a folder, the nearest
passages, and an answer that cites them."""
import json
import os
import re
import shlex
import sqlite3
import subprocess

from program import PATIENCE, WRAPPER, Case, main
from test_embedding import SHARED

SEARCH = [*WRAPPER, *shlex.split(os.environ["SEARCH"])]
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


class Search(Case):
    def search(self, *args):
        done = subprocess.run([*SEARCH, *args], capture_output=True, timeout=2 * PATIENCE)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def index(self, model, files):
        folder, db = self.path(self._testMethodName), self.path("index.db")
        os.makedirs(folder, exist_ok=True)
        for name, text in files.items():
            self.write(f"{self._testMethodName}/{name}", text.encode())
        self.assertEqual(self.search("index", db, model, folder), (0, "", ""))
        return db

    def ask(self, db, model, question, *chat):
        status, out, err = self.search("ask", db, model, question, *chat)
        self.assertEqual((status, err), (0, ""))
        return out

    def test_toy(self):
        toy = self.toy(ctx=2000, template=TEMPLATE)
        db = self.index(toy, {"a.txt": "hello world\n\nonce upon a time\n", "b.txt": "the end",
                              "empty.txt": ""})
        self.assertEqual(sqlite3.connect(db).execute("PRAGMA page_size").fetchone(), (65536,))
        out = self.ask(db, toy, "once upon a time")
        self.assertTrue(out.startswith("[1] 1.0000 a.txt: once upon a time\n"), out)
        self.assertEqual(re.findall(r"^\[(\d)\] -?[\d.]+ [ab].txt: ", out, re.M),
                         ["1", "2", "3"])
        answer = self.ask(db, toy, "once upon a time", toy)[len(out):]
        self.assertRegex(answer,  # one sentence
                         r"^([^.!?\n\[]|\.[^ \n])+[.!?] (\[[123]\]){1,3}\n$")
        db = self.index(toy, {"a.txt": "hello"})  # replaces the index
        self.assertIn("a.txt: hello", self.ask(db, toy, "hello"))
        self.assertNotIn("a.txt: once", self.ask(db, toy, "hello"))

    def test_errors(self):
        toy = self.toy()
        for args, said in [((), "usage"), (("ask", "db", toy), "usage"),
                           (("index", self.path("x.db"), "no model", "."), "no model"),
                           (("index", self.path("x.db"), toy, "no folder"), "folder"),
                           (("ask", self.path("y.db"), toy, "hello"), "no such table")]:
            status, out, err = self.search(*args)
            self.assertEqual((status, out), (1, ""), args)
            self.assertIn(said, err)

    def test_retrieval(self):
        """15 of 15 queries have the right document among the first five."""
        model = SHARED / "models/embed/all-minilm-l6-v2.f16.gguf"
        if not model.exists():
            self.skipTest("all-minilm-l6-v2.f16.gguf is not in shared/models/embed")
        said = json.loads((SHARED / "models/embed/retrieval.json").read_text("utf-8"))
        documents = said["documents"]
        db = self.index(model, {f"{i}.txt": "\n\n".join(documents[i:i + 20])
                                for i in range(0, 60, 20)})
        found = 0
        for q in said["queries"]:
            out = self.ask(db, model, q["query"])
            right = documents[q["right"]]
            found += right in out
            first = documents[q["ranking"][0]]
            self.assertTrue(out.split(": ", 1)[1].startswith(first), q["query"])
        self.assertEqual((found, len(said["queries"])), (15, 15))


main()
