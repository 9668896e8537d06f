"""What Jinja2 makes of chat templates, set up as in Hugging Face's transformers.

    oracle.py            writes expected.txt, snippets.txt and shared.txt beside this file
    oracle.py RENDER FOLDER...   compares the program RENDER (tests/chat/render.c) with Jinja2, over
                         the *.jinja files and the tokenizer_config.json in the folders

Needs python3-jinja2. The tests need no more than the files that it writes:

    expected.txt   templates/T over cases/C
    snippets.txt   the short templates below, over cases/snippets.json
    shared.txt     templates of ../../../shared/tokenizers over cases/C: the size and CRC-32 of the
                   text

An entry is a line "@ NAME CASE SIZE" with the text's size in bytes, or "error" in place of it; then
the text and a newline. An entry of snippets.txt has the template before the text, and its size in
place of the name.
"""
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

here = pathlib.Path(__file__).resolve().parent
shared = here.parents[2] / "shared" / "tokenizers"
NOW = datetime.datetime(2024, 2, 29, 15, 4, 5)  # also in test_chat.c and render.c


class Generation(jinja2.ext.Extension):
    """{% generation %}: its text, in a scope of its own (transformers' AssistantTracker)."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("text")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def text(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                    extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.filters["from_json"] = json.loads
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda form: NOW.strftime(form)


def render(source, case):
    """The text, or None where Jinja2 fails."""
    values = {"tools": None, "documents": None, "add_generation_prompt": True,
              "bos_token": "<s>", "eos_token": "</s>"}
    values.update(json.loads(case))
    try:
        return env.from_string(source).render(**values).encode()
    except Exception:  # of any kind: the template does not take the case
        return None


def entry(name, case, text):
    size = "error" if text is None else len(text)
    return f"@ {name} {case} {size}\n".encode() + (text or b"") + b"\n"


cases = sorted((here / "cases").glob("*.json"))
everyday = [c for c in cases if c.stem != "snippets"]


def write():
    out = b""
    for t in sorted((here / "templates").glob("*.jinja")):
        for c in everyday:
            out += entry(t.stem, c.stem, render(t.read_text(), c.read_text()))
    (here / "expected.txt").write_bytes(out)

    out = b""
    case = (here / "cases" / "snippets.json").read_text()
    for s in snippets():
        text = render(s, case)
        size = "error" if text is None else len(text)
        out += f"@ {len(s.encode())} {size}\n".encode() + s.encode() + b"\n" + (text or b"") + b"\n"
    (here / "snippets.txt").write_bytes(out)

    out = b""
    for name, t in real([shared]):
        for c in everyday:
            text = render(t, c.read_text())
            size = "error 0" if text is None else f"{len(text)} {zlib.crc32(text)}"
            out += f"@ {name} {c.stem} {size}\n".encode()
    (here / "shared.txt").write_bytes(out)


def snippets():
    """The templates of snippets.jinja: between lines of dashes."""
    parts = (here / "snippets.jinja").read_text().split("\n----\n")
    return [p for p in parts if p]


def real(folders):
    for f in map(pathlib.Path, folders):
        for t in sorted(f.rglob("*.jinja")):
            yield t.stem, t.read_text()
        for t in sorted(f.rglob("tokenizer_config.json")):
            template = json.loads(t.read_text()).get("chat_template")
            if isinstance(template, str):
                yield t.parent.name, template


def compare(program, folders):
    wrong = n = 0
    for name, source in real(folders):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as t:
            t.write(source)
            t.flush()
            for c in everyday:
                want = render(source, c.read_text())
                got = subprocess.run([program, t.name, c], capture_output=True)
                n += 1
                same = got.returncode != 0 if want is None else got.stdout == want
                if not same:
                    wrong += 1
                    print(f"{name} {c.stem}: {got.stderr.decode().strip()}\n  want {want!r}\n"
                          f"  got  {got.stdout!r}")
    print(f"{n} texts, {wrong} differ")
    return wrong > 0 or n == 0


if len(sys.argv) > 2:
    sys.exit(compare(sys.argv[1], sys.argv[2:]))
write()
