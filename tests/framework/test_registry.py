"""Registration goes through pluggy: its rules hold, the holder is named,
and a lost hook is refused by name."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from railweave.framework.errors import PluginError
from railweave.framework.hookspecs import hookimpl
from railweave.framework.registry import PLURALS, Registers

Register = Callable[[str, Any], None]


class Thing:
    """Has every member of every kind."""

    summary = "a thing"
    parameters = ()
    serves = requires = ()
    damped = lossless = same_result_everywhere = False

    def __getattr__(self, name: str) -> Any:
        return None


THING = Thing()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Writes the plugin module `strange` and imports it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> ModuleType:
        (tmp_path / "strange.py").write_text(text)
        return __import__("strange")

    yield write
    sys.modules.pop("strange", None)


IMPORT = "from railweave.framework.hookspecs import hookimpl\n"


@pytest.mark.parametrize("kind", PLURALS)
def test_every_register_hook_fills_its_register(kind: str, module: Callable[[str], ModuleType]) -> None:
    text = f"{IMPORT}\n@hookimpl\ndef register_{PLURALS[kind]}(register):\n    register('mine', THING)\n"
    plugin = module(text)
    plugin.THING = THING  # type: ignore[attr-defined]
    register = Registers([("strange", plugin)])[kind]
    assert register["mine"] is THING and register.holders["mine"] == "strange" and list(register) == ["mine"]


def test_an_implementation_may_take_no_argument() -> None:
    class Idle:
        @hookimpl
        def register_routers(self) -> None:
            calls.append("idle")

    calls: list[str] = []
    assert not Registers([("idle", Idle())])["router"] and calls == ["idle"]


def test_order_and_wrappers_are_pluggys() -> None:
    calls: list[str] = []

    def plugin(name: str, **options: bool) -> object:
        class Plugin:
            @hookimpl(**options)
            def register_routers(self, register: Register) -> None:
                calls.append(name)
                register(name, THING)

        return Plugin()

    class Wrapper:
        @hookimpl(wrapper=True)
        def register_routers(self) -> Iterator[None]:
            calls.append("(")
            yield
            calls.append(")")

    plugins = {"last": plugin("last", trylast=True), "plain": plugin("plain"), "wrapper": Wrapper(),
               "first": plugin("first", tryfirst=True)}  # fmt: skip
    register = Registers(plugins.items())["router"]
    assert "".join(calls) == "(first)(plain)(last)"
    assert {name: register.holders[name] for name in register} == {n: n for n in ("first", "last", "plain")}


def test_a_misspelt_hook_is_refused_with_the_nearest_name(module: Callable[[str], ModuleType]) -> None:
    plugin = module(f"{IMPORT}\n@hookimpl\ndef register_router(register):\n    pass\n")
    with pytest.raises(
        PluginError,
        match=r"plugin strange: there is no hook register_router, at .*strange\.py:3\. "
        r"Did you mean register_routers\?",
    ):
        Registers([("strange", plugin)])


def test_an_optional_hook_of_another_release_may_stay(module: Callable[[str], ModuleType]) -> None:
    Registers(
        [
            (
                "strange",
                module(f"{IMPORT}\n@hookimpl(optionalhook=True)\ndef register_cables(register):\n    pass\n"),
            )
        ]
    )


def test_a_hook_that_is_not_marked_is_refused(module: Callable[[str], ModuleType]) -> None:
    plugin = module("\ndef on_health(health):\n    pass\n")
    with pytest.raises(
        PluginError, match=r"plugin strange: on_health at .*strange\.py:2 is not marked.*@hookimpl"
    ):
        Registers([("strange", plugin)])


def test_an_unknown_argument_is_refused_with_those_there_are(module: Callable[[str], ModuleType]) -> None:
    plugin = module(f"{IMPORT}\n@hookimpl\ndef on_health(health, colour):\n    pass\n")
    with pytest.raises(
        PluginError,
        match=r"plugin strange: on_health at .*strange\.py:3: .*'colour'.*It may take: health, measurement\.",
    ):
        Registers([("strange", plugin)])


def test_what_fails_while_it_registers_is_named_with_file_and_line(
    module: Callable[[str], ModuleType],
) -> None:
    plugin = module(
        f"{IMPORT}from railweave.framework.parameters import Parameter\n"
        "@hookimpl\ndef register_routers(register):\n    Parameter('x', 1, 'metres').expects\n"
    )
    with pytest.raises(PluginError, match=r"plugin strange: register_routers fails .*\(.*strange\.py:5\)"):
        Registers([("strange", plugin)])


class Plain(Thing):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


UNFIT = {
    "class": (Thing, "is a class; register an instance, Thing()"),
    "empty": (
        Plain(),
        "lacks promises, routes, configured. Write them, or inherit railweave.framework.hookspecs.Router",
    ),
    "summary": (("summary", "two\nlines"), "has the summary 'two\\nlines': it takes one line of text"),
    "no summary": (("summary", None), "has the summary None"),
    "parameters": (("parameters", ["x"]), "has the parameters ['x']: it takes a tuple of Parameter"),
    "serves": (("serves", "ring"), "has serves = 'ring': it takes a tuple"),
    "damped": (("damped", None), "has damped = None: it takes True or False"),
    "chooser": (("chooser", 4), "has chooser = 4: it takes a text"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_an_object_that_does_not_fit_is_refused_with_its_place(name: str) -> None:
    thing, words = UNFIT[name]
    if isinstance(thing, tuple):
        thing = type("Thing", (Thing,), {thing[0]: thing[1]})()

    class Plugin:
        @hookimpl
        def register_routers(self, register: Register) -> None:
            register("mine", thing)

    with pytest.raises(PluginError) as refusal:
        Registers([("strange", Plugin())])
    assert str(refusal.value).startswith("plugin strange: router 'mine' (") and words in str(refusal.value)
    assert "test_registry" in str(refusal.value)


def test_a_name_that_no_option_can_carry_is_refused() -> None:
    class Plugin:
        @hookimpl
        def register_routers(self, register: Register) -> None:
            register("my router", THING)

    with pytest.raises(PluginError, match=r"router 'my router' .* has no name that options can carry"):
        Registers([("strange", Plugin())])


@pytest.mark.parametrize("wanted", ["1", ""])
def test_hooks_are_traced_where_it_is_asked_for(
    wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for every call: the hook, the plugin, its time; one that fails says so."""
    monkeypatch.setenv("RAILWEAVE_TRACE", wanted)

    class Plugin:
        @hookimpl
        def register_routers(self, register: Register) -> None:
            time.sleep(0.02)
            register("mine", THING)

        @hookimpl
        def register_engines(self, register: Register) -> None:
            raise ValueError("no engine today")

    with pytest.raises(PluginError, match="no engine today"):
        Registers([("strange", Plugin())])
    lines = capsys.readouterr().err.splitlines()
    if not wanted:
        assert lines == []
        return
    routers, engines = (
        next(line for line in lines if f"register_{kind}" in line) for kind in ("routers", "engines")
    )
    words = routers.split(": ")
    assert (
        words[:3] == ["RAILWEAVE_TRACE", "register_routers", "strange"] and float(words[3].split()[0]) >= 20
    )
    assert "fails: " in engines and "no engine today" in engines
