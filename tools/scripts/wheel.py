#!/usr/bin/env python3
"""Packs the Python module and libraries as a wheel, with the same bytes each time:
wheel.py LIBRARIES TAG OUT [LICENSE]...

LIBRARIES is a folder of shared libraries, TAG the platform, such as manylinux_2_34_x86_64; LICENSE:
of other software in the libraries. Writes OUT/tuffet-VERSION-py3-none-TAG.whl. The time of all
files is SOURCE_DATE_EPOCH. The format: packaging.python.org, "Binary distribution format".
"""
import base64
import hashlib
import os
import pathlib
import sys
import time
import tomllib
import zipfile

if len(sys.argv) < 4:
    sys.exit(__doc__)
libraries, tag, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
top = pathlib.Path(__file__).resolve().parents[2]
source = top / "bindings/python"
project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
name = f"{project['name']}-{project['version']}"
info = f"{name}.dist-info"

metadata = f"""Metadata-Version: 2.1
Name: {project["name"]}
Version: {project["version"]}
Summary: {project["description"]}
License: {project["license"]["text"]}
Requires-Python: {project["requires-python"]}
Description-Content-Type: text/markdown

{(source / project["readme"]).read_text()}"""
wheel = f"""Wheel-Version: 1.0
Generator: tuffet (wheel.py)
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""
files = {f"tuffet/{p.name}": p.read_bytes() for p in (source / "tuffet").iterdir()
         if p.suffix in (".py", ".typed")}
files |= {f"tuffet/lib/{p.name}": p.read_bytes() for p in libraries.iterdir()}
files = dict(sorted(files.items()))
files[f"{info}/LICENSE"] = (top / "LICENSE").read_bytes()
for path in map(pathlib.Path, sys.argv[4:]):
    files[f"{info}/LICENSE.{path.parent.name}"] = path.read_bytes()
files[f"{info}/METADATA"] = metadata.encode()
files[f"{info}/WHEEL"] = wheel.encode()


def line(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


record = f"{info}/RECORD"
files[record] = ("".join(line(*f) for f in files.items()) + f"{record},,\n").encode()
seconds = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)  # zip begins with 1980
with zipfile.ZipFile(out / f"{name}-py3-none-{tag}.whl", "w", zipfile.ZIP_DEFLATED,
                     compresslevel=9) as archive:
    for path, data in files.items():
        entry = zipfile.ZipInfo(path, time.gmtime(seconds)[:6])
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o755 if path.startswith("tuffet/lib/") else 0o644) << 16
        entry.create_system = 3  # as on Linux, where modes count
        archive.writestr(entry, data)
