"""The packages of the OpenFlow libraries, and the extras of railweave that install them. Imports none."""

import sys
from importlib.util import find_spec

from railweave.framework.errors import NotInstalledError

PACKAGES = {"ryu": "ryu", "os-ken": "os_ken", "c65of": "c65of"}
EXTRAS = {"ryu": "emu", "os-ken": "os-ken", "c65of": "c65of"}


def is_installed(library: str) -> bool:
    return find_spec(PACKAGES[library]) is not None


def check_installed(library: str) -> None:
    """Raises NotInstalledError, which names the extra to install, if the library is missing."""
    package = PACKAGES[library]
    if not is_installed(library):
        raise NotInstalledError(
            f"{library} needs the Python package {package}, which is not installed. Install it: "
            f"{sys.executable} -m pip install 'railweave[{EXTRAS[library]}]'"
        )
