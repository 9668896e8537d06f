"""The list of linked software is SPDX 2.3, and complete: sbom.py SCRIPT BUILD PROGRAM

The schema's required fields and forms (spdx.github.io, 2.3) are checked, and each library that the
program needs is a package with a version and a licence. A library without a known licence is
refused.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

script, build, program = sys.argv[1:]
DYNAMIC = "DYNAMIC_LINK"
# A library of the link that is in the package of another name.
PACKAGES = {"c": "glibc", "m": "glibc", "gomp": "gcc", "crypto": "openssl",
            "event_core-2.1": "libevent", "event_extra-2.1": "libevent", "edit": "libedit"}


def made(folder, path=script, epoch="1700000000"):
    out = pathlib.Path(folder, "tuffet.spdx.json")
    done = subprocess.run([sys.executable, path, build, program, out], capture_output=True,
                          text=True, env={**os.environ, "SOURCE_DATE_EPOCH": epoch})
    return done, out.read_bytes() if out.exists() else b""


with tempfile.TemporaryDirectory() as folder:
    done, text = made(folder)
    assert done.returncode == 0, done.stderr
    assert text == made(folder)[1] and text != made(folder, epoch="1700000001")[1]
    unknown = pathlib.Path(folder, "sbom.py")
    unknown.write_text(pathlib.Path(script).read_text().replace('    "m": (', '    "mm": ('))
    done, _ = made(folder, unknown)
    assert done.returncode and "no licence is known for libm:" in done.stderr, done

spdx = json.loads(text)
assert spdx["spdxVersion"] == "SPDX-2.3" and spdx["dataLicense"] == "CC0-1.0"
assert spdx["SPDXID"] == "SPDXRef-DOCUMENT" and spdx["name"]
assert re.fullmatch(r"https://[\w./-]+", spdx["documentNamespace"])
assert spdx["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
assert all(re.match("(Tool|Organization|Person): ", c) for c in spdx["creationInfo"]["creators"])
ids = {"SPDXRef-DOCUMENT"}
for one in spdx["packages"] + spdx["files"]:
    assert re.fullmatch(r"SPDXRef-[a-zA-Z0-9.-]+", one["SPDXID"]) and one["SPDXID"] not in ids, one
    ids.add(one["SPDXID"])
for one in spdx["packages"]:
    assert one["name"] and one["downloadLocation"] and one["versionInfo"] and one[
        "licenseConcluded"] not in (None, "", "NOASSERTION"), one
for one in spdx["files"]:
    kinds = {c["algorithm"]: len(c["checksumValue"]) for c in one["checksums"]}
    assert one["fileName"].startswith("./") and kinds["SHA1"] == 40 and kinds["SHA256"] == 64, one
for one in spdx["relationships"]:
    assert {one["spdxElementId"], one["relatedSpdxElement"]} <= ids, one

linked = {r["relatedSpdxElement"].removeprefix("SPDXRef-Package-")
          for r in spdx["relationships"] if r["relationshipType"] == DYNAMIC}
needed = re.findall(r"\(NEEDED\).*\[lib(.+?)\.so", subprocess.run(
    ["readelf", "-d", pathlib.Path(build, program)], check=True, capture_output=True,
    text=True).stdout)
assert linked == {PACKAGES.get(name, name) for name in needed}, (linked, needed)
print(len(linked), "packages")
