"""Tensors in encrypted safetensors files.

    tensors = evener.safetensors.load("model.safetensors.enc", keys=key)

Needs NumPy, and PyTorch for its tensors.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from . import _evener
from ._errors import EvenerError, naming
from ._files import refuse_url
from ._reader import EncryptedFile, open

if TYPE_CHECKING:
    from ._evener import KeyRing
    from ._files import Path

__all__ = ["MalformedError", "load", "load_numpy", "save"]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class MalformedError(EvenerError):
    """The content of a file is authentic, but not what safetensors' format demands."""


def load_numpy(path: Path, *, keys: KeyRing) -> dict[str, Array]:
    """Loads the tensors of a file as NumPy arrays. A tensor that NumPy has no type for, such as
    BF16, needs the package ml_dtypes.

    Each is decrypted straight into its array, on all cores.

    Raises a `DamagedError` if the file was changed, and a `MalformedError` if it is authentic but
    not safetensors.
    """
    return {
        tensor.name: data.view(_numpy_type(tensor)).reshape(tensor.shape)
        for tensor, data in _load(path, keys)
    }


def load(path: Path, *, keys: KeyRing, device: Any = "cpu") -> dict[str, Any]:
    """Loads the tensors of a file as PyTorch tensors on a device, otherwise like `load_numpy`."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    def made(tensor: Tensor, data: Array) -> Any:
        kind = getattr(torch, _TYPES[tensor.dtype].torch, None)
        if kind is None:
            raise MalformedError(f"PyTorch has no type for {tensor}")
        return torch.from_numpy(data).view(kind).reshape(tensor.shape).to(device)

    return {tensor.name: made(tensor, data) for tensor, data in _load(path, keys)}


def save(
    tensors: Mapping[str, Any],
    path: Path,
    *,
    keys: KeyRing,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> None:
    """Encrypts NumPy arrays or PyTorch tensors into a safetensors file, on all cores.

    Raises an `ExistsError` if the file exists, unless `overwrite` is true. The file gets its name
    when it is complete.
    """
    refuse_url(path)
    arrays = {name: _bytes_of(name, tensor) for name, tensor in tensors.items()}
    # Readers map files into memory: the widest types come first, so all are aligned.
    names = sorted(arrays, key=lambda name: (-_TYPES[arrays[name][0]].size, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        dtype, shape, data = arrays[name]
        begin, end = end, end + data.nbytes
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pieces: list[Any] = [len(text).to_bytes(8, "little") + text]
    pieces += [arrays[name][2] for name in names]
    _evener.seal_pieces(pieces, path, keys, {"overwrite": overwrite})


class Type(NamedTuple):
    """A type of safetensors: its size in bytes and its names in the libraries."""

    size: int
    numpy: str
    torch: str


class Tensor(NamedTuple):
    """An entry of a file's header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.dtype} of the tensor {self.name!r}"


_TYPES = {
    "BOOL": Type(1, "bool", "bool"),
    "U8": Type(1, "uint8", "uint8"),
    "I8": Type(1, "int8", "int8"),
    "F8_E5M2": Type(1, "float8_e5m2", "float8_e5m2"),
    "F8_E4M3": Type(1, "float8_e4m3fn", "float8_e4m3fn"),
    "F8_E8M0": Type(1, "float8_e8m0fnu", "float8_e8m0fnu"),
    "U16": Type(2, "uint16", "uint16"),
    "I16": Type(2, "int16", "int16"),
    "F16": Type(2, "float16", "float16"),
    "BF16": Type(2, "bfloat16", "bfloat16"),
    "U32": Type(4, "uint32", "uint32"),
    "I32": Type(4, "int32", "int32"),
    "F32": Type(4, "float32", "float32"),
    "U64": Type(8, "uint64", "uint64"),
    "I64": Type(8, "int64", "int64"),
    "F64": Type(8, "float64", "float64"),
    "C64": Type(8, "complex64", "complex64"),
}

_LONGEST_HEADER = 100_000_000

# As in NumPy.
_MOST_DIMENSIONS = 64


def _load(path: Path, keys: KeyRing) -> list[tuple[Tensor, Array]]:
    loaded = []
    with naming(os.fsdecode(path)), open(path, keys=keys) as file:
        start, tensors = _header(file)
        for tensor in tensors:
            data = np.empty(tensor.end - tensor.begin, np.uint8)
            file._reader.read_into(data, start + tensor.begin)
            loaded.append((tensor, data))
    return loaded


def _header(file: EncryptedFile) -> tuple[int, list[Tensor]]:
    """The place of the first tensor's bytes, and the tensors in their order."""
    length = int.from_bytes(file.read_at(0, 8), "little")
    if file.size < 8 or length > min(file.size - 8, _LONGEST_HEADER):
        raise MalformedError("the file has no header, or one that is too long")
    text = file.read_at(8, length)
    try:
        if not text.startswith(b"{"):
            raise ValueError("no object")
        header = json.loads(text.decode(), object_pairs_hook=_without_twins)
        metadata = header.pop("__metadata__", None)
        if metadata is not None and not _are_strings(metadata):
            raise ValueError("its metadata must be strings")
        tensors = [_tensor(name, entry) for name, entry in header.items()]
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"the header is not valid safetensors: {error}") from error
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    end = 0
    for tensor in tensors:
        if tensor.begin != end:
            raise MalformedError(f"there is a gap or an overlap before the tensor {tensor.name!r}")
        end = tensor.end
    if end != file.size - 8 - length:
        raise MalformedError(f"the tensors have {end} bytes, the file {file.size - 8 - length}")
    return 8 + length, tensors


def _are_strings(metadata: Any) -> bool:
    return type(metadata) is dict and all(type(it) is str for it in metadata.values())


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a name occurs twice")
    return entries


def _tensor(name: str, entry: Any) -> Tensor:
    name.encode()  # Raises ValueError for half of a surrogate pair.
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [begin, end]}:
            numbers = [*shape, begin, end]
        case _:
            raise ValueError(f"{name!r} needs dtype, shape and two data_offsets")
    # A bool is an int, too.
    if any(type(number) is not int or not 0 <= number < 1 << 63 for number in numbers):
        raise ValueError(f"{name!r} has no valid shape and offsets")
    if dtype not in _TYPES:
        raise ValueError(f"{name!r} has an unknown type, {dtype!r}")
    # NumPy multiplies the others even if one is 0.
    if len(shape) > _MOST_DIMENSIONS or math.prod(filter(None, shape)) >= 1 << 60:
        raise ValueError(f"{name!r} has a shape that no array can have")
    if end - begin != math.prod(shape) * _TYPES[dtype].size:
        raise ValueError(f"{name!r} has {end - begin} bytes, which do not fit its shape")
    return Tensor(name, dtype, tuple(shape), begin, end)


def _numpy_type(tensor: Tensor) -> np.dtype[Any]:
    name = _TYPES[tensor.dtype].numpy
    with contextlib.suppress(ImportError):
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    try:
        return np.dtype(name)
    except TypeError:
        raise MalformedError(
            f"NumPy has no type for {tensor}; install ml_dtypes, or use `load`"
        ) from None


def _bytes_of(name: str, tensor: Any) -> tuple[str, list[int], Array]:
    """The type, the shape and the bytes of a tensor, copied only if they are not contiguous."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a tensor must be a str, not {name!r}")
    if name == "__metadata__":
        raise ValueError("no tensor can have the name __metadata__")
    is_array = isinstance(tensor, np.ndarray)
    if not is_array and not hasattr(tensor, "detach"):
        raise TypeError(f"{name!r} is neither a NumPy array nor a tensor of PyTorch")
    kind = tensor.dtype.name if is_array else str(tensor.dtype).removeprefix("torch.")
    known = (
        it for it, names in _TYPES.items() if kind == (names.numpy if is_array else names.torch)
    )
    dtype = next(known, None)
    if dtype is None:
        raise ValueError(f"safetensors has no type for {name!r}, which is {kind}")
    if is_array:
        if tensor.dtype.byteorder == ">":
            raise ValueError(f"{name!r} is not little-endian")
        data = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    else:
        import torch

        data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return dtype, [*tensor.shape], data
