# Sourced by the scripts that fetch packages: an interpreter to do it with, a place to do it in, what has arrived.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# begin FOLDER: sets python, and work, a folder beside FOLDER that is gone afterwards.
begin() {
  python=$torch_venv/bin/python
  if [ ! -x "$python" ]; then python=python3; fi
  "$python" -m pip --version >/dev/null 2>&1 ||
    fail 1 "${0##*/}: $python has no pip. Run \`make setup\`, or install python3-pip."
  mkdir -p "$(dirname "$1")"
  work=$(mktemp -d "$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
}

# download ARGUMENT...: what `pip download` is told, into $work, without what it needs.
download() {
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$@"
}

# require_sum SHA256 FILE
require_sum() {
  echo "$1  $2" | sha256sum --check --quiet -
}

# finish FOLDER FILE: puts $work/filled, which holds FILE, where FOLDER is to be. A FOLDER without FILE is what an older
# version of a script or a broken disk left. When two do this at once, the second finds the work done.
finish() {
  if [ -e "$1" ] && [ ! -e "$1/$2" ]; then rm -rf "$1"; fi
  if ! mv -T "$work/filled" "$1" 2>/dev/null && [ ! -e "$1/$2" ]; then
    fail 1 "${0##*/}: cannot write $1"
  fi
}
