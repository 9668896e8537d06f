#!/bin/sh
# Installs Debian packages that are missing: sh tools/scripts/install.sh PACKAGE...
# Uses sudo only if a package is missing.
set -eu

missing=
for package; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

root=
[ "$(id -u)" = 0 ] || root=sudo
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
# shellcheck disable=SC2086 # one word for each package
$root apt-get install -y -qq --no-install-recommends $missing >/dev/null
