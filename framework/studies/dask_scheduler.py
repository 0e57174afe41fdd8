"""A client of the Dask scheduler at an address (tcp://HOST:PORT, tls://...), or in a scheduler file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.framework.errors import InputError, MachineError, NotInstalledError

if TYPE_CHECKING:
    from distributed import Client


def connected(where: str, answers_s: float) -> "Client":
    """The client, once a scheduler has answered, within `answers_s`.

    Raises NotInstalledError without the extra `dask`; InputError for what is neither an address nor a
    scheduler file, or where Dask's configuration has no certificates; MachineError where nothing answers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise NotInstalledError(
            "--on needs Dask, which is not installed. `pip install 'railweave[dask]'` brings it."
        ) from None
    address = _of_file(where) if Path(where).is_file() else where
    _check(where, address)
    try:
        return Client(address, timeout=answers_s, set_as_default=False, name="railweave")
    except (OSError, ValueError, TypeError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise MachineError(
            f"--on {where}: no Dask scheduler answers there ({why}). Start one: `dask scheduler`."
        ) from None


def _of_file(where: str) -> str:
    """The address in a file that `dask scheduler --scheduler-file` writes."""
    try:
        address = json.loads(Path(where).read_bytes())["address"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        address = None
    if not isinstance(address, str):
        raise InputError(
            f"--on {where}: this file has no address of a scheduler. Give the one that `dask scheduler "
            "--scheduler-file FILE` writes."
        )
    return address


def _check(where: str, address: str) -> None:
    """What Dask finds out only after it has begun, and then takes half a minute to end."""
    from distributed.comm import parse_host_port, registry
    from distributed.security import Security

    scheme, separator, place = address.partition("://")
    try:
        parse_host_port(place)
    except ValueError:
        separator = ""
    if not separator or not place or scheme not in registry.backends:
        raise InputError(
            f"--on {where}: is neither an address such as tcp://HOST:8786 nor a scheduler file. Give one."
        )
    if scheme not in ("tls", "wss"):
        return
    try:
        context = Security().get_connection_args("client")["ssl_context"]
    except OSError as error:
        context, why = None, f"cannot be read ({error})"
    else:
        why = "are missing"
    if context is None:
        raise InputError(
            f"--on {where}: the certificates of the client {why}. Name them in Dask's configuration: "
            "distributed.comm.tls.ca-file, client.cert and client.key."
        )
