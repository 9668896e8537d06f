#!/bin/sh
# Builds the program for Windows, and compares it with the one for this machine:
#     sh tools/scripts/windows.sh [BUILD]       BUILD: a build for this machine with its tests
# Makes the folder build/windows/tuffet, with the program, the model that ships and the license.
# Needs Debian on x86-64; wine runs the program. tests/cli/windows.py says what is compared.
set -eu
cd "$(dirname "$0")/../.."
native=${1:-build/test}
out=build/windows
sh tools/scripts/install.sh gcc libc6-dev meson ninja-build pkgconf python3 libcmocka-dev \
    gcc-mingw-w64-x86-64 wine64

[ -d "$native" ] || meson setup "$native" --werror >/dev/null
ninja -C "$native" --quiet tools/tuffet tests/toy
[ -d "$out" ] || meson setup "$out" --werror --cross-file tests/cross/x86_64-windows.ini \
    -Dtests=false >/dev/null
ninja -C "$out" --quiet

needs=$(x86_64-w64-mingw32-objdump -p "$out/tools/tuffet.exe" | sed -n 's/.*DLL Name: //p' | sort |
    tr '\n' ' ')
[ "$needs" = "KERNEL32.dll msvcrt.dll " ] || {
    echo "windows.sh: the program needs more than the system has: $needs" >&2
    exit 1
}
mkdir -p "$out/tuffet"
cp LICENSE models/demo/stories2M.gguf "$out/tuffet"
x86_64-w64-mingw32-strip -o "$out/tuffet/tuffet.exe" "$out/tools/tuffet.exe"
du -b "$out/tuffet/tuffet.exe"

export WINEPREFIX="$PWD/$out/wine" MESON_EXE_WRAPPER=/usr/lib/wine/wine64
# By its own path it finds the model beside it.
WINEDEBUG=-all "$MESON_EXE_WRAPPER" "$out/tuffet/tuffet.exe" run --temp 0 -n 30 </dev/null
python3 tests/cli/windows.py "$out/tuffet/tuffet.exe" "$native/tools/tuffet" "$native/tests/toy"
