"""The direction of includes: layers.py SOURCE_ROOT

Folders may include themselves and the folders before them in `order`, and of the rooms in `doors`
only the headers named there. src/ and models/ are portable C. A source file includes its own header
first. No two modules include each other, directly or through others; a module is NAME.c and NAME.h.

The front ends of the program use the library as other programs do: they include public headers,
what src/base has that knows no model, and the headers in `fronts`.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
order = ["port", "simd", "src/base", "src/file", "src/text", "src/weights", "src/kv",
         "src/grammar", "src/model", "src/run", "src/backend/cpu", "src/backend", "models",
         "src/chat/jinja", "src/chat", "src/chat/schema", "src/chat/calls", "src/chat/template",
         "src/backend/cuda", "src/backend/mpi", "tools/json", "tools/import", "tools/quantize",
         "tools/cli", "tools/chat", "tools/serve", "tools/eval", "tools/bench", "tools/pull",
         "tools/pack", "tools/embed", "tools/inspect", "tools/commands", "tools"]
doors = {
    "src/file": {"file.h", "codebooks.h"},
    "src/text": {"tokenizer.h"},
    "src/grammar": {"grammar.h", "saved.h"},
    "src/weights": {"format.h"},
    "src/kv": {"fisher.h", "kv.h", "policy.h", "saved.h"},
    "src/model": {"model.h", "lora.h", "open.h", "load.h", "convert.h", "ends.h", "keys.h",
                  "parts.h", "identity.h", "resident.h"},
    "src/run": {"session.h", "pass.h", "ops.h", "backend.h"},
    "src/backend/cpu": {"cpu.h"},
    "src/backend": {"device.h"},
    "src/chat/jinja": {"jinja.h", "tree.h"},
    "src/chat": {"tuffet_chat.h"},
    "src/chat/schema": {"schema.h"},
    "src/chat/calls": {"call.h"},
    "src/chat/template": set(),
    "src/backend/cuda": set(),
    "src/backend/mpi": set(),
    "tools/json": {"read.h"},
    "tools/import": {"import.h"},
    "tools/quantize": {"tuffet_quantize.h", "inside.h"},
    "tools/cli": {"cli.h", "clock.h", "config.h", "form.h", "inputs.h", "power.h", "system.h",
                  "system_posix.h", "template.h", "verbose.h"},
    "tools/chat": {"calls.h", "conversation.h", "display.h", "input.h", "process.h", "slash.h",
                   "terminal.h"},
    "tools/serve": {"batch.h", "catalog.h", "fields.h", "pool.h", "server.h", "shared_options.h"},
    "tools/embed": {"npy.h", "work.h"},
    "tools/eval": {"scorer.h", "task.h"},
    "tools/pull": {"found.h", "name.h", "operand.h", "pull.h", "removal.h"},
    "tools/bench": {"compare.h", "costs.h", "hash.h", "limits.h", "runs.h", "samples.h",
                    "sessions.h", "shape.h"},
}
# The folders of the front ends, and the folders that each may include beside its own and `common`.
fronts = {
    "tools/cli": set(),
    "tools/chat": {"tools/cli"},
    "tools/serve": {"tools/cli"},
    "tools/embed": {"tools/cli"},
    "tools/eval": {"tools/cli"},
    "tools/bench": {"tools/cli", "tools/chat"},
    "tools/pull": {"tools/cli"},
    "tools/commands": {"tools/cli", "tools/chat", "tools/serve", "tools/embed", "tools/eval",
                       "tools/bench", "tools/pull"},
}
common = {"port", "tools/json"}
public = {"src/chat/tuffet_chat.h", "tools/quantize/tuffet_quantize.h"} | {
    f"src/base/{name}.h" for name in ("bytes", "crc32", "new_file", "splitmix64", "utf8")}
# tuffet bench measures kernels, counts the work of layers and writes models of random weights: one
# header of its folder has the inside. Commands for people who develop formats see it too.
sees_inside = re.compile(r"tools/bench/inside\.h"
                         r"|tools/commands/(quantize\w*|import|pack|inspect)\.[ch]")
# Of C11 itself; nothing of a CPU or an OS, and no threads.h or stdatomic.h, which are optional.
standard = {"assert", "ctype", "errno", "float", "inttypes", "limits", "math", "stdarg", "stdbool",
            "stddef", "stdint", "stdio", "stdlib", "string"}
# What portable code may ask by #if: an include guard, the language, the compiler, tuffet's options.
conditions = re.compile(
    r"#\s*ifndef (TFT_\w+|TUFFET)_H$"
    r"|#\s*(ifdef|if defined|elif defined) (__cplusplus|__GNUC__|TFT_\w+)$"
    r"|#\s*(else|endif)\b")
machine = re.compile(
    r"\b(_mm\d*_\w+|__m\d+\w*|__builtin_(ia32|neon|aarch64)\w*|v\w+q?_[fsu](8|16|32|64)"
    r"|(float|u?int)\d+x\d+_t|(__)?asm(__)?)\b")
# How a symbol is exported is the one thing that the public header must ask the system.
allowed = {("src/tuffet.h", "#if !defined _WIN32")}


def folder(path):
    """The entry of `order` that the file is under; the public header is below everything."""
    if path == "src/tuffet.h":
        return "port"
    inside = [f for f in order if path.startswith(f + "/")]
    return max(inside, key=len) if inside else None


paths = [p.relative_to(root).as_posix() for top in ("port", "simd", "src", "models", "tools")
         for p in sorted((root / top).rglob("*.[ch]"))]
known = set(paths)


def resolve(path, name):
    """The file that #include "name" in `path` names."""
    here = pathlib.PurePosixPath(path).parent
    for c in (here / name, pathlib.PurePosixPath("src") / name, pathlib.PurePosixPath(name)):
        parts = []
        for part in c.parts:
            parts = parts[:-1] if part == ".." else parts + [part]
        if "/".join(parts) in known:
            return "/".join(parts)
    return None


def may_include(path, to):
    """Whether `path` is no front end, or `to` is a header for it."""
    home = "tools/commands" if path == "tools/main.c" else folder(path)
    return (home not in fronts or sees_inside.fullmatch(path) or to in public
            or folder(to) in common | fronts[home] | {home})


def name_of(path):
    return path.split("/")[-1]


wrong = []
edges = {}  # module -> modules that it includes
for path in paths:
    home = folder(path)
    portable = (home.startswith("src") and home not in ("src/backend/cuda", "src/backend/mpi")
                or home == "models")
    lines = (root / path).read_text().splitlines()
    includes = 0
    for number, line in enumerate(lines, 1):
        line = re.sub(r"/\*.*?\*/", "", line).strip()
        include = re.match(r'#\s*include\s*(["<])([^">]+)[">]', line)
        why = None
        if include and include[1] == '"':
            to = resolve(path, include[2])
            if to is None or order.index(folder(to)) > order.index(home):
                why = f"{home} does not include {to or 'this'}"
            elif folder(to) != home and name_of(to) not in doors.get(folder(to), {name_of(to)}):
                why = f"is not a door of {folder(to)}"
            elif path.endswith(".c") and includes and to == path[:-1] + "h":
                why = "is not the first include"
            elif not may_include(path, to):
                why = "is inside the library"
            if to and to != "src/tuffet.h":
                edges.setdefault(path[:-2], set()).add(to[:-2])
        elif include and portable and include[2] not in {s + ".h" for s in standard}:
            why = "is not in the C standard's library"
        elif (portable and re.match(r"#\s*(if|elif|else|endif)", line)
              and not conditions.match(line)):
            why = "asks for a CPU or an OS"
        elif portable and machine.search(line):
            why = "is of one CPU"
        includes += include is not None
        if why and (path, line) not in allowed:
            wrong.append(f"{path}:{number}: {line}: {why}")


def cycles():
    """Tarjan's strongly connected components of more than one module."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(edges.get(v, ())):
            if w == v:
                continue
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            component = []
            while not component or component[-1] != v:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for v in sorted(edges):
        if v not in index:
            visit(v)
    return found


wrong += ["include each other: " + ", ".join(c) for c in cycles()]
print(f"{len(paths)} files", *wrong, sep="\n")
sys.exit(1 if wrong or len(paths) < 50 else 0)
