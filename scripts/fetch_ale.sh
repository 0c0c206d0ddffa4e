#!/bin/sh
# Fetches the source package of ale-py (the Arcade Learning Environment, GPL-2.0-only, with its ROMs)
# and unpacks it. Usage: fetch_ale.sh [FOLDER]; does nothing if FOLDER is already filled.
#
# The emulator is built from it into a plugin of its own; nothing of it is copied into this project.
set -eu

version=0.12.1
sha256=c503d574c5983e1063b451201ccb779d935919c0f6bf116fb0f4f8aa4c86d249
deps=${SHOAL_DEPS:-$HOME/.cache/shoal}
folder=${1:-$deps/ale-$version}

if [ -e "$folder/CMakeLists.txt" ]; then
  exit 0
fi

python=$deps/venv-torch-2.11.0/bin/python
if [ ! -x "$python" ]; then
  python=python3
fi
if ! "$python" -m pip --version > /dev/null 2>&1; then
  echo "fetch_ale.sh: $python has no pip. Run \`make setup\`, or install python3-pip." >&2
  exit 1
fi

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT

# pip asks the package's build backend for its metadata; without one at hand it would build CMake first.
"$python" -m pip install --quiet --disable-pip-version-check --target "$work/backend" scikit-build-core
PYTHONPATH=$work/backend "$python" -m pip download --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --no-binary ale-py --dest "$work" "ale-py==$version"

archive=$(echo "$work"/*.tar.gz)
echo "$sha256  $archive" | sha256sum --check --quiet -

mkdir "$work/unpacked"
tar -xzf "$archive" -C "$work/unpacked" --strip-components=1
rm -rf "$folder"
mv "$work/unpacked" "$folder"
echo "ale-py $version unpacked into $folder"
