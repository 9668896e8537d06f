"""tuffet chat"""
import json
import re
import signal
import subprocess

from program import TUFFET, Case, Terminal, interrupt, main

ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")


class Chat(Case):
    def answers(self, *args, stdin):
        out = self.tuffet("chat", *args, "--json", stdin=stdin)
        return [json.loads(line) for line in out.splitlines()]

    def test_an_answer_is_the_text_after_the_prompt(self):
        toy = self.toy(template=ZEPHYR)
        prompt = "<|user|>\nhello</s>\n<|assistant|>\n"
        want = self.json("run", toy, "--special", "-p", prompt, "-s1", "-n20")
        got = self.json("chat", toy, "-phello", "-s1", "-n20")
        self.assertEqual(set(got), {"role", "content", "stop", "tokens", "tok_s"})
        self.assertEqual((got["role"], got["content"], got["stop"], got["tokens"]),
                         ("assistant", want["text"], want["stop"], want["tokens"]))
        self.assertEqual(self.tuffet("chat", toy, "-phello", "-s1", "-n20").decode(),
                         got["content"] + "\n")

        prompt = "<|system|>\nonce</s>\n" + prompt
        want = self.json("run", toy, "--special", "-p", prompt, "-s1", "-n20")
        self.assertEqual(self.json("chat", toy, "-phello", "-s1", "-n20",
                                   "--system=once")["content"], want["text"])

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

    def test_an_interrupt_at_the_prompt(self):
        # it may come just before the program reads, or just after
        for after in [b"", b"hello\n"] * 10:
            t = Terminal("chat", self.toy(template=ZEPHYR), "-n1")
            t.wait_for(b"> ")
            t.type(after)
            if after:
                t.wait_for(b"\n> ")
            t.type(b"\x03")
            self.assertEqual(t.end(), -signal.SIGINT)

    def test_an_error_does_not_end_a_conversation(self):
        t = Terminal("chat", self.toy(template=ZEPHYR), "-s1")
        t.wait_for(b"> ")
        t.type(b"x" * 300 + b"\n")
        t.wait_for(b"the message makes a prompt of")
        t.wait_for(b"> ")
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

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
