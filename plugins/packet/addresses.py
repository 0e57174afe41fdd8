"""The state of the simulation as its machine code has it: one address, from which functions read where each
array is. numba would pass every array of layout.State as seven words to every function that is not inlined.
Also two instructions of the processor. Imported where numba is installed (machine.py)."""

import operator
from hashlib import sha256
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global
from numba.core.typing.templates import signature as signed
from numba.extending import intrinsic, lower_builtin, lower_getattr_generic, register_model

from railweave.plugins.packet.layout import CACHE_LINE

BYTE, WORD = ir.IntType(8), ir.IntType(64)
SLOT_BYTES = 16
"""Of an array: its address and its length."""


class Column(types.Type):  # type: ignore[misc]
    """An array of the state: the address of its slot."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"column({dtype})")


class StateAddress(types.Type):  # type: ignore[misc]
    """The address of the slots. `columns`: names and types of elements in their order."""

    def __init__(self, columns: tuple[tuple[str, Any], ...]) -> None:
        self.columns = columns
        super().__init__(name=f"state({sha256(repr(columns).encode()).hexdigest()[:8]})")


@register_model(Column)
@register_model(StateAddress)
class _Address(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, BYTE.as_pointer())


# -- types -----------------------------------------------------------------------------------------------
@infer_getattr
class _ColumnNames(AttributeTemplate):  # type: ignore[misc]
    key = StateAddress

    def generic_resolve(self, state: Any, name: str) -> Any:
        columns = dict(state.columns)
        return Column(columns[name]) if name in columns else None


@infer_global(operator.getitem)
class _Get(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, _: Any) -> Any:
        column, index = arguments
        if isinstance(column, Column) and isinstance(index, types.Integer):
            return signed(column.dtype, column, types.intp)
        return None


@infer_global(operator.setitem)
class _Set(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, _: Any) -> Any:
        column, index, _value = arguments
        if isinstance(column, Column) and isinstance(index, types.Integer):
            return signed(types.none, column, types.intp, column.dtype)
        return None


@infer_global(len)
class _Length(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, _: Any) -> Any:
        (column,) = arguments
        return signed(types.intp, column) if isinstance(column, Column) else None


# -- code ------------------------------------------------------------------------------------------------
@lower_getattr_generic(StateAddress)  # type: ignore[untyped-decorator]
def _slot(context: Any, builder: Any, state: Any, address: Any, name: str) -> Any:
    place = [column for column, _ in state.columns].index(name)
    return builder.gep(address, [WORD(place * SLOT_BYTES)])


def _element(context: Any, builder: Any, dtype: Any, slot: Any, index: Any) -> Any:
    """The address of an element of an array, which has no negative indices."""
    kind = context.get_data_type(dtype).as_pointer()
    first = builder.load(builder.bitcast(slot, kind.as_pointer()))
    return builder.gep(first, [index])


@lower_builtin(operator.getitem, Column, types.Integer)  # type: ignore[untyped-decorator]
def _get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    dtype = signature.args[0].dtype
    return context.unpack_value(builder, dtype, _element(context, builder, dtype, *arguments))


@lower_builtin(operator.setitem, Column, types.Integer, types.Any)  # type: ignore[untyped-decorator]
def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    slot, index, value = arguments
    dtype = signature.args[0].dtype
    context.pack_value(builder, dtype, value, _element(context, builder, dtype, slot, index))
    return context.get_dummy_value()


@lower_builtin(len, Column)  # type: ignore[untyped-decorator]
def _length(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    slot = builder.gep(arguments[0], [WORD(SLOT_BYTES // 2)])
    return builder.load(builder.bitcast(slot, WORD.as_pointer()))


@intrinsic  # type: ignore[untyped-decorator]
def addressed(typing: Any, state: Any) -> Any:
    """As loop.addressed."""
    names = state.instance_class._fields
    result = StateAddress(tuple((name, array.dtype) for name, array in zip(names, state.types, strict=True)))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        slots = cgutils.alloca_once(builder, ir.ArrayType(WORD, len(names) * SLOT_BYTES // 8))
        words = builder.bitcast(slots, WORD.as_pointer())
        for place, kind in enumerate(state.types):
            array = context.make_array(kind)(context, builder, builder.extract_value(arguments[0], place))
            address = builder.ptrtoint(array.data, WORD)
            for word, value in ((0, address), (1, array.nitems)):
                builder.store(value, builder.gep(words, [WORD(place * SLOT_BYTES // 8 + word)]))
        return builder.bitcast(slots, BYTE.as_pointer())

    return result(state), generate


@intrinsic  # type: ignore[untyped-decorator]
def fetch(typing: Any, column: Any, index: Any, line: Any) -> Any:
    """As calendar.fetch: an instruction that does nothing but that."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        slot, i, k = arguments
        record = builder.bitcast(_element(context, builder, column.dtype, slot, i), BYTE.as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        address = builder.gep(record, [builder.mul(k, WORD(CACHE_LINE))])
        builder.call(prefetch, [address, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(column, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing: Any, word: Any) -> Any:
    """As calendar.lowest_bit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.int64), generate
