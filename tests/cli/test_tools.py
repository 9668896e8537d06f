"""tuffet chat --tools: a model with random weights calls tools, since it must."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from program import PATIENCE, TUFFET, WRAPPER, Case, Terminal, main, wait_until

# A template that shows calls in the format of Hermes, and one that knows no tools.
HERMES = ("{% for t in tools %}{{ t.function.name }} {% endfor %}{% for m in messages %}"
          "{{ '<|' + m.role + '|>\n' + m.content }}{% for c in m.tool_calls %}<tool_call>"
          "{{ c.function.name }} {{ c.function.arguments | tojson }} {{ c.id }}{% endfor %}"
          "{{ '\n' }}{% endfor %}{{ '<|assistant|>\n' }}")
PLAIN = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '\n' }}{% endfor %}"
         "{{ '>' }}")
ARGS = ["--temp=0", "-n100", "--tool-choice=required", "--json"]


class Tools(Case):
    def tools(self, *commands, **members):
        """The path of a file that declares a tool for each line of sh: t0, t1, ... A command may
        take an hour, as far as members do not say otherwise."""
        declared = [{"type": "function", "command": ["sh", "-c", line], "seconds": 3600, **members,
                     "function": {"name": f"t{i}", "parameters": {
                         "type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"]}}}
                    for i, line in enumerate(commands)]
        return self.write(f"tools{abs(hash((commands, *members.items())))}.json",
                          json.dumps(declared).encode())

    def toy_for(self, template=HERMES):
        return self.toy(template=template, endless=1, ctx=2000)

    def result(self, command, **members):
        """What the model is told."""
        done = subprocess.run([*TUFFET, "chat", self.toy_for(), "-phello", "--yes", *ARGS,
                               "--tools", self.tools(command, **members)], capture_output=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        call, = json.loads(done.stdout)["calls"]
        self.assertEqual((call["name"], call["arguments"]), ("t0", {"n": 7}))
        return call["result"]

    def test_a_result_that_the_template_drops(self):
        deaf = HERMES.replace("+ m.content }}", "+ ('' if m.role == 'tool' else m.content) }}")
        done = subprocess.run([*TUFFET, "chat", self.toy_for(deaf), "-phello", "--yes", *ARGS,
                               "--tools", self.tools("echo once upon")], capture_output=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"drops the result of the tool", done.stderr)

    def test_the_template_named_tool_use(self):
        """A conversation without --tools has the other one."""
        tools = self.tools("echo once")
        deaf = "{{ raise_exception('has tools') if tools }}" + PLAIN
        both = self.toy(template=deaf, tool_template=HERMES, endless=1, ctx=2000)
        for args, alone in [(["--temp=0", "-n20"], PLAIN),
                            (["--yes", *ARGS, "--tools", tools], HERMES)]:
            got, want = [
                subprocess.run([*TUFFET, "chat", toy, "-phello", *args], capture_output=True,
                               timeout=PATIENCE)
                for toy in (both, self.toy_for(alone))]
            self.assertEqual(want.returncode, 0, want.stderr)
            self.assertEqual(re.sub(rb'"tok_s":[0-9.]+', b"", got.stdout),
                             re.sub(rb'"tok_s":[0-9.]+', b"", want.stdout))
            self.assertEqual(got.stderr, want.stderr)

    def test_the_model_gets_the_result(self):
        asks = ('You can call functions. To call some, answer with this JSON and nothing else:\n'
                '{"tool_calls": [{"name": NAME, "arguments": OBJECT}]}\n'
                'If no function helps, answer in plain text. The functions, with JSON Schemas of '
                'their arguments:\n'
                '{"type": "function", "function": {"name": "t0", "parameters": {"type": "object", '
                '"properties": {"n": {"enum": [7]}}, "required": ["n"]}}}\n')
        for template, prompt in [
            (HERMES, '{before}<|user|>\nhello\n<|assistant|>\n<tool_call>t0 {{"n": 7}} {id}\n'
                     '<|tool|>\nonce {{"n": 7}}\n<|assistant|>\n'),
            (PLAIN, '<|system|>\n{asks}\n<|user|>\nhello\n<|assistant|>\n'
                    '{{"tool_calls": [{{"name": "t0", "arguments": {{"n": 7}}}}]}}\n'
                    '<|user|>\nResult of t0:\nonce {{"n": 7}}\n>'),
        ]:
            tools = self.tools("echo once $(cat)")
            for system in [[], ["--system=upon"]]:
                done = subprocess.run(
                    [*TUFFET, "chat", self.toy_for(template), "-phello", "--yes", *ARGS, *system,
                     "--tools", tools], capture_output=True)
                said = json.loads(done.stdout)
                self.assertEqual(done.stderr, b't0 {"n": 7}\n-> once {"n": 7}\n')
                self.assertEqual(said["calls"], [{"name": "t0", "arguments": {"n": 7},
                                                  "result": 'once {"n": 7}'}])
                text = prompt.format(before="t0 " + "<|system|>\nupon\n" * len(system),
                                     id=f"call0000{1 + len(system)}",
                                     asks="upon\n\n" * len(system) + asks)
                want = self.json("run", self.toy_for(template), "--temp=0", "-n100", "--special",
                                 r"--regex=(.|\n)*", "-p", text)["text"]  # any characters
                got = said["content"].rstrip("\ufffd")  # -n may cut a character
                self.assertTrue(got and want.startswith(got), (got, want))

    def test_a_call_that_is_cut(self):
        """Not even the beginning of its mark is text."""
        tools = self.tools("echo once")
        for template in HERMES, PLAIN:
            toy = self.toy_for(template)
            for n in range(1, 100):
                done = subprocess.run([*TUFFET, "chat", toy, "-phello", "--yes", *ARGS, f"-n{n}",
                                       "--tool-calls=1", "--tools", tools], capture_output=True,
                                      timeout=PATIENCE)
                said = json.loads(done.stdout)
                if said.get("calls"):
                    break
                self.assertEqual((said["content"], done.returncode), ("", 0))
                self.assertEqual(done.stderr,
                                 b"tuffet: the answer ends within a call, which is not made\n")
            self.assertGreater(n, 3)

    def test_saved(self):
        """A conversation with calls goes on where it was, with --tools alone."""
        toy, file = self.toy_for(), self.path("talk")
        args = [*TUFFET, "chat", toy, "--yes", *ARGS, "--tool-calls=1", "--tools",
                self.tools("echo once $(cat)")]

        def answers(*lines):
            done = subprocess.run(args, input="\n".join(lines).encode(), capture_output=True,
                                  timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [json.loads(line)["content"] for line in done.stdout.splitlines()]

        want = answers("hello", f"/save {file}", "the end")
        self.assertEqual(answers(f"/load {file}", "the end"), want[1:])
        self.assertIn("the conversation has calls of tools: give --tools",
                      self.fails("chat", toy, stdin=f"/load {file}".encode()))

    def test_a_declaration_without_a_frame(self):
        """Templates get the frame: this one reads t.function."""
        function = {"name": "t0", "parameters": {
            "type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"]}}
        said = []
        for name, tool in [("bare", function), ("framed", {"function": function})]:
            file = self.write(f"{name}.json", json.dumps([{**tool, "command": ["cat"]}]).encode())
            done = subprocess.run([*TUFFET, "chat", self.toy_for(), "-phello", "--yes", *ARGS,
                                   "--tools", file], capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            said.append(json.loads(done.stdout)["content"])
            self.assertEqual(json.loads(done.stdout)["calls"][0]["arguments"], {"n": 7})
        self.assertEqual(*said)

    def test_results(self):
        self.assertEqual(self.result("cat"), '{"n": 7}')
        self.assertEqual(self.result("echo; echo a; echo"), "\na\n")
        self.assertEqual(self.result("true"), "")
        self.assertEqual(self.result("echo no; exit 3"),
                         "no\n[the command failed with the exit status 3]")
        self.assertEqual(self.result("kill -9 $$"), "[the command was ended by the signal 9]")
        self.assertEqual(self.result("printf aaab", bytes=3),
                         "aaa\n[1 more bytes of output are left out]")
        self.assertEqual(self.result(r"printf 'aa\303\251b'", bytes=3),
                         "aa\n[3 more bytes of output are left out]")
        self.assertEqual(self.result(r"printf '\377\001'"), "\ufffd\x01")
        self.assertRegex(self.result("echo here; sleep 1000", seconds=1),  # if it came to echo
                         r"\A(here\n)?\[the command was stopped after 1 seconds\]\Z")
        path = self.write("gone.json", b'[{"function": {"name": "t0"}, '
                          b'"command": ["bin/gone", "a"]}]')
        done = subprocess.run([*TUFFET, "chat", self.toy_for(), "-phello", "--yes", *ARGS,
                               "--tools", path], capture_output=True)
        want = "[the command could not be started: No such file or directory]"
        if WRAPPER:  # under qemu-user, posix_spawn cannot tell: test_process.c
            want = "[the command failed with the exit status 127]"
        self.assertEqual(json.loads(done.stdout)["calls"][0]["result"], want)

    def test_a_command_beside_the_file(self):
        os.makedirs(self.path("bin"), exist_ok=True)
        script = self.write("bin/tool", b"#!/bin/sh\npwd\n")
        os.chmod(script, 0o700)
        path = self.write("beside.json", b'[{"function": {"name": "t0"}, "command": ["bin/tool"]}]')
        done = subprocess.run([*TUFFET, "chat", self.toy_for(), "-phello", "--yes", *ARGS,
                               "--tools", path], capture_output=True)
        self.assertEqual(json.loads(done.stdout)["calls"],
                         [{"name": "t0", "arguments": {}, "result": os.getcwd()}])

    def test_which_tool(self):
        tools = self.tools("echo first", "echo second")
        for name, result in [("t0", "first"), ("t1", "second")]:
            done = subprocess.run([*TUFFET, "chat", self.toy_for(), "-phello", "--yes", "--tools",
                                   tools, *ARGS[:2], "--json", "--tool-choice", name],
                                  capture_output=True)
            self.assertEqual([call["result"] for call in json.loads(done.stdout)["calls"]],
                             [result])
        self.assertIn('declares no tool "t2"',
                      self.fails("chat", self.toy_for(), "-phello", "--yes", "--tools", tools,
                                 "--tool-choice=t2"))

    def test_commands_of_a_conversation(self):
        """/undo, /retry and /clear take whole turns, and calls with them."""
        def said(lines):
            done = subprocess.run([*TUFFET, "chat", self.toy_for(), "--yes", *ARGS, "--tools",
                                   self.tools("echo a")], input=lines, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual({len(answer["calls"]) for answer in answers}, {1})
            return [answer["content"] for answer in answers], done.stderr
        (first, second), _ = said(b"hello\nonce\n")
        self.assertEqual(said(b"hello\n/retry\nonce\n")[0], [first, first, second])
        self.assertEqual(said(b"upon\n/undo\nhello\nonce\n")[0][1:], [first, second])
        self.assertEqual(said(b"upon\n/clear\nhello\nonce\n")[0][1:], [first, second])
        self.assertIn(b"\nt0: sh -c echo a\n", said(b"hello\n/tools\n")[1])
        self.tuffet("chat", self.toy_for(), "--tools", self.tools("a"), "--yes")
        done = subprocess.run([*TUFFET, "chat", self.toy_for()], input=b"/tools\n",
                              capture_output=True)
        self.assertIn(b"there are no tools", done.stderr)

    def test_a_full_context_drops_whole_turns(self):
        toy = self.toy(template=HERMES, endless=1, ctx=300)
        done = subprocess.run([*TUFFET, "chat", toy, "--yes", *ARGS[:1], *ARGS[2:], "-n90",
                               "--tools", self.tools("echo a")], input=b"hello\n" * 8,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout.count(b'"calls":[{')), (0, 8), done.stderr)
        dropped = [int(line.split()[-4]) for line in done.stderr.splitlines() if b"dropped" in line]
        self.assertTrue(dropped and all(n % 4 == 0 for n in dropped), dropped)
        self.assertIn("the message and its calls make a prompt of",
                      subprocess.run([*TUFFET, "chat", toy, "--yes", *ARGS, "-phello", "--tools",
                                      self.tools("yes once | head -c 2000")],
                                     capture_output=True).stderr.decode())

    def test_the_user_is_asked(self):
        log = self.path("log")
        t = Terminal("chat", self.toy_for(), "-n100", "--temp=0", "--tool-choice=required",
                     "--tools", self.tools(f"echo ran >> {log}; echo a"))
        for answer, result, lines in [
            (b"\n", b"-> [the user did not allow this call]", 0),
            (b"\x03", b"-> [the user did not allow this call]", 0),
            (b"n\n", b"-> [the user did not allow this call]", 0), (b"y\n", b"-> a", 1),
            (b"no way\n", b"-> [the user did not allow this call]", 1),
            (b"you should never do that\n", b"-> [the user did not allow this call]", 1),
            (b"also tell me a story\n", b"-> [the user did not allow this call]", 1),
            (b"YES\n", b"-> a", 2), (b"always\n", b"-> a", 3),
        ]:
            t.wait_for(b"> ")
            t.type(b"hello\n")
            t.wait_for(b't0 {"n": 7}\r\nrun it? [y/N/always] ')
            t.type(answer)
            t.wait_for(result)
            self.assertEqual(os.path.exists(log) and self.read(log).count(b"\n"), lines)
        t.wait_for(b"\n> ")
        t.type(b"hello\n")
        asked = t.wait_for(b"-> a")
        self.assertNotIn(b"run it?", asked)
        t.wait_for(b"\n> ")
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_what_was_typed_before_the_question_is_no_answer(self):
        """With and without an editor: whole lines, and the start of a line."""
        for settings in [{"TERM": "dumb"}, {"TERM": "xterm", "LC_ALL": "C.UTF-8"}]:
            for typed in [b"y\n", b"always\ny\n", b"y"]:
                log = self.path("typed-ahead")
                t = Terminal("chat", self.toy_for(), "-n100", "--temp=0", "--tool-choice=required",
                             "--tools", self.tools(f"echo ran >> {log}; echo a"), **settings)
                t.wait_for(b"> ")
                t.type(b"hello\n" + typed)
                t.wait_for(b"tuffet: what was typed before this question is dropped\r\n")
                t.wait_for(b"run it? [y/N/always] ")
                t.type(b"\n")
                t.wait_for(b"-> [the user did not allow this call]")
                self.assertFalse(os.path.exists(log))
                t.wait_for(b"> ")
                t.type(b"\x04")
                self.assertEqual(t.end(), 0)

    def test_asks_for_a_prompt_too(self):
        t = Terminal("chat", self.toy_for(), "-phello", *ARGS, "--tools", self.tools("echo a"))
        t.wait_for(b"run it? [y/N/always] ")
        t.type(b"y\n")
        t.wait_for(b"-> a")
        self.assertEqual(t.end(), 0)

    def test_interrupts(self):
        """Ctrl-C ends the command, and the conversation goes on."""
        t = Terminal("chat", self.toy_for(), "-n100", "--temp=0", "--tool-choice=required", "--yes",
                     "--tools", self.tools("echo started >&2; sleep 1000"))
        for _ in range(2):
            t.wait_for(b"> ")
            t.type(b"hello\n")
            t.wait_for(b"started")
            t.type(b"\x03")
            t.wait_for(b"-> [the user stopped the command]")
        t.wait_for(b"\n> ")
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    def test_a_signal_ends_the_command_too(self):
        pid = self.path("pid")
        for sig in [signal.SIGTERM, signal.SIGHUP]:
            with subprocess.Popen([*TUFFET, "chat", self.toy_for(), "-phello", "--yes", *ARGS,
                                   "--tools", self.tools(f"echo $$ > {pid}; exec cat /dev/zero")],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
                wait_until(lambda: os.path.exists(pid) and self.read(pid).endswith(b"\n"))
                p.send_signal(sig)
                p.communicate(timeout=PATIENCE)
            self.assertEqual(p.returncode, -sig)
            group = int(self.read(pid))
            os.remove(pid)
            wait_until(lambda: not self.runs(group))

    @staticmethod
    def runs(pid):
        """Whether the process is there, and no zombie that waits for init."""
        stat = f"/proc/{pid}/stat"
        try:
            with open(stat) as f:
                return f.read().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def test_the_examples(self):
        folder = pathlib.Path(__file__).parents[2] / "examples/tools"
        for expression, out, status in [
            ("2 * (3 + 4) - .5", "13.5", 0), ("-(1 - 3) / 4", "0.5", 0), ("7 - 2 - 1", "4", 0),
            ("1/0", "error: division by zero", 1), ("2 2", "error: not expected: 2", 1),
            ("(1", "error: a parenthesis is not closed", 1),
            ("2 ** 3", "error: a number is expected before *3", 1),
            ("exit(1)", "error: a number is expected before exit(1)", 1),
            ("(" * 100000, "error: maximum recursion depth exceeded", 1),
        ]:
            done = subprocess.run([sys.executable, folder / "calculator.py"], capture_output=True,
                                  input=json.dumps({"expression": expression}).encode())
            self.assertEqual((done.stdout.decode()[:len(out)], done.returncode), (out, status))
        self.tuffet("chat", self.toy_for(), "--yes", "--tools", folder / "tools.json")
        declared = json.loads(self.read(folder / "tools.json"))
        slowly = [{**tool, "command": [str(folder / tool["command"][0])], "seconds": 3600}
                  for tool in declared]
        done = subprocess.run([*TUFFET, "chat", self.toy_for(), "-phello", "--yes", "--temp=0",
                               "-n300", "--json", "--tool-choice=calculator", "--tools",
                               self.write("examples.json", json.dumps(slowly).encode())],
                              capture_output=True)
        call = json.loads(done.stdout)["calls"][0]
        self.assertRegex(call["arguments"]["expression"], r"\A[0-9.+*/() -]{1,60}\Z")
        self.assertRegex(call["result"], r"\A(-?[\d.e+-]+|error: .*\n\[the command failed with the "
                                         r"exit status 1\])\Z")

    def test_usage(self):
        toy, tools = self.toy_for(), self.tools("a")
        self.assertIn("there is no terminal to ask at: give --yes",
                      self.fails("chat", toy, "-phello", "--tools", tools, status=2))
        self.assertIn("--yes goes with --tools", self.fails("chat", toy, "--yes", status=2))
        self.assertIn("--tool-choice goes with --tools",
                      self.fails("chat", toy, "--tool-choice=auto", status=2))
        self.assertIn("--tools and --regex give different forms",
                      self.fails("chat", toy, "--tools", tools, "--yes", "--regex=a", status=2))
        self.assertIn("leave out --tools", self.fails("chat", toy, "--tools", tools, "--yes",
                                                      "--prefix=a", status=2))

    def test_errors_of_the_file(self):
        toy = self.toy_for()
        for text, why in [
            (b"[", "line 1, column 1: "), (b"{}", "tools: not a list of tools, or an empty one"),
            (b"[]", "tools: not a list"), (b"[1]", "tools: #/0: not an object"),
            (b'[{"name": "a"}]', "tools: #/0: has no command"),
            (b'[{"name": "a", "command": "date -u"}]', "tools: #/0/command: not a list of words"),
            (b'[{"name": "a", "command": []}]', "tools: #/0/command: not a list of words"),
            (b'[{"name": "a", "command": [""]}]', "tools: #/0/command: not a list of words"),
            (b'[{"name": "a", "command": ["a", 1]}]', "tools: #/0/command: not a list of words"),
            (b'[{"name": "a", "command": ["a\\u0000b"]}]', "line 1, column "),
            (b'[{"name": "a", "name": "b", "command": ["a"]}]', "line 1, column "),
            (b'[{"name": "a", "command": ["a"], "seconds": 0}]',
             "tools: #/0/seconds: not a number from 1 to 3600"),
            (b'[{"name": "a", "command": ["a"], "bytes": 1.5}]',
             "tools: #/0/bytes: not a number from 1 to 1048576"),
            (b'[{"name": "a", "command": ["a"], "second": 5}]',
             "tools: #/0/second: unknown: a tool "),
            (b'[{"function": {"name": "a"}, "command": ["a"], "parameters": {}}]',
             "tools: #/0/parameters: unknown: a tool "),
            (b'[{"command": ["a"]}]', "tools: #/0: has no name"),
            (b'[{"name": "a", "command": ["a"]}, {"name": "b", "command": ["b"], '
             b'"parameters": {"contains": {}}}]',
             "tools: #/1/parameters/contains: this keyword is not"),
        ]:
            path = self.write("wrong.json", text)
            self.assertIn(f"{path}: {why}", self.fails("chat", toy, "-phello", "--yes", "--tools",
                                                       path))
        self.assertIn("No such file", self.fails("chat", toy, "-phello", "--yes", "--tools",
                                                 self.path("none.json")))


if __name__ == "__main__":
    main()
