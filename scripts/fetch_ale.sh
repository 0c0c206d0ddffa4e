#!/usr/bin/env bash
# Fetches the source package of ale-py (the Arcade Learning Environment, GPL-2.0-only, with its ROMs)
# and unpacks it. Usage: fetch_ale.sh [FOLDER]; does nothing if FOLDER is already filled.
#
# The emulator is built from it into a plugin of its own; nothing of it is copied into this project.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=fetch_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/fetch_common.sh"

version=0.12.1
sha256=c503d574c5983e1063b451201ccb779d935919c0f6bf116fb0f4f8aa4c86d249
folder=${1:-$ale_dir}

if [ -e "$folder/CMakeLists.txt" ]; then
  exit 0
fi

begin "$folder"

# pip asks the package's build backend for its metadata; without one at hand it would build CMake first.
"$python" -m pip install --quiet --disable-pip-version-check --target "$work/backend" scikit-build-core
PYTHONPATH=$work/backend download --no-build-isolation --no-binary ale-py "ale-py==$version"

archive=$(echo "$work"/*.tar.gz)
require_sum "$sha256" "$archive"

mkdir "$work/filled"
tar -xzf "$archive" -C "$work/filled" --strip-components=1
finish "$folder" CMakeLists.txt
echo "ale-py $version unpacked into $folder"
