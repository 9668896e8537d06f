"""Checks that the shared library exports the functions that tuffet.h declares, and nothing else.

    exports.py NM LIBRARY HEADER

Exit status 77 if NM cannot read the library.
"""
import re
import subprocess
import sys

nm, library, header = sys.argv[1:]
text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
declared = set(re.findall(r"^TFT_API\s[^;(]*?\b(tft_\w+)\(", text, flags=re.M))
result = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True)
if result.returncode != 0:
    print("skipped:", result.stderr.strip())  # nm is for another machine
    sys.exit(77)
# Names that begin with an underscore belong to the compiler and the sanitizers.
exported = {line.split()[-1].split("@")[0] for line in result.stdout.splitlines()}
exported = {name for name in exported if not name.startswith("_")}
print(len(declared), "declared,", len(exported), "exported")
for name in sorted(declared ^ exported):
    wrong = "declared but not exported" if name in declared else "exported but not declared"
    print(f"{name} is {wrong}")
sys.exit(0 if declared == exported and declared else 1)
