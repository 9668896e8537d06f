"""tuffet chat: /save and /load; tuffet run --prompt-cache"""
import json
import os
import pathlib
import struct
import subprocess
import zlib

from program import PATIENCE, TUFFET, Case, Terminal, main

TEMPLATE = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
HEAD = struct.Struct("<8sIIQQ")  # magic, version, messages, their bytes, bytes of the session
SYSTEM, USER, ASSISTANT, TOOL = range(4)


def message(role, text, name=b"", arguments=b""):
    return struct.pack("<4I", role, len(text), len(name), len(arguments)) + text + name + arguments


def conversation(messages, session=b"", version=1, count=None, size=None):
    """A file with these messages."""
    data = b"".join(messages)
    head = HEAD.pack(b"TFTCHAT\n", version, len(messages) if count is None else count,
                     len(data) if size is None else size, len(session))
    return head + struct.pack("<I", zlib.crc32(head + data)) + data + session


class Saved(Case):
    def setUp(self):
        self.file = self.path("talk")
        pathlib.Path(self.file).unlink(missing_ok=True)

    def chat(self, toy, *lines, args=()):
        """What the program says to these lines: its answers, and its notes."""
        done = subprocess.run([*TUFFET, "chat", toy, "--json", "-n8", *args], timeout=PATIENCE,
                              input="\n".join(lines).encode(), capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line)["content"] for line in done.stdout.splitlines()], \
            done.stderr.decode()

    def talker(self, **settings):
        return self.toy(template=TEMPLATE, endless=1, ctx=1000, **settings)

    def test_goes_on(self):
        toy = self.talker()
        for args in [["--system=once"], ["--temp=0"], ["--kv=kivi:window=32,group=16"],
                     ["--regex=[a-z ]{4,9}"]]:
            want, _ = self.chat(toy, "hello", "once upon", "the end", "hello", args=[*args, "-s3"])
            first, said = self.chat(toy, "hello", "once upon", f"/save {self.file}",
                                    args=[*args, "-s3"])
            self.assertRegex(said, rf"^saved {4 + ('--system=once' in args)} messages, "
                                   r"\d+\.\d MB\n$")
            # other random numbers and another system message, but for what is loaded
            got, said = self.chat(toy, "the time", f"/load {self.file}", "the end", "hello",
                                  "/stats", args=[*args, "-s99"])
            self.assertRegex(said, r"^loaded \d messages, \d\d+ tokens\n")
            self.assertEqual(first, want[:2])
            self.assertEqual(got[1:], want[2:])

    def test_computes_nothing_again(self):
        toy = self.talker()
        stats = []
        for lines in (["hello", "once upon", f"/save {self.file}", "the end", "/stats"],
                      [f"/load {self.file}", "the end", "/stats"]):
            _, said = self.chat(toy, *lines, args=["-s3"])
            stats.append([line.split(";")[0] for line in said.splitlines()
                          if line.startswith(("prompt", "context"))])
        self.assertRegex(stats[0][0], r"prompt   \d\d+ tokens, \d\d+ reused")
        self.assertEqual(*stats)

    def test_where_only_the_messages_fit(self):
        toy = self.talker()
        self.chat(toy, "hello", f"/save {self.file}", args=["-s1"])
        saved = self.read(self.file)
        n = HEAD.unpack(saved[:HEAD.size])[3]
        messages = saved[HEAD.size + 4:HEAD.size + 4 + n]
        plain = self.write("plain", conversation([messages], count=2))  # no session
        for other, args, why in [
            (toy, ["--kv=f32"], "was saved with another KV cache than the session has"),
            (self.talker(seed=9), [], "was saved with another model, or with weights in another "
                                      "form"),
        ]:
            got, said = self.chat(other, f"/load {self.file}", "the end", args=[*args, "-s2"])
            self.assertEqual(said, f"tuffet: {self.file}: {why}: its messages are computed again "
                                   "with the next one\nloaded 2 messages, 0 tokens\n")
            want, said = self.chat(other, f"/load {plain}", "the end", args=[*args, "-s2"])
            self.assertEqual(said, "loaded 2 messages, 0 tokens\n")
            self.assertEqual(got, want)
        _, said = self.chat(toy, f"/load {self.file}", args=["-c10"])
        self.assertIn("tokens, and the session has room for 10: its messages are", said)

    def test_an_empty_conversation(self):
        lines = [f"/save {self.file}", "hello", f"/load {self.file}", "/stats", "hello"]
        got, said = self.chat(self.talker(), *lines, args=["-s1"])
        self.assertRegex(said, "^saved 0 messages, 0.0 MB\nloaded 0 messages, 0 tokens\n"
                               "context  0 of", "/stats without an answer of another conversation")
        self.assertEqual(*got)  # with the same random numbers

    def test_files(self):
        toy = self.talker()
        for name in ("/save", "/load"):
            self.assertIn(f"{name} needs the name of a file",
                          self.fails("chat", toy, stdin=name.encode()))
        other = self.write("notes", b"my notes\n")
        self.assertIn("this file is not a saved conversation",
                      self.fails("chat", toy, stdin=f"/save {other}".encode()))
        self.assertEqual(self.read(other), b"my notes\n")
        self.assertIn("No such file", self.fails("chat", toy, stdin=b"/load /none/of/it"))
        self.assertIn("No such file", self.fails("chat", toy, stdin=b"/save /none/of/it"))
        fifo = self.path("fifo")  # nobody writes to it: it must not be waited for
        os.mkfifo(fifo)
        for path, why in [(fifo, "Invalid argument"), (self.folder.name, "Is a directory")]:
            self.assertIn(f"{path}: cannot be replaced: {why}",
                          self.fails("chat", toy, stdin=f"/save {path}".encode()))
        os.remove(fifo)
        spaced = self.path("two words")
        for _ in range(2):  # the second time there is a conversation
            self.chat(toy, "hello", f"/save   {spaced}  ")
        self.assertEqual(self.read(spaced)[:8], b"TFTCHAT\n")
        self.assertEqual(os.stat(spaced).st_mode & 0o777, 0o600)
        os.chmod(spaced, 0o640)  # the user's decision
        self.chat(toy, "hello", f"/save {spaced}")
        self.assertEqual(os.stat(spaced).st_mode & 0o777, 0o640)
        self.assertIn("not a saved conversation",
                      self.fails("chat", toy, stdin=f"/load {toy}".encode()))
        self.assertEqual([name for name in os.listdir(self.folder.name) if ".tmp" in name], [])

    def test_hostile_files(self):
        toy = self.talker()
        hello = [message(USER, b"hello"), message(ASSISTANT, b"once")]
        system = message(SYSTEM, b"be brief")
        call = message(ASSISTANT, b"", b"t0", b'{"n": 7}')
        good = conversation(hello)
        cases = [(good[:n], "not a saved conversation") for n in (0, 7, 35)]
        cases += [
            (good[:-1], "cut off, or has bytes after its end"),
            (good + b"x", "cut off, or has bytes after its end"),
            (good[:50] + b"x" + good[51:], "the checksum differs"),
            (conversation(hello, version=2), "saved by another version"),
            (conversation(hello, size=2**64 - 1), "cut off, or has bytes after its end"),
            (conversation(hello, count=3), "a message is cut off"),
            (conversation(hello, count=2**32 - 1), "a message is cut off"),
            (conversation([hello[0], hello[1][:-1]]), "a message is cut off"),
            (conversation(hello, count=1), "bytes after the last message"),
            (conversation(hello[:1]), "the last answer is missing"),
            (conversation(hello[1:]), "messages are out of order"),
            (conversation(hello + hello[1:]), "messages are out of order"),
            (conversation(hello + [system]), "messages are out of order"),
            (conversation([system, system, *hello]), "messages are out of order"),
            (conversation([message(TOOL, b"7")]), "messages are out of order"),
            (conversation([*hello, message(TOOL, b"7"), hello[1]]), "messages are out of order"),
            (conversation([message(4, b"x")]), "has an unknown role"),
            (conversation([message(SYSTEM, b"a\0b"), *hello]), "has a NUL"),
            (conversation([message(USER, b"hello", b"t0", b"{}")]),
             "a call is in a message of a wrong role"),
            (conversation([hello[0], message(ASSISTANT, b"", b"", b"{}")]), "or has no name"),
            (conversation([hello[0], message(ASSISTANT, b"", b"t0", b'{}],"x":[{}')]),
             "not a JSON object"),
            (conversation([hello[0], message(ASSISTANT, b"", b"t0", b"")]), "not a JSON object"),
            (conversation([hello[0], call, hello[1]]), "messages are out of order"),
            (conversation([hello[0], call, message(TOOL, b"7"), hello[1]]), "give --tools"),
        ]
        for i, (data, why) in enumerate(cases):
            path = self.write(f"bad{i}", data)
            self.assertIn(why, self.fails("chat", toy, stdin=f"/load {path}\nhello".encode()), i)
        # a bad session behind good messages
        got, said = self.chat(toy, f"/load {self.write('odd', conversation(hello, b'no session'))}",
                              "the end")
        self.assertIn("not a saved session: its messages are computed again", said)
        self.assertEqual(len(got), 1)

    def test_after_an_error_the_conversation_goes_on(self):
        toy = self.toy(template="{% for m in messages %}{% if m.content == 'no' %}"
                                "{{ raise_exception('not this') }}{% endif %}{{ m.content }}"
                                "{% endfor %}", endless=1, ctx=1000)
        bad = self.write("bad", conversation([message(USER, b"no"), message(ASSISTANT, b"once")]))
        t = Terminal("chat", toy, "-s1", "-n8")
        for line, answer in [("hello", b"> "), (f"/load {bad}", b"not this"), ("again", b"> "),
                             (f"/save {self.file}", b"saved 4 messages")]:
            t.type(line.encode() + b"\n")
            t.wait_for(line.encode() + b"\r\n")
            t.wait_for(answer)
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_a_full_disk(self):
        toy = self.talker()
        self.chat(toy, "hello", f"/save {self.file}", args=["-s1"])
        before = self.read(self.file)
        run = 'ulimit -f 8; trap "" XFSZ; exec "$@"'  # 4 KiB
        done = subprocess.run(["sh", "-c", run, "sh", *TUFFET, "chat", toy, "-n8", "-s2"],
                              input=f"once upon\n/save {self.file}\n".encode(),
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(),
                         rf"^tuffet: {self.file}: cannot be written: File too large\n$")
        self.assertEqual(self.read(self.file), before)


class PromptCache(Case):
    def run_with(self, toy, prompt, *args, cache=None):
        """The text, and how many tokens came from the cache; with it, the program's notes too."""
        args = [*TUFFET, "run", toy, "-s5", "-n12", "--json", "-p", prompt, *args]
        done = subprocess.run([*args, *(["--prompt-cache", cache] if cache else [])],
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        return said["text"], said["cached_tokens"], said["prompt_tokens"], done.stderr.decode()

    def test_the_same_answers(self):
        prompts = ["hello world, " * 20, "hello world, " * 20, "hello world, " * 20 + "once upon",
                   "hello", "hello world, the end"]
        for kv in ["f16", "kivi:window=32,group=16", "kivi:window=32,group=16,prefill=prompt"]:
            toy, cache, before = self.toy(endless=1, ctx=1000), self.path(f"cache {kv}"), ""
            for i, prompt in enumerate(prompts):
                want, _, n, _ = self.run_with(toy, prompt, "--kv", kv)
                got, cached, _, said = self.run_with(toy, prompt, "--kv", kv, cache=cache)
                self.assertEqual((got, said), (want, ""))
                same = len(os.path.commonprefix([prompt, before])) > 50 and n > 50
                self.assertEqual(cached == n, i == 1)  # nothing is computed
                file, was = os.stat(cache).st_ino, file if i else None
                self.assertEqual(file == was, i == 1, "the file is only replaced by another one")
                self.assertEqual(cached > 50, same)
                before = prompt

    def test_files(self):
        toy, other = self.toy(endless=1), self.toy(endless=1, seed=9)
        cache = self.path("prompt cache")
        self.run_with(toy, "hello", cache=cache)
        want = self.run_with(other, "hello")[0]
        got, cached, _, said = self.run_with(other, "hello", cache=cache)
        self.assertEqual((got, cached), (want, 0))
        self.assertEqual(said, f"tuffet: {cache}: was saved with another model, or with weights in "
                               "another form: it is replaced by this prompt\n")
        _, cached, n, said = self.run_with(other, "hello", cache=cache)
        self.assertEqual((cached, said), (n, ""))
        self.assertEqual(os.stat(cache).st_mode & 0o777, 0o600)
        self.write("prompt cache", self.read(cache)[:-5])
        got, cached, _, said = self.run_with(other, "hello", cache=cache)
        self.assertEqual((got, cached), (want, 0))
        self.assertIn("cut off", said)
        notes = self.write("notes", b"my notes\n")
        self.assertIn("this file is not a saved session",
                      self.fails("run", toy, "-phello", "--prompt-cache", notes))
        self.assertEqual(self.read(notes), b"my notes\n")
        self.assertIn("No such file",
                      self.fails("run", toy, "-phello", "--prompt-cache", "/none/of/it"))
        os.mkfifo(self.path("fifo"))
        for path, why in [("fifo", "Invalid argument"), ("", "Is a directory")]:
            # one line, before the prompt is computed
            self.assertIn(f"{path}: cannot be read: {why}",
                          self.fails("run", toy, "-phello", "--prompt-cache", self.path(path)))

    def test_a_session_that_slides(self):
        toy, cache = self.toy(endless=1), self.path("slid")
        prompt = "hello world, " * 30
        want = self.run_with(toy, prompt, "-c64", "--slide")[0]
        self.assertEqual(self.run_with(toy, prompt, "-c64", "--slide", cache=cache)[0], want)
        self.assertFalse(os.path.exists(cache))


main()
