#!/bin/sh
# Fetches MuJoCo (Apache-2.0: its library and headers, out of the mujoco wheel) and Gymnasium's models for it (MIT, out
# of the gymnasium wheel). Usage: fetch_mujoco.sh [FOLDER]; does nothing if FOLDER is already filled, and puts there
#   include/mujoco/*.h  lib/libmujoco.so.3.3.7  models/*.xml  licences/
#
# Nothing of it is copied into this project. Later versions of the wheel keep the library elsewhere, and others than 3.3.7
# round differently.
set -eu

version=3.3.7
gymnasium=1.4.0
gymnasium_sha256=1cb947c59e7c72d8eabb2c2274c00cd20948e69f8452a9ef4092223be24fdf0e
deps=${SHOAL_DEPS:-$HOME/.cache/shoal}
folder=${1:-$deps/mujoco-$version}

if [ -e "$folder/models/half_cheetah.xml" ]; then
  exit 0
fi

machine=$(uname -m)
case $machine in
  x86_64) sha256=9371506f0df2d82152685fc8d38465843abcea8d371745ea7c125001e8f3f2d8 ;;
  aarch64) sha256=9381bf5364eb2da86f0b1388c98b57e706123c8370660f977004fb5f94ef900f ;;
  *)
    echo "fetch_mujoco.sh: there is no MuJoCo for $machine. Build without it: -DSHOAL_WITH_MUJOCO=OFF" >&2
    exit 1
    ;;
esac

python=$deps/venv-torch-2.11.0/bin/python
if [ ! -x "$python" ]; then
  python=python3
fi
if ! "$python" -m pip --version > /dev/null 2>&1; then
  echo "fetch_mujoco.sh: $python has no pip. Run \`make setup\`, or install python3-pip." >&2
  exit 1
fi

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The wheel of one Python, whichever runs here: only its library is used.
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
  --implementation cp --abi cp311 --platform "manylinux_2_28_$machine" --dest "$work" "mujoco==$version"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work" \
  "gymnasium==$gymnasium"

for wheel in "$work"/mujoco-*.whl "$work"/gymnasium-*.whl; do
  case $wheel in */gymnasium-*) sha256=$gymnasium_sha256 ;; esac
  echo "$sha256  $wheel" | sha256sum --check --quiet -
  "$python" -m zipfile -e "$wheel" "$work/wheels"
done

filled=$work/filled
mkdir -p "$filled/include" "$filled/lib" "$filled/licences"
mv "$work/wheels/mujoco/include/mujoco" "$filled/include/"
mv "$work/wheels/mujoco/libmujoco.so.$version" "$filled/lib/"
mv "$work/wheels/gymnasium/envs/mujoco/assets" "$filled/models"
for package in "mujoco-$version" "gymnasium-$gymnasium"; do
  mv "$work/wheels/$package.dist-info/licenses" "$filled/licences/$package"
done

# A folder without models is what an older version of this script or a broken disk left. When two do this at once, the
# second finds the work done.
if [ -e "$folder" ] && [ ! -e "$folder/models/half_cheetah.xml" ]; then rm -rf "$folder"; fi
if ! mv -T "$filled" "$folder" 2> /dev/null && [ ! -e "$folder/models/half_cheetah.xml" ]; then
  echo "fetch_mujoco.sh: cannot write $folder" >&2
  exit 1
fi
echo "mujoco $version unpacked into $folder"
