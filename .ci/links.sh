#!/bin/sh
# Repair .links/railweave, the import package: symbolic links to the source folders. A checkout made without symbolic
# links (git on Windows, some archivers) has files or copies in their place. In a source distribution the folder holds
# the sources themselves, which stay.
set -eu
cd "$(dirname "$0")/.."
for source in framework plugins topologies controllers traffic tests/bench framework/__init__.py framework/py.typed; do
    link=.links/railweave/${source##*/}
    if [ -e "$source" ] && [ ! -L "$link" ]; then
        mkdir -p .links/railweave
        rm -rf "$link"
        ln -s "../../$source" "$link"
    fi
done
