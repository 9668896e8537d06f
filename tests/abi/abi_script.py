"""tools/scripts/abi.sh knows the changes that break programs: abi_script.py SCRIPT COMPILER...

A small library in place of the real ones, and what its next version may do.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

script, *compiler = sys.argv[1:]
HEADER = """
struct o { int size; int a; };
enum e { A, B };
int tft_f(const struct o *o);
int tft_g(int x);
int tft_e(enum e x);
"""
SOURCE = """#include "tuffet.h"
int tft_f(const struct o *o) { return o->a; }
int tft_g(int x) { return x; }
int tft_e(enum e x) { return (int)x; }
"""
# name: words of the header or source, what takes their place, soname, whether it is refused
CASES = {
    "same": ("A, B", "A, B", 0, False),
    "a function more": ("int tft_g(int x)", "int tft_h(void)", 0, False),
    "a value more": ("A, B", "A, B, C", 0, False),
    "a field more": ("int a;", "int a; int b;", 0, False),
    "a value between": ("A, B", "A, C, B", 0, True),
    "a field between": ("int a;", "int b; int a;", 0, True),
    "the type of a field": ("int a;", "float a;", 0, True),
    "the type of a parameter": ("tft_g(int x)", "tft_g(long x)", 0, True),
    "the type of a result": ("int tft_g", "long tft_g", 0, True),
    "another name": ("tft_g", "tft_k", 0, True),
    "another soname": ("tft_g", "tft_k", 1, False),
}


def build(folder, old, new, soname):
    """An installation of the library."""
    header, source = HEADER.replace(old, new), SOURCE.replace(old, new)
    if new == "int tft_h(void)":  # beside the old one
        header, source = HEADER + new + ";\n", SOURCE + new + " { return 1; }\n"
    for name in ("include", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "include/tuffet.h").write_text(header)
    (folder / "a.c").write_text(source)
    subprocess.run([*compiler, "-g", "-shared", "-fPIC", f"-Wl,-soname,libtuffet.so.{soname}",
                    f"-I{folder}/include", folder / "a.c", "-o", folder / "lib/libtuffet.so"],
                   check=True)
    return folder


for program in ("abidiff", "readelf"):
    if not shutil.which(program):
        print(f"skipped: there is no {program}")
        sys.exit(77)
with tempfile.TemporaryDirectory() as temporary:
    root = pathlib.Path(temporary)
    before = build(root / "before", "A, B", "A, B", 0)
    for number, (name, (old, new, soname, refused)) in enumerate(CASES.items()):
        after = build(root / str(number), old, new, soname)
        done = subprocess.run(["sh", script, "--compare", before, after], capture_output=True,
                              text=True)
        assert done.returncode == refused, (name, done.stdout, done.stderr)
        if refused:
            assert "might not run" in done.stdout, (name, done.stdout)
print(len(CASES), "changes")
