"""Write settings.md anew, from the models that settings are read by. Run by `make docs`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from plaudit.config import Settings

FILE: Final = Path(__file__).with_name("settings.md")

_HEAD: Final = """# Settings

Environment variables, or lines of a file `.env` in the working directory; the environment takes precedence.
`plaudit config` shows the effective values. Lists and objects are JSON. `make docs` writes this page.
"""
_TABLE: Final = "| Variable | Default | |\n|---|---|---|"


def settings_page() -> str:
    """The page."""
    plain, groups = [], []
    for name, field in Settings.model_fields.items():
        if _model(field) is None:
            plain.append(_row(f"PLAUDIT_{name.upper()}", field))
        else:
            groups.append((name, field))
    parts = [_HEAD, "## General\n", _TABLE, *plain]
    for name, field in groups:
        model = _model(field)
        if model is not None:
            title = name.replace("_", " ").capitalize()
            about = " ".join((model.__doc__ or "").split())
            parts += [f"\n## {title}\n", about, "", _TABLE, *_rows(model, f"PLAUDIT_{name.upper()}__")]
    return "\n".join(parts) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = _model(field)
        if inner is None:
            yield _row(prefix + name.upper(), field)
        else:
            yield from _rows(inner, f"{prefix}{name.upper()}__")


def _model(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _row(variable: str, field: FieldInfo) -> str:
    said = [field.description] if field.description else []
    if "SecretStr" in repr(field.annotation):
        said.append("A secret")
    return f"| `{variable}` | {_default(field.default)} | {'. '.join(said).replace('|', chr(92) + '|')} |"


def _default(value: Any) -> str:
    match value:
        case None | SecretStr():
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case tuple():
            listed = ", ".join(f'"{each}"' for each in value)
            return f"`[{listed}]`"
        case _:
            return f"`{value}`"


if __name__ == "__main__":
    FILE.write_text(settings_page())
