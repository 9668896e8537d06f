#!/bin/sh
# Installs what is needed on Debian, builds build/demo/tools/tuffet, and runs it on the model that
# ships. Arguments go to `tuffet run`: sh tools/scripts/demo.sh -p "The old robot" --seed 7
set -eu
cd "$(dirname "$0")/../.."

sh tools/scripts/install.sh gcc libc6-dev meson ninja-build pkgconf libjansson-dev libedit-dev \
    libevent-dev libcurl4-openssl-dev libssl-dev ca-certificates
# Without dpkg-dev, meson would install libraries where Debian's linker looks for none.
sh tools/scripts/build.sh build/demo -Dtests=false -Dlibdir="lib/$(gcc -print-multiarch)" >&2
echo "the program is build/demo/tools/tuffet (try: build/demo/tools/tuffet demo); meson install" \
    "-C build/demo installs it" >&2
[ $# -gt 0 ] || set -- --echo -p "Once upon a time"
exec build/demo/tools/tuffet run models/demo/stories2M.gguf "$@"
