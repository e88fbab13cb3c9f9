"""The house style, as far as a program can check it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "heedful"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# What each part of the package may import. Reading, tokens and batches; layers and models; and
# metrics are three legs on the same ground that never import each other. They meet in what comes
# after them, where each part may import every one before it.
GROUND = {
    "errors": set[str](),
    "files": {"errors"},
    "locks": {"errors", "files"},
    "extras": {"errors"},
    "device_transfer": set[str](),
    "derivatives": set[str](),
    "cancellation": set[str](),
    "arguments": {"errors"},
    "spreadsheets": set[str](),
    "protobuf": set[str](),
    "sources": {"errors", "files", "extras"},
    "scripts": set(),
    "pages": {"files"},
}
LEGS = {
    "settings": {"errors"},
    "reading": {*GROUND, "settings"},
    "tokens": set(GROUND),
    "images": set(GROUND),
    "batches": {*GROUND, "settings", "reading", "tokens", "images"},
    "layers": set(GROUND),
    "losses": {*GROUND, "layers"},
    "decoding": set(GROUND),
    "models": {*GROUND, "layers", "losses", "decoding"},
    "compiled": {*GROUND, "layers", "losses", "decoding", "models"},
    "metrics": set(GROUND),
}
MEETING = (
    "readers",
    "checkpoints",
    "interop",
    "item_results",
    "explanation_target",
    "distillation",
    "task",
    "training",
    "tasks",
    "answer_options",
    "parallel_batches",
    "predictor",
    "evaluation",
    "explanations",
    "reports",
    "serving",
    "doctor",
    "commands",
    "__init__",  # the public names, imported when they are first used
    "cli",
    "__main__",
)
MAY_IMPORT = {
    **GROUND,
    **LEGS,
    **{part: {*GROUND, *LEGS, *MEETING[:place]} for place, part in enumerate(MEETING)},
}


def _part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported_parts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports inside the package are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root, _, rest = name.partition(".")
            if root == "heedful" and rest != "__version__":
                yield rest.split(".")[0] or "__init__"


def _names(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=_names)
def test_imports_follow_the_flow_of_the_data(path: Path) -> None:
    part = _part(path)
    assert part in MAY_IMPORT, f"say in MAY_IMPORT what {part!r} may import"
    wrong = set(_imported_parts(ast.parse(path.read_text()))) - MAY_IMPORT[part] - {part}
    assert not wrong, f"{_names(path)} may not import {sorted(wrong)}"


UNSAFE = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


def _catches_everything(caught: ast.expr | None) -> bool:
    return caught is None or any(
        isinstance(node, ast.Name) and node.id in ("Exception", "BaseException")
        for node in ast.walk(caught)
    )


def _is_typed(keywords: ast.arg) -> bool:
    """Return whether ``**keywords`` is typed: ``Unpack[...]`` of a typed dict, or ``P.kwargs``."""
    match keywords.annotation:
        case ast.Subscript(value=ast.Name(id="Unpack")) | ast.Attribute(attr="kwargs"):
            return True
    return False


def _broken_rules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', '?')}"
        match node:
            case (
                ast.FunctionDef(name=name, args=given) | ast.AsyncFunctionDef(name=name, args=given)
            ) if given.kwarg and not _is_typed(given.kwarg) and name not in ("__new__", "__call__"):
                # `__init__` is given the same as `__new__`, and a model's `forward` the same as
                # `__call__`; they refuse what is misspelt.
                yield f"{where}: **{given.kwarg.arg} would swallow a misspelt keyword"
            case ast.ExceptHandler(type=caught, body=[*_, last]) if _catches_everything(
                caught
            ) and not isinstance(last, ast.Raise):
                yield f"{where}: catches everything"
            case ast.Import(names=names) if any(n.name.split(".")[0] in UNSAFE for n in names):
                yield f"{where}: imports what runs or loads code"
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in UNSAFE:
                yield f"{where}: imports what runs or loads code"
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                yield f"{where}: {name} runs what it is given"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load")) if not any(
                keyword.arg == "weights_only"
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value is True
                for keyword in node.keywords
            ):
                yield f"{where}: torch.load without weights_only=True runs what a pickle says"


@pytest.mark.parametrize("path", SOURCES, ids=_names)
def test_source_keeps_the_rules(path: Path) -> None:
    assert list(_broken_rules(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(**options): pass",
        "class A:\n    async def f(self, **options): pass",
        "try: pass\nexcept: pass",
        "try: pass\nexcept Exception: pass",
        "try: pass\nexcept (OSError, Exception) as error: pass",
        "import pickle",
        "from marshal import loads",
        "eval('1')",
        "torch.load('weights.bin')",
        "torch.load('weights.bin', weights_only=False)",
    ],
)
def test_the_rules_notice(source: str) -> None:
    assert len(list(_broken_rules(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "try: pass\nexcept BaseException:\n    clean()\n    raise",
        "try: pass\nexcept (ValueError, OSError): pass",
        "torch.load('weights.bin', weights_only=True)",
        "model.eval()",
        "f(**record)",
        "def f(**options: Unpack[Options]): pass",
        "class A:\n    def __new__(cls, **options): pass",
    ],
)
def test_the_rules_let_good_code_pass(source: str) -> None:
    assert list(_broken_rules(ast.parse(source))) == []


@pytest.mark.parametrize("path", SOURCES, ids=_names)
def test_files_have_a_subject_and_a_readable_size(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "helper", "misc", "common", "core", "base"}
    assert len(path.read_text().splitlines()) < 450


MOST_LINES, MOST_ARGUMENTS = 50, 12
"""Of a function without its docstring, and of a constructor beside ``self``: CONTRIBUTING."""


def _too_large(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        lines = 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1
        if lines > MOST_LINES:
            yield f"line {node.lineno}: {node.name} has {lines} lines"
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if node.name == "__init__" and len(arguments) - 1 > MOST_ARGUMENTS:
            yield f"line {node.lineno}: a constructor of {len(arguments) - 1} arguments"


@pytest.mark.parametrize("path", SOURCES, ids=_names)
def test_functions_and_constructors_have_a_readable_size(path: Path) -> None:
    assert list(_too_large(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n" + "    a = 1\n" * (MOST_LINES + 1),
        "def __init__(self, " + ", ".join(f"a{n}" for n in range(MOST_ARGUMENTS + 1)) + "): pass",
    ],
)
def test_the_limits_notice(source: str) -> None:
    assert len(list(_too_large(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """' + "Long.\n" * 99 + '"""\n    return 1\n',
        "def __init__(self, " + ", ".join(f"a{n}" for n in range(MOST_ARGUMENTS)) + "): pass",
    ],
)
def test_the_limits_let_good_code_pass(source: str) -> None:
    assert list(_too_large(ast.parse(source))) == []


def test_every_encoder_can_start_from_scratch() -> None:
    from heedful.models import FAMILIES

    for name, family in FAMILIES.items():
        if "body" in family.models and family.reads == "texts":
            sizes, config = family.presets(), family.config_class()
            assert sizes, f"models/{family.package}/presets.py: no sizes for {name}"
            assert config.positions_for(128, 1) >= 128, f"{config.__name__}.positions_for"
