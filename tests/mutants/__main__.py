"""Mutation tests of the domain: its own unit tests must detect small changes. Run by `make mutants`.

mutmut creates the mutants in a copy and runs against each the tests that reach it: `tests/unit/test_<stem>.py` for each
`domain/<stem>.py`. At least MIN_KILLED of them must be killed, and survivors.toml must list each survivor with a
reason, by function and change, so that files can be renamed. Otherwise the exit code is 1.

No mutants are made of:

- decorators (`frozen`, `slots`): mypy checks immutability, and memory use is no rule;
- annotations and docstrings, which do nothing;
- names that are bound once when a module is loaded (enumeration values, field defaults, patterns): mutmut can't change
  them. The tests of each feature state those that the specification fixes.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIN_KILLED: Final = 0.95
"""Minimum share of killed mutants."""
ROOT: Final = Path(__file__).parents[2]
WORK: Final = ROOT / ".mutants"
SURVIVORS: Final = Path(__file__).with_name("survivors.toml")

# Derandomized and without deadlines: a busy machine must not kill a mutant.
_CONFIGURATION: Final = """
[tool.mutmut]
source_paths = ["domain"]
pytest_add_cli_args = ["--hypothesis-profile=ci", "-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = {tests}
use_git_change_detection = false
timeout_constant = 5.0
"""
_KILLED: Final = frozenset({1, 3})
_ENDLESS: Final = frozenset({24, 36, 152, -24, -9, 255})
"""Exit codes of mutants that used many times the processor time of the tests."""


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A mutant, identified independently of its file."""

    function: str
    was: str
    now: str


def prepare() -> None:
    """Copy the domain and its tests to mutmut's working folder."""
    shutil.rmtree(WORK, ignore_errors=True)
    for source in sorted((ROOT / "domain").rglob("*.py")):
        copy = WORK / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(with_open_properties(source.read_text()))
    for folder in ("tests", "tests/support", "tests/unit"):
        (WORK / folder).mkdir(exist_ok=True)
        for source in (each for each in (ROOT / folder).iterdir() if each.is_file()):
            shutil.copy(source, WORK / folder)
    tests = [f"tests/unit/test_{source.stem}.py" for source in (ROOT / "domain").glob("*.py")]
    chosen = sorted(test for test in tests if (ROOT / test).exists())
    project = (ROOT / "pyproject.toml").read_text()
    (WORK / "pyproject.toml").write_text(project + _CONFIGURATION.format(tests=json.dumps(chosen)))


def with_open_properties(source: str) -> str:
    """The module with each property created by a call after its function, because mutmut skips decorated functions."""
    lines = source.splitlines()
    functions = (
        each
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef) and [ast.unparse(d) for d in each.decorator_list] == ["property"]
    )
    for function in sorted(functions, key=lambda each: each.lineno, reverse=True):
        made = f"{' ' * function.col_offset}{function.name} = property({function.name})"
        lines.insert(function.end_lineno or function.lineno, made)
        del lines[function.decorator_list[0].lineno - 1]
    return "\n".join(lines) + "\n"


def results(stems: Sequence[str]) -> dict[str, int | None]:
    """Exit code of the tests by mutant name, of these modules or all."""
    codes: dict[str, int | None] = {}
    for file in (WORK / "mutants" / "domain").rglob("*.meta"):
        if stems and file.name.removesuffix(".py.meta") not in stems:
            continue
        codes |= json.loads(file.read_text())["exit_code_by_key"]
    return codes


def change_of(mutant: str) -> Change:
    """The change of a mutant, as mutmut shows it."""
    shown = subprocess.run(_mutmut("show", mutant), cwd=WORK, check=True, capture_output=True, text=True).stdout
    lines = [line for line in shown.splitlines() if not line.startswith(("---", "+++"))]
    was, now = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    own = mutant.rpartition(".")[2].rpartition("__mutmut_")[0]
    return Change(own.removeprefix("xǁ").replace("ǁ", ".") if "ǁ" in own else own.removeprefix("x_"), was, now)


def known_survivors() -> dict[Change, str]:
    """The reason of each listed survivor."""
    entries = tomllib.loads(SURVIVORS.read_text()).get("survivor", [])
    return {Change(each["function"], each["was"], each["now"]): each["reason"] for each in entries}


def findings(codes: dict[str, int | None], *, is_whole: bool) -> Iterator[str]:
    """Yield a message for each fault in the results, and print the share of killed mutants."""
    living = [mutant for mutant, code in codes.items() if code not in _KILLED | _ENDLESS]
    killed = len(codes) - len(living)
    share = killed / len(codes) if codes else 0.0
    endless = sum(code in _ENDLESS for code in codes.values())
    print(f"{killed} of {len(codes)} mutants killed ({share:.1%}), {endless} of them by exceeding the time limit.")  # noqa: T201
    if share < MIN_KILLED:
        yield f"Fewer than {MIN_KILLED:.0%} of the mutants are killed."
    known, living_changes = known_survivors(), sorted(map(change_of, living))
    for change in living_changes:
        if change not in known:
            yield f"Not killed and not listed in survivors.toml:\n{_entry(change)}"
    for change in known.keys() - set(living_changes) if is_whole else ():
        yield f"Killed: remove it from survivors.toml:\n{_entry(change)}"


def _entry(change: Change) -> str:
    fields = {"function": change.function, "was": change.was, "now": change.now}
    return "[[survivor]]\n" + "".join(f"{name} = {json.dumps(text)}\n" for name, text in fields.items())


def _mutmut(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("mutmut")), *arguments]


def main() -> int:
    """Create the mutants, run their tests, and report the survivors."""
    arguments = argparse.ArgumentParser(prog="make mutants")
    arguments.add_argument("stems", nargs="*", help="modules of the domain (default: all)")
    arguments.add_argument(
        "--children", type=int, default=os.cpu_count() or 1, help="number of mutants tested at a time"
    )
    arguments.add_argument("--report", action="store_true", help="report the last run without a new one")
    options = arguments.parse_args()
    if not options.report:
        prepare()
        names = [f"domain.{stem}.*" for stem in options.stems]
        subprocess.run(_mutmut("run", "--max-children", str(options.children), *names), cwd=WORK, check=True)
    faults = list(findings(results(options.stems), is_whole=not options.stems))
    for line in faults:
        print(line)  # noqa: T201
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
