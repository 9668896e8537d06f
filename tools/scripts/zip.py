#!/usr/bin/env python3
"""Packs a folder as a zip file, with the same bytes each time: zip.py FOLDER FILE

Names are sorted and begin with that of FOLDER. The time of all files is SOURCE_DATE_EPOCH.
"""
import os
import pathlib
import sys
import time
import zipfile

if len(sys.argv) != 3:
    sys.exit(__doc__)
folder, out = map(pathlib.Path, sys.argv[1:])
seconds = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)  # zip begins with 1980
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        info = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix(),
                               time.gmtime(seconds)[:6])
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o755 if path.suffix == ".exe" else 0o644) << 16
        info.create_system = 3  # as on Linux, where modes count
        archive.writestr(info, path.read_bytes())
