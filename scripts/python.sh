#!/usr/bin/env bash
# python.sh: builds the Python package in build/release and installs it, with the command `shoal`, into the environment of
# the torch that it is built against.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

torch=$(torch_dir)
python=$(realpath --no-symlinks "$torch/../../../../bin/python")
"$python" -c 'import torch' 2>/dev/null || fail 2 "$torch is not in an environment of Python that can be installed into" \
  "Install by \`pip install --no-build-isolation .\` in an environment with torch $torch_version (docs/python.md)."
scripts/build.sh release shoal_python_package
"$python" -c 'import gymnasium, numpy' 2>/dev/null ||
  "$python" -m pip install --quiet --disable-pip-version-check 'gymnasium>=1.1' ||
  fail 1 "Gymnasium, on whose interfaces make_vec is built, could not be installed"
"$python" -c 'import scikit_build_core' 2>/dev/null ||
  "$python" -m pip install --quiet --disable-pip-version-check 'scikit-build-core>=0.11' ||
  fail 1 "scikit-build-core, which packs the wheel, could not be installed"
"$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --force-reinstall --no-deps \
  "--config-settings=cmake.define.SHOAL_PREBUILT=$root/build/release" --config-settings=build-dir=build/wheel .
echo "Python: \`import shoal\` in $python, and the command ${python%/*}/shoal"
