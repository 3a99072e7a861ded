"""Kernels as JSON: the fields of a kernel under the name of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regretless.errors import ConfigError
from regretless.kernels.base import Kernel
from regretless.kernels.choices import Hamming
from regretless.kernels.composite import Product, Sum
from regretless.kernels.radial import SE, Matern, Rippled

_KERNEL_TYPES: dict[str, type[Kernel]] = {
    kind.__name__: kind for kind in (SE, Matern, Rippled, Hamming, Product, Sum)
}


def kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    """The fields of a kernel under the name of its class."""
    name = type(kernel).__name__
    if _KERNEL_TYPES.get(name) is not type(kernel):
        raise ConfigError(f"model: a kernel of one's own can't be written as JSON, got {kernel!r}")
    own = dict(vars(kernel))
    if "parts" in own:
        own["parts"] = [kernel_to_json(part) for part in own["parts"]]
    return {"name": name} | own


def kernel_from_json(data: Mapping[str, Any]) -> Kernel:
    own = _with_tuples(data)
    if "parts" in own:
        own["parts"] = tuple(kernel_from_json(part) for part in own["parts"])
    name = own.pop("name")
    if name not in _KERNEL_TYPES:
        raise ConfigError(f"kernel: need one of {', '.join(_KERNEL_TYPES)}, got {name!r}")
    return _KERNEL_TYPES[name](**own)


def _with_tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
