#!/usr/bin/env python3
"""Writes the library as few files, as SQLite has it: amalgamate.py FOLDER

FOLDER gets tuffet.h, tuffet.c, a file tuffet_NAME.c for each ISA level that needs flags of its own,
CMakeLists.txt, LICENSE, and a README that says how to compile them. The same sources make the same
bytes.

Files of the library may have static functions, types and macros of the same name. In tuffet.c such
a name gets that of its file as prefix: `check` of src/kv/policy.c is `policy_check`. A macro of a
file ends with the file. Headers come once, before the first file that includes them.
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
PUBLIC = pathlib.Path("src/tuffet.h")
packaging = root / "packaging/amalgamation"

X86, ARM, WASM = "defined __x86_64__", "defined __aarch64__", "defined __wasm_simd128__"
AVX512 = "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl"
# ISA level: (source, CPUs, flags, what the compiler then defines)
LEVELS = {
    "avx2": ("simd/x86/avx2.c", X86, "-mavx2 -mfma -mf16c", "__AVX2__"),
    "avxvnni": ("simd/x86/avxvnni.c", X86, "-mavx2 -mfma -mf16c -mavxvnni", "__AVXVNNI__"),
    "avx512": ("simd/x86/avx512.c", X86, AVX512, "__AVX512BW__"),
    "avx512vnni": ("simd/x86/avx512vnni.c", X86, AVX512 + " -mavx512vnni", "__AVX512VNNI__"),
    "neon": ("simd/arm/neon.c", ARM, "", "__ARM_NEON"),
    "dotprod": ("simd/arm/dotprod.c", ARM, "-march=armv8.2-a+dotprod", "__ARM_FEATURE_DOTPROD"),
    "i8mm": ("simd/arm/i8mm.c", ARM, "-march=armv8.2-a+dotprod+i8mm",
             "__ARM_FEATURE_MATMUL_INT8"),
    "simd128": ("simd/wasm/simd128.c", WASM, "-msimd128", "__wasm_simd128__"),
}
# Files that are one of several, by the machine: (condition, file).
CHOICES = [
    (f"TFT_SIMD && {X86}", "simd/x86/ladder.c"),
    (f"TFT_SIMD && {ARM}", "simd/arm/ladder.c"),
    (f"TFT_SIMD && {WASM}", "simd/wasm/ladder.c"),
    (f"!TFT_SIMD || !({X86} || {ARM} || {WASM})", "simd/c/ladder.c"),
    ("TFT_OWN_FMA", "simd/c/fma.c"),
    ("TFT_THREADS && defined _OPENMP", "port/threads_openmp.c"),
    ("TFT_THREADS && !defined _OPENMP", "port/threads_posix.c"),
    ("!TFT_THREADS", "port/threads_none.c"),
    ("TFT_THREADS && !defined _OPENMP && !defined _WIN32", "port/thread_posix.c"),
    ("TFT_THREADS && !defined _OPENMP && defined _WIN32", "port/thread_windows.c"),
    ("defined _WIN32", "port/cpus_windows.c"),
    ("defined _WIN32", "port/windows.c"),
    ("!defined _WIN32", "port/cpus.c"),
    ("!defined _WIN32", "port/posix.c"),
]
FEATURES = ("_GNU_SOURCE", "_POSIX_C_SOURCE", "_WIN32_WINNT")  # packaging/amalgamation/first.h.in

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*'
                   r'|\.?\d(?:[eEpP][+-]|[\w.])*|\.\.\.|->|##|\s+|.', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:/\*.*?\*/|\\\n|[^\n])*", re.S | re.M)
INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"(.*?)"')
DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)")
GUARD = re.compile(r"((?:\s|/\*.*?\*/)*)#ifndef (\w+)\n#define \2\n(.*)#endif\s*$", re.S)
WORD = re.compile(r"[A-Za-z_]")
TAGS = {"struct", "union", "enum"}


def read(path):
    return (root / path).read_text(encoding="utf-8")


def sources():
    """The C files of the library that are the same for every machine, as meson.build has them."""
    found = []
    for folder in ("src", "models", "."):
        lists = re.findall(r"sources \+?= files\((.*?)\)", read(f"{folder}/meson.build"), re.S)
        for block in lists:
            found += [pathlib.Path(folder, name) for name in re.findall(r"'([\w/]+\.c)'", block)]
    others = {pathlib.Path(path) for _, path in CHOICES}
    return [p for p in found if p not in others]


def tokens(text):
    """The tokens of a file without directives, comments and space."""
    return [t for t in TOKEN.findall(DIRECTIVE.sub("", text))
            if not t.isspace() and not t.startswith(("/*", "//"))]


class Names:
    """What a file declares at file scope and the linker does not see: `words` are functions,
    variables, types and constants, `tags` structs, unions and enums; `linked` is the rest."""

    def __init__(self, text):
        directives = [m[0] for m in DIRECTIVE.finditer(text)]
        self.macros = {m[1] for m in map(DEFINE.match, directives) if m}
        self.static = {"static", "FORCE_INLINE", "TFT_INLINE"} | {
            DEFINE.match(d)[1] for d in directives if DEFINE.match(d) and " static " in d}
        self.words, self.tags, self.linked = set(), set(), set()
        one, depth = [], 0
        for token in tokens(text):
            depth += token in ("(", "{", "[")
            one.append((token, depth))
            depth -= token in (")", "}", "]")
            if depth == 0 and (token == ";" or token == "}" and self.is_function(one)):
                self.declare(one)
                one = []

    @staticmethod
    def is_function(one):
        """Whether what ends here with a brace is a function: its list of parameters is followed by
        the body, and it is no array with a value."""
        top = [t for t, depth in one if depth == 0 or depth == 1 and t in "({"]
        return "(" in top and "=" not in top

    def declare(self, one):
        words = [t for t, _ in one]
        for at, token in enumerate(words[:-2]):
            if token in TAGS and words[at + 2] == "{":
                self.tags.add(words[at + 1])
            if token == "enum":
                self.words.update(self.constants(one[at:]))
        top = [t for t, depth in one if depth == 0 or depth == 1 and t in "([{"]
        if "typedef" in top:
            pointer = re.search(r"\( \* (\w+) \) \(", " ".join(words))
            self.words.add(pointer[1] if pointer else [t for t in top if WORD.match(t)][-1])
            return
        names, value = set(), False
        for token, after in zip(top, top[1:]):
            value = (value or token == "=") and token != ","
            if WORD.match(token) and not value and after in ("(", "=", ";", "[", ",") \
                    and token != "__attribute__" and not (token.isupper() and after == "("):
                names.add(token)
                if after == "(":
                    break
        (self.words if self.static & set(top) else self.linked).update(names)

    @staticmethod
    def constants(enum):
        start = next((at for at, (t, _) in enumerate(enum[:3]) if t == "{"), None)
        if start is None:
            return
        inside = enum[start][1]
        for (before, _), (token, depth) in zip(enum[start:], enum[start + 1:]):
            if depth < inside:
                return
            if depth == inside and before in ("{", ",") and WORD.match(token):
                yield token


def resolve(name, path):
    """The file that #include "NAME" in `path` means."""
    for folder in (path.parent, pathlib.Path("."), pathlib.Path("src")):
        found = pathlib.Path(*[p for p in (folder / name).parts if p != "."])
        if (root / found).exists():
            return pathlib.Path((root / found).resolve().relative_to(root))
    sys.exit(f"{path} includes {name}, which does not exist")


def prefixed(text, words, tags, prefix):
    """The text of a file with other names for `words` and `tags`; members of structs stay."""
    out, before, inside = [], "", []
    found = TOKEN.findall(text)
    code = [at for at, t in enumerate(found) if not t.isspace() and not t.startswith(("/*", "//"))]
    after = {at: found[b] for at, b in zip(code, [*code[1:], *code[-1:]])}
    last = ["", ""]
    for at, token in enumerate(found):
        if at not in after:
            out.append(token)
            continue
        if token == "{":  # of the members of a struct, or of anything else
            inside.append(bool({"struct", "union"} & set(last)) and bool(WORD.match(before)))
        elif token == "}" and inside:
            inside.pop()
        member = before in (".", "->") or bool(inside and inside[-1]) and (
            after[at] in (";", ",", "[", ":") or before == "*" and after[at] == ")")
        if before in TAGS:
            out.append(prefix + token if token in tags else token)
        else:
            out.append(prefix + token if token in words and not member else token)
        last, before = [before, token], token
    return "".join(out)


class File:
    """One file of the amalgamation in the making."""

    def __init__(self):
        self.out, self.seen = [], set()

    def headers(self, path):
        """Puts the headers that a file includes, and those that they include."""
        for include in INCLUDE.finditer(read(path)):
            header = resolve(include[1], path)
            if header not in self.seen and header != PUBLIC:
                self.headers(header)
                self.put(header)

    def put(self, path, text=None):
        """Puts a file, with those that it includes in place. A header with a guard comes once."""
        text = text or read(path)
        guard = GUARD.match(text)
        if guard:
            self.seen.add(path)
            text = guard[1] + guard[3]
        at = 0
        self.out.append(f"/* ---- {path.as_posix()} */\n")
        for directive in DIRECTIVE.finditer(text):
            self.out.append(text[at:directive.start()])
            at = directive.end()
            include, define = INCLUDE.match(directive[0]), DEFINE.match(directive[0])
            if include:
                header = resolve(include[1], path)
                if header == PUBLIC:
                    self.out.append('#include "tuffet.h"')
                elif header not in self.seen:
                    self.put(header)
            elif not define or define[1] not in FEATURES:
                self.out.append(directive[0])
        self.out.append(text[at:].rstrip("\n") + "\n")

    def text(self):
        return re.sub(r"\n{3,}", "\n\n", "".join(self.out))


def build_id():
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "build_id.c")
        subprocess.run([sys.executable, root / "src/backend/build_id.py", root, version(), made,
                        made.with_suffix(".d")], check=True)
        return made.read_text(encoding="utf-8")


def version():
    return re.search(r"(?m)^  version: '(.*)',", read("meson.build"))[1]


def whole():
    """tuffet.c"""
    paths = sources()
    texts = {path: read(path) for path in paths + [pathlib.Path(p) for _, p in CHOICES]}
    texts[pathlib.Path("src/backend/build_id.c")] = build_id()
    paths.append(pathlib.Path("src/backend/build_id.c"))
    made = File()
    made.out.append((packaging / "first.h.in").read_text(encoding="utf-8"))
    for path in texts:
        if (root / path).exists():
            made.headers(path)

    names = {path: Names(text) for path, text in texts.items()}
    shared = [Names(read(header)) for header in sorted(made.seen)]
    for kind in ("words", "tags"):
        twice = [n for n, k in collections.Counter(
            n for one in shared for n in getattr(one, kind)).items() if k > 1]
        if twice:
            sys.exit(f"amalgamate.py: two headers declare {', '.join(sorted(twice))}")
    count = {kind: collections.Counter(n for one in [*names.values(), *shared]
                                       for n in getattr(one, kind) | (
                                           one.macros | one.linked if kind == "words" else set()))
             for kind in ("words", "tags")}
    stems = collections.Counter(path.stem for path in texts)
    for condition, path in [(None, p) for p in paths] + [(c, pathlib.Path(p)) for c, p in CHOICES]:
        own = names[path]
        words = {n for n in own.words | own.macros if count["words"][n] > 1}
        tags = {n for n in own.tags if count["tags"][n] > 1}
        prefix = (path.stem if stems[path.stem] == 1 else f"{path.parent.name}_{path.stem}") + "_"
        if condition:
            made.out.append(f"#if {condition}\n")
        made.put(path, text=prefixed(texts[path], words, tags, prefix))
        for macro in sorted(own.macros - set(FEATURES)):
            made.out.append(f"#undef {prefix + macro if macro in words else macro}\n")
        if condition:
            made.out.append("#endif\n")
    return made.text()


def level(name):
    """tuffet_NAME.c"""
    path, cpu, flags, defined = LEVELS[name]
    made = File()
    made.out.append(f"/* The ISA level {name} of tuffet {version()}"
                    f"{', compiled with ' + flags if flags else ''}. */\n"
                    f"#if !defined TFT_SIMD || TFT_SIMD\n#if {cpu}\n#if !defined {defined}\n"
                    f'#error "compile this file with {flags}"\n#endif\n')
    if cpu == WASM:  # as packaging/amalgamation/first.h.in; x86 has the instruction
        made.out.append("#define fmaf tft_fmaf\n")
    made.put(pathlib.Path(path))
    made.out.append("#endif\n#endif\n")
    return made.text()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    here = {p.relative_to(root).as_posix() for p in root.glob("simd/*/*.c")
            if p.parent.name not in ("c", "riscv", "template") and p.name != "ladder.c"}
    if here != {path for path, *_ in LEVELS.values()}:
        sys.exit("amalgamate.py: LEVELS has other ISA levels than simd/")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = {"tuffet.c": whole(), "tuffet.h": read("src/tuffet.h"), "LICENSE": read("LICENSE")}
    for name in LEVELS:
        made[f"tuffet_{name}.c"] = level(name)
    for name in ("README.md", "CMakeLists.txt"):
        made[name] = (packaging / name).read_text(encoding="utf-8").replace("@version@", version())
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
