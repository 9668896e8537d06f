"""The bindings beside the headers: bindings.py SOURCE COMPILER...

Some bindings are not compiled here: Swift never, others where a compiler is missing.

- Every name of the libraries in a source of bindings/ (tft_..., TFT_...) is in a header.
- A call in Swift has as many arguments as the function, and a field that it sets or reads is one of
  the struct. tests/abi has both, as a C compiler made them.
- Each function of Kotlin's Native is in the JNI library, with as many arguments, and none is there
  that Kotlin does not name.
- The C header for Swift compiles.
"""
import pathlib
import re
import subprocess
import sys

root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2:]
bindings = root / "bindings"
HEADERS = [root / p for p in ("src/tuffet.h", "src/chat/tuffet_chat.h",
                              "tools/quantize/tuffet_quantize.h")]
SUFFIXES = {".c", ".h", ".go", ".js", ".kt", ".mjs", ".py", ".rs", ".swift", ".ts"}
OWN = re.compile(r"tft_jni_\w+|TFT_ERR")  # functions of the JNI library; Node's unknown status
wrong = []


def sources(folder, *suffixes):
    return [p for p in sorted(folder.rglob("*")) if p.suffix in suffixes and p.is_file()
            and not {"build", "node_modules", "target"} & set(p.relative_to(bindings).parts)]


def bare(text):
    """Without comments and the contents of strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"',
                  lambda m: '""' if m[0][0] == '"' else " ", text, flags=re.DOTALL)


def arguments(text, start):
    """How many arguments are between the bracket at text[start] and the one that closes it."""
    depth, commas, empty = 0, 0, True
    for c in text[start:]:
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            return 0 if empty else commas + 1
        commas += c == "," and depth == 1
        empty = empty and (c.isspace() or c == "(")
    raise ValueError(text[start:start + 60])


def check_names():
    known = set(re.findall(r"\b(?:tft|TFT)_\w+", "".join(p.read_text() for p in HEADERS)))
    used = 0
    for path in sources(bindings, *SUFFIXES):
        names = set(re.findall(r"(?<![A-Za-z0-9])(?:tft|TFT)_[A-Za-z]\w*", path.read_text()))
        used += len(names & known)
        wrong.extend(f"{path.relative_to(root)}: no header has {name}"
                     for name in sorted(names - known) if not OWN.fullmatch(name))
    return used


def abi():
    """{function: number of arguments}, {struct: names of fields}"""
    functions, fields, struct = {}, {}, None
    for name in ("lp64", "chat_lp64"):
        for line in (root / f"tests/abi/{name}.txt").read_text().splitlines():
            if found := re.match(r"struct (\w+): \d+ bytes", line):
                struct = fields.setdefault(found[1], set())
            elif line.startswith("  "):
                struct.add(line.rpartition(": ")[2])
            elif found := re.match(r".*?\b(tft_\w+)\((.*)\)$", line):
                functions[found[1]] = 0 if found[2] == "void" else arguments(f"({found[2]})", 0)
    return functions, fields


def check_swift():
    functions, fields = abi()
    calls = accesses = 0
    for path in sources(bindings / "swift", ".swift"):
        text = bare(path.read_text())
        for found in re.finditer(r"\b(tft_\w+)\(", text):
            name, n = found[1], arguments(text, found.end() - 1)
            if name not in functions and name in fields and n == 0:
                continue  # an empty struct
            calls += 1
            if functions.get(name) != n:
                wrong.append(f"{path.relative_to(root)}: {name} takes {functions.get(name)} "
                             f"arguments, not {n}")
        for found in re.finditer(r"\bvar (\w+) = (tft_\w+)\(\)", text):
            function = re.split(r"\n {0,4}\}\n", text[found.end():])[0]
            for field in re.findall(rf"(?<![\w.]){found[1]}\.(\w+)", function):
                accesses += 1
                if field not in fields[found[2]]:
                    wrong.append(f"{path.relative_to(root)}: {found[2]} has no field {field}")
    return calls, accesses


def check_kotlin():
    folder = bindings / "kotlin"
    kotlin = bare((folder / "tuffet/Native.kt").read_text())
    c = "".join(bare(p.read_text()) for p in sources(folder / "jni", ".c"))
    declared = {m[1]: arguments(kotlin, m.end() - 1)
                for m in re.finditer(r"external fun (\w+)\(", kotlin)}
    defined = {m[1]: arguments(c, c.index("(", m.start())) - 2
               for m in re.finditer(r"NATIVE\(\w+,\s*(\w+),", c)}
    wrong.extend(f"bindings/kotlin: {name} takes {declared.get(name)} arguments in Kotlin, "
                 f"{defined.get(name)} in C" for name in sorted(declared.keys() | defined.keys())
                 if declared.get(name) != defined.get(name))
    return len(declared)


def check_shim():
    folder = bindings / "swift/Sources/CTuffet"
    done = subprocess.run(
        [*compiler, "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
         *(f"-I{p.parent}" for p in HEADERS), "-I", folder, "-x", "c", "-"],
        input='#include "shim.h"\n', capture_output=True, text=True)
    if done.returncode:
        wrong.append(done.stderr)


names, (calls, accesses), natives = check_names(), check_swift(), check_kotlin()
check_shim()
print(f"{names} names; Swift: {calls} calls, {accesses} fields; Kotlin: {natives} functions")
print(*wrong, sep="\n")
sys.exit(1 if wrong or min(names / 10, calls, accesses, natives) < 25 else 0)
