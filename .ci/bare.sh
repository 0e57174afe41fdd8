#!/bin/sh
# Install a wheel or a source distribution into a new environment that has nothing else, and run it there.
#
#   .ci/bare.sh PYTHON ARCHIVE    such as: .ci/bare.sh python3.13 dist/railweave-0.1.0-py3-none-any.whl
#
# Ends with 0 if the packages that were installed agree with each other, the command gives the version of the
# archive's name, and a computed run passes its checks and takes the time of its closed form.
set -eu
[ $# = 2 ] && [ -f "$2" ] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
archive=$(realpath "$2")
version=$(basename "$archive" .tar.gz | cut -d- -f2)
python=$(command -v "$1") || { echo "$1: no such Python. Name an interpreter, such as python3.13." >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH
"$python" -m venv "$work/bare"
cd "$work" # out of sight of a checkout
"$work/bare/bin/pip" install --quiet "$archive"
"$work/bare/bin/pip" check
"$work/bare/bin/railweave" --version | grep -F "$version"
"$work/bare/bin/railweave" run --engine fluid --fault none --out "$work/run" >"$work/table" ||
    { cat "$work/table"; exit 1; }
"$work/bare/bin/python" - "$work/run/result.json" <<'END'
import json, pathlib, sys

result = json.loads(pathlib.Path(sys.argv[1]).read_text())
ratios = [row["ratio_to_model"] for row in result["rows"]]
verdict, version = result["fidelity"]["verdict"], sys.version.split()[0]
print(f"Python {version}: verdict {verdict}, {len(ratios)} rows of the result, {max(ratios):.2f} of the closed form")
sys.exit(verdict != "pass" or not all(0.99 <= ratio <= 1.01 for ratio in ratios))
END
