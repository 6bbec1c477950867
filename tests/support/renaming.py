"""A library with one of its names or texts changed, as a new version might have it."""

import importlib.util
import inspect
import re
import sys
from importlib import import_module
from types import ModuleType

import pytest


def rename(patch: pytest.MonkeyPatch, module: str, name: str) -> None:
    """Execute the source of a module with another name, and replace its definitions wherever they are imported."""
    old = import_module(module)
    source, count = re.subn(rf"\b{re.escape(name)}\b", "renamed", inspect.getsource(old))
    assert count, f"{module} has no {name}"
    new = _copy_of(old, source)
    replaced = {id(value): getattr(new, key) for key, value in vars(old).items() if _is_of(value, old, new, key)}
    for other in [each for each in list(sys.modules.values()) if isinstance(each, ModuleType)]:
        for key, value in list(vars(other).items()):
            if id(value) in replaced:
                patch.setattr(other, key, replaced[id(value)])


def loaded_anew(module: str) -> ModuleType:
    """A copy of one of our modules that imports the libraries in their current state."""
    ours = import_module(module)
    return _copy_of(ours, inspect.getsource(ours))


def _copy_of(module: ModuleType, source: str) -> ModuleType:
    assert module.__spec__ is not None
    copy = importlib.util.module_from_spec(module.__spec__)
    exec(compile(source, str(module.__file__), "exec"), vars(copy))  # noqa: S102 - the source of a library
    return copy


def _is_of(value: object, old: ModuleType, new: ModuleType, key: str) -> bool:
    return getattr(value, "__module__", None) == old.__name__ and hasattr(new, key)
