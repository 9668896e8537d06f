"""tuffet chat"""
import json
import os
import re
import signal
import subprocess
import unittest

from program import TUFFET, Case, Terminal, interrupt, main, wait_until

ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")

EDITS = b" libedit" in subprocess.run([*TUFFET, "--version"], capture_output=True).stdout


class Chat(Case):
    def answers(self, *args, stdin):
        out = self.tuffet("chat", *args, "--json", stdin=stdin)
        return [json.loads(line) for line in out.splitlines()]

    def test_an_answer_is_the_text_after_the_prompt(self):
        toy = self.toy(template=ZEPHYR)
        prompt = "<|user|>\nhello</s>\n<|assistant|>\n"
        want = self.json("run", toy, "--special", "-p", prompt, "-s1", "-n20")
        got = self.json("chat", toy, "-phello", "-s1", "-n20")
        self.assertEqual(set(got), {"role", "content", "stop", "tokens", "prompt_tokens",
                                    "cached_tokens", "tok_s"})
        self.assertEqual((got["prompt_tokens"] > 0, got["cached_tokens"]), (True, 0))
        self.assertEqual((got["role"], got["content"], got["stop"], got["tokens"]),
                         ("assistant", want["text"], want["stop"], want["tokens"]))
        self.assertEqual(self.tuffet("chat", toy, "-phello", "-s1", "-n20").decode(),
                         got["content"] + "\n")

        prompt = "<|system|>\nonce</s>\n" + prompt
        want = self.json("run", toy, "--special", "-p", prompt, "-s1", "-n20")
        self.assertEqual(self.json("chat", toy, "-phello", "-s1", "-n20",
                                   "--system=once")["content"], want["text"])

    def test_the_prompt_ends_before_the_answer(self):
        toy, text = self.toy(template=ZEPHYR, ctx=1000), "hello world, " * 20
        options = ["--kv=kivi:window=32,group=16,prefill=prompt", "--temp=0", "-n40"]
        want = self.json("run", toy, "--special", *options,
                         "-p", f"<|user|>\n{text}</s>\n<|assistant|>\n")["text"]
        self.assertEqual(self.json("chat", toy, "-p", text, *options)["content"], want)

    def test_guesses_change_nothing_but_time(self):
        args = ["chat", self.toy(template=ZEPHYR), "--temp=0", "-n30"]
        text = b"hello hello hello hello\nhello hello hello hello\nhello\n"
        want = self.tuffet(*args, "--lookup=0", stdin=text)
        self.assertEqual(self.tuffet(*args, stdin=text), want)
        self.assertEqual(self.tuffet(*args, "--draft", args[1], stdin=text), want)

    def test_remembers_the_conversation(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        first, second = self.answers(toy, "--temp=0", "-n8", stdin=b"hello\n\nonce upon\r\n")
        # an endless vocabulary has no </s> to put after a message
        prompt = (f"<|user|>\nhello\n<|assistant|>\n{first['content']}\n"
                  "<|user|>\nonce upon\n<|assistant|>\n")
        self.assertEqual(second["content"], self.json("run", toy, "--temp=0", "-n8", "--special",
                                                      "-p", prompt)["text"])
        plain = self.tuffet("chat", toy, "--temp=0", "-n8", stdin=b"hello\nonce upon").decode()
        self.assertEqual(plain, first["content"] + "\n" + second["content"] + "\n")

    def test_an_empty_answer_is_not_remembered(self):
        toy = self.toy(template=ZEPHYR, seed=146)  # it has nothing to say to this
        nothing, something = self.answers(toy, "--temp=0", "-n8", stdin=b"hello\nonce upon\n")
        self.assertEqual((nothing["content"], nothing["stop"], nothing["tokens"]), ("", "end", 0))
        self.assertEqual(something["content"], self.json("chat", toy, "--temp=0", "-n8",
                                                         "-ponce upon")["content"])

    def test_drops_the_oldest_messages(self):
        toy, turns = self.toy(template=ZEPHYR, endless=1), 14
        done = subprocess.run([*TUFFET, "chat", toy, "--temp=0", "-n8", "--json",
                               "--system=once upon"], input=b"hello world\n" * turns,
                              capture_output=True)
        self.assertEqual(done.returncode, 0)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([answer["stop"] for answer in answers], ["length"] * turns)
        said = re.fullmatch(
            rb"tuffet: the context is full: the oldest (\d+) messages are dropped\n", done.stderr)
        prompt, question = "<|system|>\nonce upon\n", "<|user|>\nhello world\n<|assistant|>\n"
        for answer in answers[int(said[1]) // 2:-1]:
            prompt += question + answer["content"] + "\n"
        self.assertEqual(answers[-1]["content"], self.json("run", toy, "--temp=0", "-n8",
                                                           "--special", "-p",
                                                           prompt + question)["text"])
        # its own answer fills it
        self.assertEqual(self.json("chat", toy, "-phello", "--temp=0")["stop"], "context")

    def test_a_message_that_is_too_long(self):
        self.assertIn("the message makes a prompt of", self.fails("chat", self.toy(template=ZEPHYR),
                                                                  "-p", "x" * 300))

    def test_dates(self):
        toy = self.toy(template="{{ strftime_now('%d') }}{{ messages[0].content }}")
        for date in ("2024-05-20", "2024-12-31", "2024-02-29"):
            self.json("chat", toy, "-phello", "-n1", "--date", date)
        for date in ("2024-13-01", "2023-02-29", "2024-5-1", " 2024-5-1", "2024-05-01x"):
            self.assertIn("--date must be YYYY-MM-DD",
                          self.fails("chat", toy, "-phello", "--date", date, status=2))

    def test_formats(self):
        self.assertIn("the file has no chat template: name the format with --template: chatml",
                      self.fails("chat", self.toy(), "-phello"))
        self.assertIn("chat template: line 2: the tag {% morse %} is not supported here: name a "
                      "format with --template: chatml",
                      self.fails("chat", self.toy(template="\n{% morse %}"), "-phello"))
        self.assertIn("the chat template of the file does not use enable_thinking",
                      self.fails("chat", self.toy(template=ZEPHYR), "-phello", "--no-think"))
        for name in ["chatml", "qwen3", "llama2", "llama3", "zephyr", "phi3", "gemma", "mistral"]:
            self.assertEqual(self.json("chat", self.toy(), "-phello", "-n3", "--template",
                                       name)["role"], "assistant")

    def test_a_template_in_a_file(self):
        want = self.json("chat", self.toy(template=ZEPHYR), "-phello", "-n9", "--temp=0")
        for model in self.toy(), self.toy(template="\n{% morse %}"):
            for end in b"", b"\n":  # as in Jinja, the last newline of a file does not count
                path = self.write("chat_template.jinja", ZEPHYR.encode() + end)
                got = self.json("chat", model, "-phello", "-n9", "--temp=0",
                                "--template-file", path)
                self.assertEqual(got["content"], want["content"])
        for text, says in [(b"a\n{% morse %}", "line 2: the tag {% morse %}"),
                           (b"{{ '\0' }}", "has a NUL"),
                           (b"{{ raise_exception('no roles') }}", "no roles")]:
            path = self.write("bad.jinja", text)
            said = self.fails("chat", self.toy(template=ZEPHYR), "-phello", "--template-file", path)
            self.assertIn(path + ": ", said)
            self.assertIn(says, said)
        self.assertIn("none.jinja", self.fails("chat", self.toy(), "-phello", "--template-file",
                                               self.path("none.jinja")))
        self.assertIn("give one of them", self.fails(
            "chat", self.toy(), "-phello", "--template-file", path, "--template=chatml", status=2))

    def test_at_a_terminal(self):
        t = Terminal("chat", self.toy(template=ZEPHYR, endless=1, ctx=100000), "-s1", "-t1")
        t.wait_for(b"> ")
        t.type(b"hello\n")
        t.wait_for(b"hello\r\n")
        t.wait_for(b"e")  # it talks, and would for long
        t.type(b"\x03")
        t.wait_for(b"\n> ")
        t.type(b"\n")  # nothing said, nothing answered
        self.assertEqual(t.wait_for(b"> "), b"\r\n> ")
        t.type(b"once\n")
        t.wait_for(b"once\r\n")
        t.wait_for(b"e")
        t.type(b"\x03")
        t.wait_for(b"\n> ")
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_lines_typed_ahead(self):
        """At a prompt the terminal shows them at once; during an answer, the next prompts do."""
        t = Terminal("chat", self.toy(template=ZEPHYR, endless=1, ctx=100000), "-s1", "-t1")
        t.wait_for(b"> ")
        t.type(b"hello\n/first\n/second\n")
        t.wait_for(b"hello\r\n/first\r\n/second\r\n")
        t.wait_for(b"e")  # it talks
        t.type(b"/third\n/fourth\n")
        wait_until(lambda: t.queued() == len(b"/first\n/second\n/third\n/fourth\n"))
        t.type(b"\x03")
        for line in [b"", b"", b"/third\r\n", b"/fourth\r\n"]:
            t.wait_for(b"\r\n> " + line + b"tuffet: ")
        t.wait_for(b"\r\n> ")
        t.type(b"/fifth\n")
        t.wait_for(b"/fifth\r\ntuffet: ")
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_interrupts_at_the_prompt(self):
        # they may come just before the program reads, or just after
        for after in [b"", b"hello\n"] * 10:
            t = Terminal("chat", self.toy(template=ZEPHYR), "-n1")
            t.wait_for(b"> ")
            t.type(after)
            if after:
                t.wait_for(b"\n> ")
            t.type(b"\x03")
            t.wait_for(b"ends the conversation\r\n> ")
            t.type(b"\x03")
            self.assertEqual(t.end(), 130)

    def test_an_error_does_not_end_a_conversation(self):
        t = Terminal("chat", self.toy(template=ZEPHYR), "-s1")
        t.wait_for(b"> ")
        t.type(b"x" * 300 + b"\n")
        t.wait_for(b"the message makes a prompt of")
        t.wait_for(b"> ")
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_commands(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        def said(*lines):
            answers = self.answers(toy, "--temp=0", "-n8", stdin="\n".join(lines).encode())
            return [answer["content"] for answer in answers]
        first, second, other = said("hello", "once upon", "/undo", "the time")
        self.assertEqual([first, other], said("hello", "the time"))
        self.assertEqual([first, second, other], said("hello", "once upon", "/clear", "the time")[
            :2] + [other])
        self.assertEqual(said("hello", "once upon", "/clear ", "the time")[2], said("the time")[0])
        self.assertEqual(said("hello", "/retry", "once upon"), [first, first, second])
        self.assertEqual(said("hello", "/undo", "/system the end", "hello", "/undo", "hello"),
                         [first, *[self.json("chat", toy, "--temp=0", "-n8", "-phello",
                                             "--system=the end")["content"]] * 2])
        # the answers alone go to standard output
        done = subprocess.run([*TUFFET, "chat", toy, "--temp=0", "-n8"], capture_output=True,
                              input=b"/system the\\\nend\n/system\nhello\n/stats\n/help\n")
        self.assertEqual((done.returncode, done.stdout.count(b"\n")), (0, 1))
        for text in [rb"^the\\nend\n", rb"\nanswer   8 tokens in",
                     rb"\ncontext  \d+ of 256 tokens\n", rb"\ncache    \d+ bytes a token",
                     rb"\n/undo   "]:
            self.assertRegex(done.stderr, text)

    def test_files_before_a_message(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        one, two = self.write("one.txt", b"hello world\n"), self.write("two.txt", b"once upon")
        def said(stdin):
            done = subprocess.run([*TUFFET, "chat", toy, "--temp=0", "-n8", "--json"], check=True,
                                  input=stdin, capture_output=True)
            return [json.loads(line)["content"] for line in done.stdout.splitlines()], done.stderr
        got, err = said(f"/file {one}\n/file {two}\nthe time\nhello\n".encode())
        want, _ = said(b'"""hello world\n\nonce upon\n\nthe time"""\nhello\n')
        self.assertEqual(got, want)
        lines = err.decode().splitlines()
        self.assertEqual([re.sub("[0-9]+ tokens", "N tokens", line) for line in lines],
                         [f"{path}: N tokens, part of the next message" for path in [one, two]])
        # ~/ is the user's folder
        os.environ["HOME"] = self.folder.name
        self.assertEqual(said(b"/file ~/one.txt\n/save ~/a b\nhello\n")[0],
                         said(f"/file {one}\nhello\n".encode())[0])
        self.assertTrue(os.path.exists(self.path("a b")))
        # /clear drops a file
        self.assertEqual(said(f"/file {one}\n/clear\nhello\n".encode())[0], said(b"hello\n")[0])
        for path, data, says in [("empty", b"", "the file is empty"),
                                 ("large", b"a" * ((4 << 20) + 1), "more than 4 MiB"),
                                 ("long", b"hello world " * 300, "but the context holds only")]:
            path = self.write(path, data)
            self.assertRegex(self.fails("chat", toy, stdin=f"/file {path}\n".encode()), says)
        self.assertIn("none", self.fails("chat", toy, stdin=b"/file none\n"))
        self.assertIn("needs the name", self.fails("chat", toy, stdin=b"/file\n"))
        os.mkfifo(self.path("pipe"))  # to which nobody writes
        for path in (self.path("pipe"), "/dev/zero"):
            self.assertIn(f"{path}: is a pipe or a device",
                          self.fails("chat", toy, stdin=f"/file {path}\n".encode()))

    def test_another_model(self):
        """The other model gets the messages, as from a saved conversation."""
        a = self.toy(template=ZEPHYR, endless=1)
        b = self.toy(template="{% if 0 %}{{ enable_thinking }}{% endif %}" + ZEPHYR, endless=1,
                     seed=5, ctx=400)
        saved = self.path("conversation")
        def said(model, *lines, args=("--temp=0", "-n8")):
            done = subprocess.run([*TUFFET, "chat", model, "--json", *args], check=True,
                                  input="\n".join(lines).encode(), capture_output=True)
            return [json.loads(line)["content"] for line in done.stdout.splitlines()], done.stderr
        first, _ = said(a, "/system be brief", "hello", "/save " + saved)
        want, _ = said(b, "/load " + saved, "once upon", "/save " + saved)
        last, _ = said(a, "/load " + saved, "the time")
        self.assertNotEqual(want, said(a, "/system be brief", "hello", "once upon")[0][1:])
        got, err = said(a, "/system be brief", "hello", "/model " + b, "once upon", "/model " + a,
                        "the time")
        self.assertEqual(got, first + want + last)
        self.assertIn(b"goes on with 3 messages, computed with the next one\n", err)
        # before the first message, and with the random numbers of the conversation
        self.assertEqual(said(a, "/model " + b, "hello")[0], said(b, "hello")[0])
        drawn = [said(model, *lines, args=("--temp=1", "-n8", "--seed=3"))[0]
                 for model, lines in [(b, ["hello"]), (a, ["/model " + b, "hello"])]]
        self.assertEqual(*drawn)
        self.assertEqual(said(a, "/model " + b, "hello", "/undo", "/model " + a, "hello")[0][1:],
                         said(a, "hello")[0])
        form = ("--temp=0", "-n8", "--regex=(yes|no)")
        self.assertIn(said(a, "hello", "/model " + b, "hello", args=form)[0][1], ["yes", "no"])
        for lines, args, says in [("/model", [], "needs the name of a file"),
                                  ("/model none.gguf", [], "none.gguf"),
                                  ("/model " + self.toy(endless=1), [], "has no chat template"),
                                  ("/model " + a, ["--draft", a], "not with --draft")]:
            self.assertIn(says, self.fails("chat", a, *args, stdin=lines.encode()))
        self.assertIn("--no-think: ",
                      self.fails("chat", b, "--no-think", stdin=f"/model {a}".encode()))

    def test_another_model_that_cannot_be_opened(self):
        """At a terminal the conversation goes on with the one before."""
        t = Terminal("chat", self.toy(template=ZEPHYR, endless=1), "-n4", "--temp=0",
                     "--no-history", "--dry-multiplier=0.5")
        t.wait_for(b"> ")
        for path, says in [("none.gguf", b"none.gguf"),
                           (self.toy(endless=1), b"has no chat template"),
                           (self.toy(template="{{ raise_exception('not this') }}", endless=1),
                            b"not this")]:
            t.type(f"/system be\n/model {path}\n".encode())
            t.wait_for(says)
            t.wait_for(b"\n> ")
        t.type(b"hello\n/stats\n")
        t.wait_for(b"answer   4 tokens")
        t.wait_for(b"\n> ")
        t.type(b"/quit\n")
        self.assertEqual(t.end(), 0)

    def test_settings(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        def said(*args, lines):
            return [answer["content"] for answer in self.answers(
                toy, "-n12", *args, stdin="\n".join(lines).encode())]
        greedy = said("--temp=0", lines=["hello"])
        hot = said("--temp=5", "--seed=3", lines=["hello"])
        self.assertNotEqual(greedy, hot)
        self.assertEqual(said("--temp=5", lines=["/set temp 0", "hello"]), greedy)
        self.assertEqual(said("--temp=0", lines=["/set temp 5", "/set seed 3", "hello"]), hot)
        # the random generator goes on
        want = said("--temp=5", "--seed=3", lines=["hello", "once"])
        self.assertEqual(said("--temp=5", "--seed=3", lines=["hello", "/set top-p 0.95", "once"]),
                         want)
        dry = said("--temp=0", "--dry-multiplier=9", "--dry-allowed-length=1", lines=["hello"])
        self.assertEqual(said("--temp=0", lines=["/set dry-multiplier 9",
                                                 "/set dry-allowed-length 1", "hello"]), dry)
        self.assertEqual(said("--temp=0", lines=["/set ignore-eos on", "/set ignore-eos off",
                                                 "hello"]), greedy)
        for line, says in [("/set", "/set temp 0.2"), ("/set temp", "/set temp 0.2"),
                           ("/set temp x", "/set: --temp needs a number"),
                           ("/set morse 1", 'no option "morse"'),
                           ("/set dry-sequence-breaker x", "no option"),
                           ("/set ignore-eos 1", "must be on or off")]:
            self.assertIn(says, self.fails("chat", toy, stdin=line.encode()), line)

    def test_commands_that_end_a_conversation(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        for command in ["/quit", "/exit ", "/bye"]:
            out = self.answers(toy, "-n8", stdin=f"hello\n{command}\nhello\n".encode())
            self.assertEqual(len(out), 1, command)
            t = Terminal("chat", toy)
            t.wait_for(b"/help lists what can be typed, /quit or Ctrl-D ends the conversation\r\n")
            t.wait_for(b"> ")
            t.type(command.encode() + b"\n")
            self.assertEqual(t.end(), 0)
        self.assertIn("/quit takes no text after it", self.fails("chat", toy, stdin=b"/quit now\n"))

    def test_invisible_characters_are_shown(self):
        said = "a\u200bb\u00adc\ufeff\u202e\u3164\U000e0041d é 中"
        done = subprocess.run([*TUFFET, "chat", self.toy(template=ZEPHYR)], capture_output=True,
                              input=f"/system {said}\n/system\n".encode())
        self.assertEqual(done.stderr.decode(), r"a\u{200b}b\u{ad}c\u{feff}\u{202e}\u{3164}"
                                               r"\u{e0041}d é 中" + "\n")

    def test_numbers_at_the_ends_of_ranges(self):
        said = subprocess.run([*TUFFET, "chat", self.w8a8(), "--template=phi3", "-n8"], check=True,
                              capture_output=True, input=b"hello\n/stats\n").stderr
        self.assertRegex(said, rb"\n8 bits   \d+\.\d{3} % of the inputs' numbers at the ends of "
                               rb"their ranges \(\d+\.\d{3} % at calibration\)\n")

    def test_another_seed_for_a_retry(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        args = ["chat", toy, "-n12", "-s3", "--json"]
        out = [json.loads(line)["content"] for line in
               self.tuffet(*args, stdin=b"hello\n/retry\n/retry\n").splitlines()]
        self.assertEqual(len(set(out)), 3)
        self.assertEqual(out, [json.loads(line)["content"] for line in
                               self.tuffet(*args, stdin=b"hello\n/retry\n/retry").splitlines()])

    def test_commands_that_fail(self):
        toy = self.toy(template=ZEPHYR)
        for line, why in [
            (b"/nothing to see", "there is no command /nothing: /help lists them, // sends"),
            (b"/", "there is no command /"), (b"/undo", "no message to undo"),
            (b"/retry", "no answer to try again"), (b"/undo 2", "/undo takes no text after it"),
            (b"/system a\0b", "/system: the text has a NUL"),
            (b"/\x1b[2J\xff", r"no command /\x1b[2J\xff:"),
            (b'"""hello\nonce', 'does not end with """'),
        ]:  # a pipe ends there: what comes next was written for another conversation
            self.assertIn(why, self.fails("chat", toy, stdin=line + b"\nhello\n"))
        ignored = self.toy(template="{{ messages[-1].content }}")
        self.assertIn("ignores the system message", self.fails("chat", ignored,
                                                               stdin=b"/system hello\n"))

    def test_messages_that_the_template_drops(self):
        toy = self.toy(template="{{ messages[0].content }}", endless=1)
        said = subprocess.run([*TUFFET, "chat", toy, "-n8"], input=b"hello\nonce\n",
                              capture_output=True)
        self.assertEqual(said.returncode, 1)
        self.assertIn(b"drops message 3: the model would not see it", said.stderr)

    def test_a_template_that_takes_lists_of_parts(self):
        each = "{%% for m in messages %%}{{ '<|' + m.role + '|>' }}%s{%% endfor %%}"
        text = each % "{{ m.content }}"
        parts = each % "{% for p in m.content %}{{ p.text }}{% endfor %}"
        got = [self.json("chat", self.toy(template=x, endless=1), "--temp=0", "-n8", "-phello",
                         "--system=once") for x in [text, parts]]
        self.assertEqual(got[0]["content"], got[1]["content"])

    def test_messages_of_several_lines(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        def said(text):
            return [answer["content"] for answer in self.answers(toy, "--temp=0", "-n8",
                                                                 stdin=text)]
        def want(text):
            return [self.json("chat", toy, "--temp=0", "-n8", "-p", text)["content"]]
        for text, message in [
            (b"once\\\nupon\\\n\\a\n", "once\nupon\n\\a"), (b"once\\", "once\n"),
            (b'"""once\nupon"""\n', "once\nupon"), (b'"""\n\n /once\\\n\n"""\n', "\n /once\\\n"),
            (b'"""/help"""', "/help"), (b'"""a""" b\n"""', 'a""" b'), (b"//once", "/once"),
            (b"//", "/"), (b"///", "//"), (b'""once', '""once'), (b" /once", " /once"),
        ]:
            self.assertEqual(said(text), want(message), text)
        for nothing in [b'""""""\n', b'"""\n"""\n', b"\n\r\n", b""]:
            self.assertEqual(said(nothing), [])

    def test_odd_bytes(self):
        toy = self.toy(template=ZEPHYR, endless=1, ctx=4000)
        out = self.answers(toy, "--temp=0", "-n8",
                           stdin=b"a\0b\n\xff\xfe \xe4\xbd\n\0\n" + b"\0" * 100 + b"\nhello\n")
        self.assertEqual([answer["tokens"] for answer in out], [8] * 5)
        out = self.answers(toy, "--temp=0", "-n8", stdin=b"a\0b\n/undo\na\n/undo\na\0b\n")
        self.assertEqual(out[0]["content"], out[2]["content"])
        self.assertNotEqual(out[0]["content"], out[1]["content"])
        for line in [b"x" * 1000000, b"\xff" * 1000000, b'"""' + b"x\n" * 500000 + b'"""']:
            self.assertIn("the message makes a prompt of 1000", self.fails("chat", toy,
                                                                           stdin=line))
        self.assertIn("there is no command /xxx", self.fails("chat", toy,
                                                             stdin=b"/" + b"x" * 1000000))

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_odd_keys(self):
        """Of characters and bytes that are not UTF-8, typed and pasted."""
        for typed, message in [
            (b"\xffa\xe4\xbdb\0c\xf0\x9f\x98\x80", "\ufffda\ufffdb\ufffdc\U0001f600"),
            (b"\x1b[200~a\0\xff\x1b[201b\x1b[201~c", "a\ufffd\ufffd\x1b[201bc"),
        ]:
            t = Terminal("chat", self.toy(template=ZEPHYR), "-n1", TERM="xterm", LC_ALL="C.UTF-8")
            t.wait_for(b"> ")
            t.type(typed + b"\r")
            t.wait_for(b"\n> ")
            t.type(b"\x04")
            self.assertEqual(t.end(), 0)
            history = self.read(self.path("tuffet/history")).decode().split("\n")
            self.assertEqual(history[-2], message)

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_a_large_paste(self):
        t = Terminal("chat", self.toy(template=ZEPHYR), "-n1", TERM="xterm", LC_ALL="C.UTF-8")
        t.wait_for(b"> ")
        t.paste(b"x" * 1000000)
        t.type(b"\r")
        t.wait_for(b"the message makes a prompt of 1000")
        t.wait_for(b"> ")
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_thoughts_are_dim_on_a_terminal(self):
        toy = self.toy(template="{{ messages[0].content }}<think>\n", endless=1)
        for settings, dim in [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False),
                              ({"TERM": "xterm", "NO_COLOR": "1"}, False)]:
            t = Terminal("chat", toy, "-phello", "-n8", "-s1", **settings)
            self.assertEqual(t.end(), 0)
            self.assertEqual(t.screen.startswith(b"\x1b[2m") and t.screen.endswith(b"\x1b[0m\r\n"),
                             dim)
            self.assertEqual(b"\x1b" in t.screen, dim)

    def test_a_signal_ends_dim_text(self):
        toy = self.toy(template="{{ messages[0].content }}<think>\n", endless=1, ctx=100000)
        for signum in [signal.SIGTERM, signal.SIGHUP]:
            t = Terminal("chat", toy, "-phello", "-s1", TERM="xterm")
            t.wait_for(b"\x1b[2m")
            os.kill(t.pid, signum)
            self.assertEqual(t.end(), -signum)
            self.assertTrue(t.screen.endswith(b"\x1b[0m"), t.screen[-40:])

    def test_an_interrupt_in_a_pipe(self):
        toy = self.toy(template=ZEPHYR, endless=1, ctx=100000)
        with subprocess.Popen([*TUFFET, "chat", toy, "-s1", "-t1"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as p:
            p.stdin.write(b"hello\nonce\n")
            p.stdin.flush()
            p.stdout.read(1)
            out, _ = interrupt(p)
        self.assertEqual((p.returncode, out[-1:]), (130, b"\n"))


main()
