#!/usr/bin/env bash
# Fetches MuJoCo (Apache-2.0: its library and headers, out of the mujoco wheel) and Gymnasium's models for it (MIT, out
# of the gymnasium wheel). Usage: fetch_mujoco.sh [FOLDER]; does nothing if FOLDER is already filled, and puts there
#   include/mujoco/*.h  lib/libmujoco.so.3.3.7  models/*.xml  licences/
#
# Nothing of it is copied into this project. Later versions of the wheel keep the library elsewhere, and others than 3.3.7
# round differently.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=fetch_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/fetch_common.sh"

version=3.3.7
gymnasium=1.4.0
gymnasium_sha256=1cb947c59e7c72d8eabb2c2274c00cd20948e69f8452a9ef4092223be24fdf0e
folder=${1:-$mujoco_dir}

if [ -e "$folder/models/half_cheetah.xml" ]; then
  exit 0
fi

machine=$(uname -m)
case $machine in
  x86_64) sha256=9371506f0df2d82152685fc8d38465843abcea8d371745ea7c125001e8f3f2d8 ;;
  aarch64) sha256=9381bf5364eb2da86f0b1388c98b57e706123c8370660f977004fb5f94ef900f ;;
  *)
    fail 1 "fetch_mujoco.sh: there is no MuJoCo for $machine. Build without it: -DSHOAL_WITH_MUJOCO=OFF"
    ;;
esac

begin "$folder"

# The wheel of one Python, whichever runs here: only its library is used.
download --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 \
  --platform "manylinux_2_28_$machine" "mujoco==$version"
download --only-binary=:all: "gymnasium==$gymnasium"

for wheel in "$work"/mujoco-*.whl "$work"/gymnasium-*.whl; do
  case $wheel in */gymnasium-*) sha256=$gymnasium_sha256 ;; esac
  require_sum "$sha256" "$wheel"
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

finish "$folder" models/half_cheetah.xml
echo "mujoco $version unpacked into $folder"
