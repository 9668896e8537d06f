"""Includes point one way, tools -> cuda -> models -> src -> simd -> port, and src/ and models/ are portable C: layers.py SOURCE_ROOT"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
layers = ["port", "simd", "src", "models", "cuda", "tools"]  # each may include itself and those before it
# Of C11 itself; nothing of a CPU or an OS, and no threads.h or stdatomic.h, which are optional.
standard = {"assert", "ctype", "errno", "float", "inttypes", "limits", "math", "stdarg", "stdbool", "stddef", "stdint", "stdio",
            "stdlib", "string"}
# What may be asked by #if in portable code: an include guard, the language, the compiler, how tuffet is built.
conditions = re.compile(r"#\s*ifndef (TFT_\w+|TUFFET)_H$|#\s*(ifdef|if defined|elif defined) (__cplusplus|__GNUC__|TFT_\w+)$|#\s*(else|endif)\b")
machine = re.compile(r"\b(_mm\d*_\w+|__m\d+\w*|__builtin_(ia32|neon|aarch64)\w*|v\w+q?_[fsu](8|16|32|64)|(float|u?int)\d+x\d+_t"
                     r"|(__)?asm(__)?)\b")
# How a symbol is exported is the one thing that the public header must ask the system.
allowed = {("src/tuffet.h", "#if !defined _WIN32")}

files = {p: layer for layer in layers for p in sorted((root / layer).rglob("*.[ch]"))}
owner = {p.name: layer for p, layer in files.items() if p.suffix == ".h"}
wrong = []
for path, layer in files.items():
    portable = layer in ("src", "models")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = re.sub(r"/\*.*?\*/", "", line).strip()
        include = re.match(r'#\s*include\s*(["<])([^">]+)[">]', line)
        why = None
        if include and include[1] == '"':
            to = owner.get(pathlib.Path(include[2]).name)
            if to is None or layers.index(to) > layers.index(layer):
                why = f"{layer} does not include {to or 'this'}"
        elif include and portable and include[2] not in {s + ".h" for s in standard}:
            why = "is not in the C standard's library"
        elif portable and re.match(r"#\s*(if|elif|else|endif)", line) and not conditions.match(line):
            why = "asks for a CPU or an OS"
        elif portable and machine.search(line):
            why = "is of one CPU"
        where = path.relative_to(root).as_posix()
        if why and (where, line) not in allowed:
            wrong.append(f"{where}:{number}: {line}: {why}")
print(f"{len(files)} files", *wrong, sep="\n")
sys.exit(1 if wrong or len(files) < 50 else 0)
