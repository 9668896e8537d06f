#!/bin/sh
# Builds a static program with musl, which needs nothing of the Linux that runs it, and packs it
# with the model that ships: sh tools/scripts/static.sh [x86_64|aarch64|armhf]... Makes
# build/static/tuffet-VERSION-ARCH.tar.gz, with a list of the linked software. Unpacked into an
# empty root, it must tell the story that the other architectures tell, and serve. Needs Debian on
# x86-64, and root. jansson and libevent are built from Debian's sources, since Debian has them for
# glibc alone. The program lacks libedit: tuffet chat has no history of lines.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- x86_64 aarch64 armhf
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
out=$PWD/build/static
mkdir -p "$out"
sh tools/scripts/install.sh gcc libc6-dev meson ninja-build pkgconf cmake curl musl-tools \
    linux-libc-dev binutils python3

rm -rf "$out/sources"
sh tools/scripts/source.sh "$out/sources" jansson libevent

# names ARCH: sets gcc, musl, loader, debian, family, cpu, emulator.
names() {
    gcc=$1-linux-gnu-gcc musl=$1-linux-musl loader=$1 debian=$1 family=$1 cpu=$1 emulator=qemu-$1
    case $1 in
    x86_64) gcc=gcc emulator= ;;
    aarch64) debian=arm64 ;;
    armhf)
        gcc=arm-linux-gnueabihf-gcc musl=arm-linux-musleabihf family=arm cpu=cortex-a7
        emulator=qemu-arm
        ;;
    *)
        echo "static.sh: no architecture $1" >&2
        exit 2
        ;;
    esac
}

# Sets specs, headers: Debian's musl-gcc is gcc with a file of specs, which leads from the
# headers and libraries of glibc to those of musl. gcc for ARM takes the same file with other
# folders.
compiler() {
    [ -z "$emulator" ] || {
        sh tools/scripts/install.sh "gcc-${gcc%-gcc}" "linux-libc-dev-$debian-cross" qemu-user
        sh tools/scripts/install.sh --architecture "$debian" "musl-dev:$debian"
    }
    specs=$out/$1.specs
    sed "s/x86_64-linux-musl/$musl/g; s/ld-musl-x86_64/ld-musl-$loader/" \
        /usr/lib/x86_64-linux-musl/musl-gcc.specs >"$specs"
    headers=$out/$1-headers # musl has none of Linux
    mkdir -p "$headers"
    for name in linux asm asm-generic; do
        for from in "/usr/${gcc%-gcc}/include" /usr/include "/usr/include/$1-linux-gnu"; do
            [ ! -d "$from/$name" ] || ln -sfn "$from/$name" "$headers/$name"
        done
    done
}

# build_library ARCH FOLDER OPTION...: into $out/ARCH-libraries.
build_library() {
    (
        folder=$out/$1-${2##*/}
        rm -rf "$folder"
        arch=$1 source=$2
        shift 2
        cmake -S "$source" -B "$folder" -G Ninja -Wno-dev -DCMAKE_SYSTEM_NAME=Linux \
            -DCMAKE_SYSTEM_PROCESSOR="$arch" -DCMAKE_C_COMPILER="$gcc" \
            -DCMAKE_C_FLAGS="-specs '$specs' -isystem '$headers' '-ffile-prefix-map=$out=.'" \
            -DCMAKE_EXE_LINKER_FLAGS=-static -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_INSTALL_PREFIX="$out/$arch-libraries" -DCMAKE_INSTALL_LIBDIR=lib "$@"
        ninja -C "$folder" install
    ) >"$out/$1-${2##*/}.log" 2>&1 || {
        tail -20 "$out/$1-${2##*/}.log"
        exit 1
    }
}

# build ARCH: the program, $out/ARCH/tools/tuffet.
build() {
    build_library "$1" "$out"/sources/jansson-2.* -DJANSSON_BUILD_DOCS=OFF \
        -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
    build_library "$1" "$out"/sources/libevent-2.* -DEVENT__LIBRARY_TYPE=STATIC \
        -DEVENT__DISABLE_OPENSSL=ON -DEVENT__DISABLE_TESTS=ON -DEVENT__DISABLE_SAMPLES=ON \
        -DEVENT__DISABLE_BENCHMARK=ON
    cat >"$out/$1.ini" <<END
[binaries]
c = ['$gcc', '-specs', '$specs']
strip = '${gcc%gcc}strip'
pkgconfig = 'pkg-config'
$([ -z "$emulator" ] || echo "exe_wrapper = ['$emulator']")

[properties]
pkg_config_libdir = '$out/$1-libraries/lib/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = '$family'
cpu = '$cpu'
endian = 'little'
END
    rm -rf "${out:?}/$1"
    meson setup "$out/$1" --werror --cross-file "$out/$1.ini" -Dtests=false -Dthreads=posix \
        -Djansson=enabled -Dlibevent=enabled -Dlibcurl=disabled -Dlibedit=disabled \
        -Ddefault_library=static -Dprefer_static=true \
        -Dc_args="-isystem '$headers' '-ffile-prefix-map=$PWD=.'" \
        -Dc_link_args=-static >"$out/$1.log"
    ninja -C "$out/$1" --quiet tools/tuffet
}

# pack ARCH: the same bytes from the same sources.
pack() {
    name=tuffet-$version-$1
    rm -rf "${out:?}/$name"
    mkdir -p "$out/$name/licenses"
    cp LICENSE models/demo/stories2M.gguf tools/scripts/board.sh "$out/$name"
    cp "$out"/sources/jansson-2.*/LICENSE "$out/$name/licenses/jansson"
    cp "$out"/sources/libevent-2.*/LICENSE "$out/$name/licenses/libevent"
    cp /usr/share/doc/musl-dev/copyright "$out/$name/licenses/musl"
    "${gcc%gcc}strip" -o "$out/$name/tuffet" "$out/$1/tools/tuffet"
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH-0} python3 tools/scripts/sbom.py "$out/$1" tools/tuffet \
        "$out/$name/tuffet.spdx.json" "$out/$name/tuffet"
    tar -C "$out" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go=rX \
        -c "$name" |
        gzip -n9 >"$out/$name.tar.gz"
}

# try ARCH: in a root that has nothing but the archive's files; under qemu, in its folder.
try() {
    rm -rf "$out/root"
    mkdir "$out/root"
    tar -C "$out/root" --strip-components=1 -xf "$out/$name.tar.gz"
    if readelf --program-headers "$out/root/tuffet" | grep -q INTERP; then
        echo "static.sh: the program needs a dynamic linker" >&2
        exit 1
    fi
    story=$out/$1.story
    set -- chroot "$out/root" /tuffet
    [ -z "$emulator" ] || set -- "$emulator" "$out/root/tuffet"
    "$@" --version
    "$@" run --temp 0 </dev/null >"$story"
    model=$([ -z "$emulator" ] || echo "$out/root")/stories2M.gguf
    port=$(python3 -c 'import socket as s; print(s.create_server(("", 0)).getsockname()[1])')
    "$@" serve "$model" --port "$port" 2>/dev/null &
    server=$!
    trap 'kill $server' EXIT
    curl -fs --retry 20 --retry-connrefused --retry-delay 1 -d '{"prompt": "", "temperature": 0}' \
        "localhost:$port/v1/completions" | grep -o '"text": *"[^"]*"'
    kill $server
    trap - EXIT
    rm -rf "$out/root"
}

for arch; do
    echo "== $arch"
    names "$arch"
    compiler "$arch"
    build "$arch"
    pack "$arch"
    try "$arch"
    cmp "$out/$arch.story" "$out/$1.story"
    du -b "$out/$name/tuffet" "$out/$name.tar.gz"
    sha256sum "$out/$name.tar.gz"
done
head -c 200 "$out/$1.story"
echo
