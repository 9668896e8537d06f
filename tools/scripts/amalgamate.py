#!/usr/bin/env python3
"""Writes the library as a few files, as SQLite has it: amalgamate.py FOLDER

FOLDER gets tuffet.h, tuffet.c, a file tuffet_NAME.c for each ISA level that needs flags of its own,
CMakeLists.txt, LICENSE, and a README that says how to compile them. Same sources, same bytes.

Files of the library may have static functions, types and macros of the same names. In tuffet.c such
a name begins with that of its file: `check` of src/kv/plan.c is `plan_check`. A macro ends with the
file that defines it.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*'
                   r'|\.?\d(?:[eEpP][+-]|[\w.])*|\.\.\.|->|##|\s+|.', re.S)
LINE = re.compile(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.S)  # a directive, with its continuations
INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"(.*?)"|<(.*?)>)')
DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)")
GUARD = re.compile(r"((?:\s|/\*.*?\*/)*)#ifndef (\w+)\n#define \2\n(.*)#endif\s*$", re.S)
STATIC = {"static", "FORCE_INLINE", "TFT_INLINE"}
TAGS = {"struct", "union", "enum"}
WORD = re.compile(r"[A-Za-z_]")


def is_comment(token):
    return token.startswith(("/*", "//"))


def code(text):
    """The tokens of a file without directives, comments and space."""
    return [t for t in TOKEN.findall(LINE.sub("", text)) if not t.isspace() and not is_comment(t)]


def declarations(tokens):
    """The file-scope declarations and definitions, each without what is between ( and )."""
    depth, braces, one = 0, 0, []
    for at, token in enumerate(tokens):
        if token in "({[":
            depth += 1
        one.append((token, depth))
        if token in ")}]":
            depth -= 1
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        function = any(t == "(" and d == 1 for t, d in one) and not any(t == "=" and d == 0
                                                                        for t, d in one)
        if depth == 0 and (token == ";" or token == "}" and after not in (";", ",", "*", "[")
                           and (function or not WORD.match(after) or after in STATIC | TAGS
                                or after in ("const", "void", "bool", "int"))):
            yield one
            one = []


class Names:
    """What a file declares at file scope: `own` are names that it alone sees (static functions and
    variables, types, constants of enums), `tags` such names of structs, `shared` the others."""

    def __init__(self, text):
        self.own, self.tags, self.shared = set(), set(), set()
        self.macros = {m[1] for m in map(DEFINE.match, LINE.findall(text)) if m}
        for one in declarations(code(text)):
            self.read(one)

    def read(self, one):
        words = [t for t, _ in one]
        for at, (token, depth) in enumerate(one[:-1]):
            if token in TAGS and WORD.match(words[at + 1]) and words[at + 2:at + 3] == ["{"]:
                self.tags.add(words[at + 1])
            if token == "enum":
                self.constants(one[at:])
        top = [t for t, d in one if d == 0 or t in "([{"]
        if "typedef" in words:
            names = re.findall(r"\( \* (\w+) \)", " ".join(words)) if "( *" in " ".join(words) else []
            self.own.update(names[:1] or [t for t in top if WORD.match(t)][-1:])
            return
        flat = [t for t, d in one if d == 0 or (d == 1 and t in "([{")]
        found = set()
        for at, token in enumerate(flat[:-1]):
            if not WORD.match(token) or token in ("__attribute__", "_Alignas", "_Static_assert"):
                continue
            if flat[at + 1] in "(=;[,":
                found.add(token)
                if flat[at + 1] == "(":
                    break
        (self.own if STATIC & set(words) else self.shared).update(found)

    def constants(self, one):
        open_at = next((i for i, (t, _) in enumerate(one[:3]) if t == "{"), None)
        if open_at is None:
            return
        inside = one[open_at][1]
        for (before, _), (token, depth) in zip(one[open_at:], one[open_at + 1:]):
            if depth < inside:
                return
            if before in ("{", ",") and WORD.match(token) and depth == inside:
                self.own.add(token)


if __name__ == "__main__":
    files = sorted([*root.glob("src/**/*.c"), *root.glob("models/*.c"), *root.glob("simd/*.c"), *root.glob("simd/c/*.c"), *root.glob("port/*.c")])
    files = [f for f in files if "chat" not in f.parts and "cuda" not in f.parts and "mpi" not in f.parts]
    heads = [f for d in ("src", "models", "simd", "port") for f in sorted((root/d).rglob("*.h")) if not {"chat","x86","arm","wasm","template","cuda","mpi"} & set(f.parts)]
    n = {f: Names(f.read_text()) for f in files + heads}
    by = collections.defaultdict(list); tg = collections.defaultdict(list); mac = collections.defaultdict(list)
    for f, x in n.items():
        for o in x.own: by[o].append(f)
        for o in x.tags: tg[o].append(f)
        for o in x.macros: mac[o].append(f)
    hn = set().union(*[n[h].own|n[h].shared for h in heads]); 
    print(len(files), sum(len(v) > 1 for v in by.values()), sum(len(v) > 1 for v in tg.values()))
    print({k: [str(f.relative_to(root)) for f in v] for k, v in by.items() if len(v) > 1 and any(f.suffix == ".h" for f in v)})
    print({k: [str(f.relative_to(root)) for f in v] for k, v in tg.items() if len(v) > 1 and any(f.suffix == ".h" for f in v)})
    print("macros", {k: [str(f.relative_to(root)) for f in v] for k, v in mac.items() if len(v) > 1 })
    print("hmacros", sorted({k for h in heads for k in n[h].macros if not k.startswith("TFT_")}))
    print(sorted(k for k, v in by.items() if len(v) > 1))
    print(sorted(k for k, v in tg.items() if len(v) > 1))
    for f in files:
        print(f.name, sorted(n[f].shared))
