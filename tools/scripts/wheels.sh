#!/bin/sh
# Builds Python wheels with the libraries in them, and tries them: sh tools/scripts/wheels.sh
# [manylinux|musllinux]... Makes build/wheels/tuffet-VERSION-py3-none-TAG.whl: manylinux for glibc,
# of the version that the libraries' symbols need, and musllinux for musl. The libraries need their
# C library alone: threads are POSIX's, and jansson, which Debian has for glibc alone, is built from
# Debian's sources into libtuffet-quantize. Needs Debian, and root where packages are missing. The
# first wheel is installed in an environment of its own and tells a story; a program linked with
# musl opens the libraries of the second.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- manylinux musllinux
out=$PWD/build/wheels
arch=$(uname -m)
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
major=${version%%.*} # of the soname
mkdir -p "$out"
sh tools/scripts/install.sh gcc libc6-dev meson ninja-build pkgconf cmake curl musl-tools \
    linux-libc-dev binutils python3 python3-venv
rm -f "$out"/*.whl
[ -d "$out/sources" ] || sh tools/scripts/source.sh "$out/sources" jansson

# musl has no headers of Linux
headers=$out/headers
mkdir -p "$headers"
for name in linux asm asm-generic; do
    for from in /usr/include "/usr/include/$(gcc -print-multiarch)"; do
        [ ! -d "$from/$name" ] || ln -sfn "$from/$name" "$headers/$name"
    done
done

# build KIND COMPILER FLAGS: the libraries, stripped, in $out/KIND-libraries.
build() {
    folder=$out/$1-build libraries=$out/$1-libraries
    cmake -S "$out"/sources/jansson-2.* -B "$out/$1-jansson" -G Ninja -Wno-dev \
        -DCMAKE_C_COMPILER="$2" -DCMAKE_C_FLAGS="$3 '-ffile-prefix-map=$out=.'" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF \
        -DCMAKE_INSTALL_PREFIX="$out/$1-needs" -DCMAKE_INSTALL_LIBDIR=lib >"$out/$1.log"
    ninja -C "$out/$1-jansson" --quiet install >>"$out/$1.log"
    [ -f "$folder/build.ninja" ] ||
        CC=$2 PKG_CONFIG_LIBDIR="$out/$1-needs/lib/pkgconfig" meson setup "$folder" --werror \
            -Ddefault_library=shared -Dtests=false -Dthreads=posix -Dmpi=disabled \
            -Djansson=enabled -Dlibevent=disabled -Dlibcurl=disabled -Dlibedit=disabled \
            -Dc_args="$3 '-ffile-prefix-map=$PWD=.'" >>"$out/$1.log"
    names="libtuffet.so src/chat/libtuffet-chat.so tools/quantize/libtuffet-quantize.so"
    rm -rf "$libraries"
    mkdir "$libraries"
    for name in $names; do
        ninja -C "$folder" --quiet "$name.$version"
        strip --strip-unneeded -o "$libraries/$(basename "$name").$major" "$folder/$name.$version"
    done
    if readelf -d "$libraries"/* | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -Evx "lib(c|m|dl|pthread)\.so(\.[0-9]+)?|ld-linux.*|libtuffet\.so\.$major"; then
        echo "wheels.sh: the libraries need another one" >&2
        exit 1
    fi
}

# pack KIND TAG
pack() {
    python3 tools/scripts/wheel.py "$out/$1-libraries" "$2" "$out" \
        "$(echo "$out"/sources/jansson-2.*/LICENSE)"
}

# In an environment that has nothing but the wheel.
try_wheel() {
    rm -rf "$out/environment"
    python3 -m venv "$out/environment"
    "$out/environment/bin/pip" install --quiet --no-index --disable-pip-version-check "$1"
    env -u LD_LIBRARY_PATH -u TUFFET_LIBRARY -u PYTHONPATH "$out/environment/bin/python" -c '
import sys
import tuffet
with tuffet.Model(sys.argv[1]) as model:
    print("".join(model.session().generate("Once upon a time", max_tokens=30)))
    assert model.schema({"type": "boolean"})
made = tuffet.quantize(sys.argv[1], sys.argv[2], gguf="q8_0")
assert made.check and made.check[0].divergence < 0.01, made.check
' models/demo/stories2M.gguf "$out/tried.gguf"
    rm -rf "$out/environment" "$out/tried.gguf"
}

# Debian has no Python with musl.
try_libraries() {
    cat >"$out/try.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int n, char **path)
{
    for (int i = 1; i < n; i++)
        if (!dlopen(path[i], RTLD_NOW | RTLD_GLOBAL))
            return puts(dlerror()), 1;
    puts("opened with musl");
    return 0;
}
END
    musl-gcc -O1 -o "$out/try" "$out/try.c"
    "$out/try" "$out/musllinux-libraries/libtuffet.so.$major" \
        "$out/musllinux-libraries/libtuffet-chat.so.$major" \
        "$out/musllinux-libraries/libtuffet-quantize.so.$major"
}

for kind; do
    echo "== $kind"
    if [ "$kind" = manylinux ]; then
        build manylinux gcc ""
        glibc=$(readelf -V "$out"/manylinux-libraries/* | grep -o 'GLIBC_[0-9.]*' | sort -uV |
            tail -1 | sed 's/GLIBC_//; s/\./_/')
        pack manylinux "manylinux_${glibc}_$arch"
        try_wheel "$out/tuffet-$version-py3-none-manylinux_${glibc}_$arch.whl"
    else
        build musllinux musl-gcc "-isystem '$headers'"
        pack musllinux "musllinux_1_2_$arch" # Debian 12 has musl 1.2
        try_libraries
    fi
done
(cd "$out" && sha256sum -- *.whl)
