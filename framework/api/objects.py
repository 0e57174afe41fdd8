"""Plugins given to `rw.run` and its like as objects, in place of their names."""

import os
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path

from railweave.framework.errors import InputError
from railweave.framework.experiment.schema import KINDS
from railweave.framework.model import Fabric
from railweave.framework.registry import FILES, Registers, object_name

Objects = list[tuple[str, object]]
"""(kind, plugin)"""


def named(keys: Mapping[str, object], registers: Registers) -> tuple[dict[str, object], Registers, Objects]:
    """The keys with names in place of objects, registers that have these, and the objects that were new.

    The name of `MyRouter` is my-router; that of an equal object which is registered stays.

    >>> from railweave.framework.registry import load_plugins
    >>> registers = load_plugins()
    >>> named({"router": registers["router"]["spray"], "size": "1M"}, registers)[0]
    {'router': 'spray', 'size': '1M'}
    """
    keys, new = dict(keys), Objects()
    for kind in KINDS:
        choice = keys.get(kind)
        plugin = choice.get("name") if isinstance(choice, Mapping) else choice
        if plugin is None or isinstance(plugin, str | Fabric):
            continue
        name = next((name for name, registered in registers[kind].items() if _same(plugin, registered)), "")
        if not name:
            name = object_name(type(plugin))
            registers = registers.offering(kind, name, plugin)
            new.append((registers[kind].kind, plugin))
        keys[kind] = {**choice, "name": name} if isinstance(choice, Mapping) else name
    return keys, registers, new


def offer_to_labs(objects: Objects) -> None:
    """Labs and workers of this process load the classes of these objects from their files.

    Raises InputError for an object that they cannot make: of a class without a file, made with arguments, or
    changed since it was made.

    >>> try:
    ...     offer_to_labs([("router", object())])
    ... except rw.RailweaveError as error:
    ...     print(str(error).partition(" and ")[0])
    router: the lab is another process
    """
    for kind, plugin in objects:
        owner = type(plugin)
        module = sys.modules.get(owner.__module__)
        file = getattr(module, "__file__", None)
        why = ""
        if file is None or getattr(module, owner.__name__, None) is not owner:
            why = "it is defined in no file, or within a function. Define it at the top level of a file"
        elif not _like_new(plugin):
            why = f"it is not as {owner.__name__}() makes it. Make what differs parameters of the plugin"
        if why:
            raise InputError(f"{kind}: the lab is another process and cannot load {owner.__name__}: {why}.")
        entry = f"{Path(str(file)).absolute()}#{kind}={owner.__name__}"
        listed = [name for name in os.environ.get(FILES, "").split(os.pathsep) if name]
        os.environ[FILES] = os.pathsep.join(dict.fromkeys([*listed, entry]))


def _like_new(plugin: object) -> bool:
    try:
        fresh = type(plugin)()
    except TypeError:  # it takes arguments
        return False
    return _same(plugin, fresh)


def _same(one: object, other: object) -> bool:
    """Whether they are objects of one class with the same values; what cannot be compared is not."""
    if one is other or type(one) is not type(other):
        return one is other
    try:
        first, second = (pickle.dumps(getattr(plugin, "__dict__", {})) for plugin in (one, other))
    except (TypeError, AttributeError, pickle.PicklingError):
        return False
    return first == second
