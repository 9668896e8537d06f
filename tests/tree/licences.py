"""Each file has a licence: licences.py SOURCE

.reuse/dep5 (REUSE 3.0) names the licence of every file, LICENSES/ has the texts, and
packaging/debian/copyright says the same of the same files. Where `reuse` is installed, `reuse lint`
must find nothing.
"""
import pathlib
import re
import shutil
import subprocess
import sys

source = pathlib.Path(sys.argv[1])


def stanzas(path):
    """[(files, copyright, licence)] of a file in Debian's form."""
    return re.findall(r"(?m)^Files: (.*)\nCopyright: (.*)\nLicense: (.*)$",
                      (source / path).read_text())


found = stanzas(".reuse/dep5")
assert found and found[0][0] == "*", found
assert found == stanzas("packaging/debian/copyright")
texts = {p.stem for p in (source / "LICENSES").iterdir()}
assert texts == {licence for *_, licence in found}, texts
assert (source / "LICENSE").read_bytes() == (source / "LICENSES" / "Apache-2.0.txt").read_bytes()
for files, _, _ in found[1:]:
    for name in files.split():
        assert (source / name).is_file(), name
# the tables of Unicode's data, by the first lines that their scripts write
tables = {p.relative_to(source).as_posix() for p in (source / "src").rglob("*.h")
          if "in Unicode" in p.read_text().split("\n")[0]}
assert tables == set(found[1][0].split()), tables

if not shutil.which("reuse"):
    print("left out: reuse lint, there is no reuse")
else:
    done = subprocess.run(["reuse", "--root", source, "lint"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    print("reuse lint finds nothing")
