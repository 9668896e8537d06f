"""The program for Windows against the one for this machine: with the same arguments both print the
same, to the byte, end with the same exit status, and write files of the same bytes. Servers give
the same answers, to the byte, and Ctrl-C ends them.

    MESON_EXE_WRAPPER=WINE windows.py TUFFET.EXE TUFFET TOY [PART OF A COMMAND LINE]

TOY is tests/toy of the build for this machine. Each program works in a folder of its own, which has
the same files. Only times, speeds, ids and seeds of the clock may differ. With a last argument,
only command lines that contain it are compared, and servers if it is "serve".
"""
import http.client
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios

# Arguments reach a program under wine in the encoding of the locale.
os.environ.update(LC_ALL="C.UTF-8", WINEDEBUG="-all", OMP_WAIT_POLICY="passive")
sys.argv[1:4] = (os.path.abspath(path) for path in sys.argv[1:4])
from program import TUFFET, Terminal, wait_until  # noqa: E402, the program for Windows, run by wine

native, toy = sys.argv[2:4]
part = sys.argv[4] if len(sys.argv) > 4 else ""
demo = pathlib.Path(__file__).parents[2] / "models/demo"
PATIENCE = 300  # seconds, for a command
STRANGE = "Zoë saw 日本語, 🦆 and naïve Übergrößen"
STORIES = "størîes 日本.gguf"
CACHES = ["f32", "i8", "tuffet", "kivi", "logquant", "partial-logquant", "asymkv", "skvq", "rtn",
          "kivi:bits=4"]
ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
TOYS = {
    "chat": [f"template={ZEPHYR}", "ctx=4096", "endless=1"],
    "gpt2": ["arch=gpt2", "vocab=gpt2"],
    "qwen35": ["arch=qwen35"],
    "gemma4": ["arch=gemma4"],
    "q8_0": ["type=q8_0", "tied=1"],
}
TIMES = re.compile(rb'(?<=")(?:seconds|first_s|tok_s|prompt_tok_s|read_gbps|int8_gops|fma_gflops|'
                   rb'gbps|gflops|share|sample_us|tok_s_min|tok_s_max|cpu_tok_s)":'
                   rb'(?:[-+.e\d]+|\[[-+.e\d,]+\]|null)|[.\d]+(?= tokens/s)|'
                   rb'(?<=in) +[.\d]+(?= s\b)')


def prepare(folder):
    folder.mkdir()
    (folder / "folder").mkdir()
    shutil.copy(demo / "stories2M.gguf", folder / "stories.gguf")
    shutil.copy(demo / "stories2M.gguf", folder / STORIES)
    (folder / "text").write_bytes((demo / "README.md").read_bytes()[:1000])
    (folder / "naïve 🦆.txt").write_text(STRANGE, "utf-8")
    (folder / "bad.gguf").write_bytes((demo / "stories2M.gguf").read_bytes()[:5000])
    (folder / "empty").write_bytes(b"")
    (folder / "task").write_text("".join(json.dumps({"text": text}) + "\n" for text in (
        "Once upon a time there was a dog", "Lily and Tom went to the " + STRANGE)), "utf-8")
    (folder / "tools").write_text(json.dumps([{"type": "function", "function": {
        "name": "add", "parameters": {"type": "object", "properties": {
            "a": {"type": "integer"}}}}}]))
    (folder / "schema").write_text('{"type": "object", "properties": {"age": {"type": "integer"}}, '
                                   '"required": ["age"]}')
    for name, settings in TOYS.items():
        subprocess.run([toy, "write", folder / f"{name}.gguf", *settings], check=True)


def cases(cpus):
    """Command lines, or pairs of one and what comes on standard input."""
    story = ["-p", "Once upon a time", "--temp=0"]
    yield "help ppl"
    yield "nonsense"
    yield "quantize stories.gguf -o w8a8.gguf --calib-tokens 1024 --json"
    yield "quantize stories.gguf -o w4.gguf --calib-tokens 1024 --bits 4 --kv kivi --json"
    yield "quantize stories.gguf -o a.gguf --calib-tokens 512 --bits 3 --rounding awq --rotate all"
    yield "quantize stories.gguf -o p.gguf --calib-tokens 512 --smooth 0.5"
    yield "quantize stories.gguf -o d.gguf --calib-tokens 512 --dynamic all --intact-text Once"
    for cpu, model in itertools.product(cpus, ["stories.gguf", "w8a8.gguf", "w4.gguf"]):
        yield ["run", model, "--cpu", cpu, "-n80", *story]
        yield ["run", model, "--cpu", cpu, "-n80", "-p", STRANGE, "--temp=1.2", "--seed=7"]
        yield ["ppl", model, "--cpu", cpu, "-f", "text", "--json"]
    for cpu, model in itertools.product(cpus, ["gpt2.gguf", "qwen35.gguf", "gemma4.gguf"]):
        yield ["run", model, "--cpu", cpu, "-n60", "--temp=1", "--seed=3", "-p", "hello"]
    for cpu, cache in itertools.product(["c", cpus[-1]], CACHES):
        yield ["run", "stories.gguf", "--cpu", cpu, "--kv", cache, "-n120", *story]
    yield ["run", "stories.gguf", "-t1", "--slide", "-c64", "-n200", *story]
    yield ["run", "stories.gguf", "--draft=w8a8.gguf", "-n200", *story]
    yield ["run", "stories.gguf", "--lookup=0", "-n60", "--temp=0.7", "--seed=9", "--top-k=40",
           "--min-p=0.1", "--top-p=0.8", "--repeat-penalty=1.1", "--json"]
    yield ["run", STORIES, "-f", "naïve 🦆.txt", "--echo", "-n20", "--temp=0"]
    yield ["run", "stories.gguf", "--json-schema", "schema", "--temp=1", "--seed=4", "-p", "x"]
    yield ["run", "stories.gguf", "--regex", "[a-zé]{3,9}( [0-9]+)?", "--temp=1", "--seed=4"]
    for _ in range(2):
        yield ["run", "stories.gguf", "--prompt-cache", "cache ü", "-n9", *story]
    yield ["run", "stories.gguf", "-n20", "--temp=0"], STRANGE.encode()
    yield "tokenize stories.gguf --pieces -f -", b"a\r\nb\n\x1a\x00\xff\x80 end"
    yield "tokenize stories.gguf --decode", b"1 9 200 300 17"
    yield ["tokenize", "gpt2.gguf", "--json", "-p", STRANGE]
    yield "inspect stories.gguf"
    yield "inspect w4.gguf --json --values --tensors --verify"
    yield "inspect w8a8.gguf --activations text -n 64 --svg drawing"
    yield "inspect w8a8.gguf --activations text -n 64 --json"
    yield "pack q8_0.gguf -o packed.gguf"
    yield "inspect packed.gguf --json --tensors --verify"
    yield "run packed.gguf -p hello --temp 0 -n 30"
    yield "bench stories.gguf -t 1 -p 16 -n 4 -r 1 --json"
    yield "bench --shape smollm2-135m -t 2 -p 16 -n 2 -r 1 --json"
    chat = "chat chat.gguf --temp 0 --seed 1 -n 20"
    yield chat + " -p hello"
    yield chat, f"{STRANGE}\n/save talk\n/nothing\n".encode()
    yield chat, b"one\n/save talk\r\nfirst \\\nsecond\n/stats\n/undo"
    yield chat, b"/load talk\nmore\n"
    yield "eval stories.gguf --task lambada -f task --json"
    yield "embed stories.gguf task --json-lines"
    yield "embed stories.gguf text -o vectors.npy"
    yield "import stories.gguf -o again.gguf --type q8_0"
    # what fails
    yield "import folder -o again.gguf"
    yield "eval stories.gguf --task lambada -f text"
    yield "embed stories.gguf text --json-lines"
    yield "chat chat.gguf --tools tools -p a"
    yield "run not\\there.gguf"
    yield ["run", "dørt/nei.gguf"]
    yield "run bad.gguf"
    yield "run empty"
    yield "run folder"
    yield "run stories.gguf -p a -f text"
    yield "run stories.gguf -f nothing"
    yield "run stories.gguf --temp hot"
    yield "run stories.gguf --cpu neon"
    yield "run stories.gguf --kv none"
    yield "run stories.gguf --device cuda -p a"
    yield "run stories.gguf --prompt-cache text -p a"
    yield "run stories.gguf -c 16 -f text"
    yield "tokenize stories.gguf --decode -p 99999999"
    yield "ppl stories.gguf -f empty"
    yield "quantize stories.gguf -o folder"
    yield "quantize stories.gguf -o nowhere/model.gguf"
    yield "quantize w8a8.gguf -o again.gguf"
    yield "pack stories.gguf -o again.gguf"
    yield "chat stories.gguf"
    yield "chat chat.gguf --tools text -p a --tool-choice x"
    yield "bench --shape nothing"


def outcome(command, args, stdin, folder):
    done = subprocess.run([*command, *args], input=stdin, cwd=folder, capture_output=True,
                          timeout=PATIENCE)
    return done.returncode, TIMES.sub(b"#", done.stdout), TIMES.sub(b"#", done.stderr)


def known(folder):
    """The instruction sets that both programs have and this machine too."""
    for cpu in ["c", "avx2", "avxvnni", "avx512", "avx512vnni"]:
        if subprocess.run([native, "run", "stories.gguf", "--cpu", cpu, "-n1"], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            yield cpu


def compare(top):
    """Returns how many commands and files were compared, and which differed."""
    folders = top / "native", top / "windows"
    commands, failed = 0, []
    for folder in folders:
        prepare(folder)
    for case in cases(list(known(folders[0]))):
        args, stdin = case if isinstance(case, tuple) else (case, b"")
        args = args.split() if isinstance(args, str) else args
        if part not in " ".join(args):
            continue
        commands += 1
        want, have = (outcome(command, args, stdin, folder)
                      for command, folder in zip([[native], TUFFET], folders))
        if want != have:
            failed.append(" ".join(args))
            print("DIFFERS:", failed[-1])
            for name, a, b in zip(["exit status", "output", "errors"], want, have):
                if a != b:
                    print(f"  {name}:\n    {a!r}\n    {b!r}")
    want, have = ({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
                  for folder in folders)
    failed += [f"the file {name}" for name in want.keys() | have.keys()
               if want.get(name) != have.get(name)]
    return commands, len(want), failed


def screen(t):
    """What is on the screen, without spaces: wine's console moves the cursor instead."""
    return re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]|\s", b"", t.screen)


def at_terminal(top):
    """Returns what goes wrong at a terminal."""
    failed = []
    if part:
        return failed
    signal.alarm(PATIENCE)  # ends this script
    os.chdir(top / "windows")
    text = STRANGE.replace("🦆", "ducks")  # wine's console has 16 bits for a character
    args = ["run", "stories.gguf", "-p", text, "--echo", "--temp=0", "-n20"]
    with open(os.devnull, "wb") as nothing:
        t = Terminal(*args, stderr=nothing.fileno())
    if t.end() != 0 or b"".join(outcome([native], args, b"", ".")[1].split()) not in screen(t):
        failed.append("text at a terminal")

    t = Terminal("run", "stories.gguf", "-p", "Once", "--slide", "--temp=1", "--cpu=c")
    t.wait_for(b"u")
    t.type(b"\x03")
    if t.end() != 130 or b"stoppedby:interrupt" not in screen(t):
        failed.append("Ctrl-C in a text")

    t = Terminal("chat", "chat.gguf", "--temp=0", "-n1000000")
    t.wait_for(b">")
    # wine's console takes the keys from the terminal's line only when the program reads
    wait_until(lambda: not termios.tcgetattr(t.fd)[3] & termios.ICANON)
    t.type("hallo Zoë\r".encode())
    t.wait_for("ë".encode())
    while len(t.screen) < 2000:
        t.more()
    t.type(b"\x03/stats\r")
    while b"tokensitholds" not in screen(t) and t.more():
        pass
    t.type(b"\x04")
    if t.end() != 0 or "halloZoë".encode() not in screen(t):
        failed.append("chat at a terminal")
    signal.alarm(0)
    return failed


HELLO = [{"role": "user", "content": "hello " + STRANGE}]
CHANGING = re.compile(rb'"(?:id|request_id)":"\w+-?\w+"|"created":\d+|'
                      rb'"\w+_(?:ms|per_second)":[-+.e\d]+')  # of answers and replies


class Server:
    """A server in a folder, at a terminal, until stop()."""

    def __init__(self, command, folder, *args):
        os.chdir(folder)
        self.terminal = Terminal("serve", *args, "--port=0", command=command)
        self.terminal.until += PATIENCE
        while not (found := re.search(rb"http://127.0.0.1:(\d+)\s", self.terminal.screen)):
            if not self.terminal.more():
                raise AssertionError(self.terminal.screen)
        self.port = int(found[1])

    def ask(self, path, body):
        """The status, the headers without the date, and the body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        c.request("GET" if body is None else "POST", path,
                  None if body is None else json.dumps(body).encode())
        r = c.getresponse()
        text = CHANGING.sub(b"#", r.read())
        c.close()
        if path == "/metrics":
            text = re.findall(rb"^tuffet:\w+tokens\w*_total .*$", text, re.M)
        return r.status, sorted(h for h in r.getheaders() if h[0] not in (
            "Date", "Content-Length")), text

    def stop(self):
        """Types Ctrl-C, and returns the exit status."""
        self.terminal.type(b"\x03")
        return self.terminal.end()


def questions():
    """Paths and bodies; without one, the method is GET."""
    yield "/", None
    yield "/health", None
    yield "/v1/models", None
    yield "/nothing", None
    yield "/v1/chat/completions", {"messages": 7}
    for stream in [False, True]:
        more = {"stream": stream, "seed": 5, "max_tokens": 40, "temperature": 1}
        yield "/v1/chat/completions", {"messages": HELLO, "logprobs": True, **more}
        yield "/v1/completions", {"prompt": STRANGE, **more}
    yield "/v1/chat/completions", {"messages": HELLO, "max_tokens": 30, "seed": 5,
                                   "response_format": {"type": "json_object"}}
    yield "/v1/embeddings", {"input": ["hello", STRANGE]}
    yield "/tokenize", {"content": STRANGE}
    yield "/slots/0?action=save", {"filename": "slot"}
    yield "/metrics", None


def serve(command, folder, *args):
    """All answers, the exit status after Ctrl-C, and the saved sessions."""
    server = Server(command, folder, "chat.gguf", "--slots=2", "--cache-dir=sessions",
                    "--slot-save-path=.", *args)
    answers = [(path, *server.ask(path, body)) for path, body in questions()]
    status = server.stop()
    files = {path.name: path.read_bytes() for path in [
        folder / "slot", *(folder / "sessions").glob("*.session")]}
    return answers, status, files


def serving(top):
    """Returns what differs between the servers."""
    failed = []
    if part not in ("", "serve"):
        return 0, failed
    signal.alarm(4 * PATIENCE)
    want, have = ([*serve(command, folder), *serve(command, folder)]
                  for command, folder in [([native], top / "native"), (TUFFET, top / "windows")])
    if sum(status != 200 for _, status, *_ in want[0]) != 2:
        failed.append("serve refuses more than two questions")
    for a, b in zip([x for answers in want[::3] for x in answers],
                    [x for answers in have[::3] for x in answers]):
        if a != b:
            failed.append(f"serve: {a[0]}")
            print(f"DIFFERS: {a}\n         {b}")
    if want[1::3] != [0, 0] or have[1::3] != [0, 0]:
        failed.append(f"ends of servers: {want[1::3]}, {have[1::3]}")
    if want[2::3] != have[2::3] or len(want[2]) < 2:
        failed.append(f"saved sessions: {[[*x] for x in want[2::3]]}, {[[*x] for x in have[2::3]]}")
    os.chdir("/")

    requests = "".join(json.dumps({
        "custom_id": str(i), "method": "POST", "url": "/v1/completions",
        "body": {"prompt": f"{i} {STRANGE}", "max_tokens": 20, "seed": i}}) + "\n"
        for i in range(6))
    replies = []
    for command, folder in [([native], top / "native"), (TUFFET, top / "windows")]:
        (folder / "requests").write_text(requests, "utf-8")
        for n in [1, 2]:  # the second run finds all replies, but the last one is half
            replies.append(outcome(command, ["batch", "chat.gguf", "-f", "requests", "-o",
                                             "replies", "--slots=1", "--json"], b"", folder))
            lines = CHANGING.sub(b"#", (folder / "replies").read_bytes()).splitlines(True)
            replies.append(sorted(lines))
            with open(folder / "replies", "r+b") as f:
                f.truncate(f.seek(-9, os.SEEK_END))
    if replies[:4] != replies[4:] or replies[0][0] != 0:
        failed.append("batch")
        print(f"DIFFERS: {replies[:4]}\n         {replies[4:]}")
    signal.alarm(0)
    return 2 * len(want[0]), failed


with tempfile.TemporaryDirectory() as top:
    n_commands, n_files, differ = compare(pathlib.Path(top))
    n_answers, different = serving(pathlib.Path(top))
    differ += different + at_terminal(pathlib.Path(top))
    os.chdir("/")
print(f"windows.py: {n_commands} commands, {n_files} files, {n_answers} answers of a server: " +
      ("all is the same" if not differ else "these differ: " + "; ".join(differ)))
sys.exit(bool(differ))
