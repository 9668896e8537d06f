#!/bin/sh
# Unpacks the sources of packages of this Debian, with its patches:
# sh tools/scripts/source.sh FOLDER PACKAGE...
# The lists of packages are the script's own, in FOLDER: the system's stay as they are.
set -eu
install=$(dirname "$0")/install.sh
sh "$install" dpkg-dev
mkdir -p "$1/lists/partial"
cd "$1"
shift

# the places that the system takes its packages from
signed=/usr/share/keyrings/debian-archive-keyring.gpg
apt-get indextargets --format "deb-src [signed-by=$signed] \$(SITE) \$(RELEASE) \$(COMPONENT)" \
    "Created-By: Packages" | sort -u >deb-src.list
options="-o Dir::Etc::sourcelist=$PWD/deb-src.list -o Dir::Etc::sourceparts=/dev/null"
options="$options -o Dir::State::lists=$PWD/lists -o APT::Sandbox::User=root"
# shellcheck disable=SC2086 # several words
apt-get $options -qq update
# shellcheck disable=SC2086
apt-get $options -qq source "$@" >/dev/null
