"""The binary interface of the library: abi.py HEADER DUMP COMPILER... [--renew]

Compiles a program that prints what callers have compiled in, namely the numbers of enums, the size
of each struct, and the place and size of each field, and compares that and the functions' types
with DUMP. With --renew, writes DUMP, unless a struct with `size` has got a field in bytes that were
its padding: old programs do not set them to zero.

Exit status 77 where pointers have no 64 bits, whose sizes DUMP does not have.
"""
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

args = [a for a in sys.argv[1:] if a != "--renew"]
header, dump, compiler = args[0], pathlib.Path(args[1]), args[2:]
source = pathlib.Path(__file__).resolve().parents[2] / "src"
includes = ["-I", str(pathlib.Path(header).parent), "-I", str(source)]


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def split(text, at):
    """The parts of `text` between `at`, none of them inside parentheses."""
    return [part for part in re.split(at + r"(?![^()]*\))", text) if part.strip()]


def declared(field):
    """The names in a field's declaration, which may end with [N] or be a pointer to a function."""
    pointer = re.search(r"\(\*(\w+)\)", field)
    return [pointer[1]] if pointer else [re.search(r"(\w+)\s*(\[[^]]*\])?$", part.strip())[1]
                                         for part in split(field, ",")]


def structs(text):
    """{name: (its bytes, {field: its place})}"""
    found = {}
    for line in text.splitlines():
        head = re.match(r"struct (\w+): (\d+) bytes$", line)
        field = re.match(r" +(\d+) +\d+  .*: (\w+)$", line)
        if head:
            fields = {}
            found[head[1]] = int(head[2]), fields
        elif field:
            fields[field[2]] = int(field[1])
    return found


def padded(before, now):
    """The new fields of structs that only grow, where old programs have padding. A field `unused`
    may fill it."""
    old, places = structs(before), []
    for name, (_, fields) in structs(now).items():
        size, had = old.get(name, (0, {}))
        if "size" in had and had.items() <= fields.items():
            places += [f"struct {name}: {field} is at byte {at}, and old programs, of {size} "
                       "bytes, have padding there" for field, at in fields.items()
                       if field not in had and at < size and field != "unused"]
    return places


# what the header declares itself, without what it includes
lines, mine = [], False
for line in run(*compiler, "-std=c11", *includes, "-E", header).splitlines():
    marker = re.match(r'# \d+ "([^"]*)"', line)
    if marker:
        mine = pathlib.Path(marker[1]).name == pathlib.Path(header).name
    elif mine:
        lines.append(line)
text = " ".join(" ".join(lines).split())
text = re.sub(r"__attribute__ ?\(\(.*?\)\)\)? ?(?=const|struct|enum|void|\w)", "", text)

program = ["#include <stddef.h>", "#include <stdio.h>",
           f'#include "{pathlib.Path(header).name}"', "int main(void) {",
           'if (sizeof(void *) != 8) return 77;']
for name, body in re.findall(r"enum (\w*) ?\{(.*?)\}", text):
    for constant in re.findall(r"(\w+)(?: = [^,]*)?(?:,|$)", body.strip()):
        program.append(f'printf("{name or "enum"} {constant} = %d\\n", {constant});')
for name, body in re.findall(r"struct (\w+) \{(.*?)\}", text):
    program.append(f'printf("struct {name}: %zu bytes\\n", sizeof(struct {name}));')
    for field in split(body, ";"):
        for member in declared(field):
            program.append(f'printf("  %3zu %3zu  {" ".join(field.split())}: {member}\\n", '
                           f'offsetof(struct {name}, {member}), '
                           f'sizeof(((struct {name} *)0)->{member}));')
program.append("return 0; }")
functions = re.findall(r"[\w *]*?\btft_\w+\([^;{]*\)(?=;)", re.sub(r"\{.*?\}", "", text))
functions.sort(key=lambda f: re.search(r"tft_\w+\(", f)[0])

with tempfile.TemporaryDirectory() as folder:
    exe = folder + "/abi"
    run(*compiler, "-std=c11", *includes, "-x", "c", "-o", exe, "-", input="\n".join(program))
    done = subprocess.run([exe], capture_output=True, text=True)
if done.returncode == 77:
    print("skipped: pointers do not have 64 bits")
    sys.exit(77)
now = done.stdout + "".join(" ".join(f.split()) + "\n" for f in functions)
if "--renew" in sys.argv:
    places = padded(dump.read_text(), now) if dump.exists() else []
    if places:
        sys.exit("\n".join(places))
    dump.parent.mkdir(exist_ok=True)
    dump.write_text(now)
changes = list(difflib.unified_diff(dump.read_text().splitlines(), now.splitlines(), str(dump),
                                    header, lineterm=""))
print(f"{len(now.splitlines())} lines", *changes, sep="\n")
if changes:
    print("Programs that were compiled before may break. CONTRIBUTING.md says when to renew.")
marked = len(re.findall(r"^TFT_API\b", pathlib.Path(header).read_text(), flags=re.M))
if not functions or len(functions) != marked:
    print(f"{len(functions)} functions were found, {marked} are marked TFT_API")
    sys.exit(1)
sys.exit(1 if changes else 0)
