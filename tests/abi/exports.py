"""Checks that a shared library exports the functions that its header declares, and nothing else,
with the symbol versions of the linker's map if it was linked with one.

    exports.py NM LIBRARY HEADER [MAP]

Exit status 77 if NM cannot read the library.
"""
import re
import subprocess
import sys

nm, library, header, *version_map = sys.argv[1:]
text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
declared = set(re.findall(r"^TFT_API\s[^;(]*?\b(tft_\w+)\(", text, flags=re.M))
result = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True)
if result.returncode != 0:
    print("skipped:", result.stderr.strip())  # nm is for another machine
    sys.exit(77)
# Names that begin with an underscore belong to the compiler and the sanitizers; a version is an
# absolute symbol (A).
symbols = [line.split()[-2:] for line in result.stdout.splitlines()]
exported = dict(name.partition("@")[::2] for kind, name in symbols if kind != "A")
exported = {name: version for name, version in exported.items() if not name.startswith("_")}
print(len(declared), "declared,", len(exported), "exported")
bad = []
for name in sorted(declared ^ set(exported)):
    wrong = "declared but not exported" if name in declared else "exported but not declared"
    bad.append(f"{name} is {wrong}")
for path in version_map:
    nodes = re.findall(r"^(TUFFET_[\w.]+) \{(.*?)^\}", open(path).read(), flags=re.M | re.S)
    versions = {name: node for node, text in nodes for name in re.findall(r"\btft_\w+", text)}
    for name in sorted(set(exported) | set(versions)):
        if exported.get(name, "").lstrip("@") != versions.get(name):
            bad.append(f"{name} has the version {exported.get(name)}, not that of {path}")
print(*bad, sep="\n")
sys.exit(0 if not bad and declared else 1)
