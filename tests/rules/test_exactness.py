"""Computed floats are compared up to rounding, so that no test depends on one CPU.

Which bits come last follows from the order of a sum, and that from the CPU, the shapes and the
kernel. A result may equal another to the last bit for a reason only; ``assert_same_bits`` takes it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = [path for path in sorted(TESTS.rglob("*.py")) if path != TESTS / "exact.py"]

EXACT = {"equal", "array_equal", "array_equiv", "assert_array_equal", "assert_equal"}
"""Methods and functions that compare numbers exactly."""

COMPUTED = {
    "attentions",
    "generate",
    "grad",
    "gradient_norm",
    "hidden_states",
    "last_hidden_state",
    "log_likelihood",
    "log_probabilities",
    "log_probability",
    "logits",
    "loss",
    "losses",
    "perplexity",
    "pooler_output",
    "probabilities",
    "probability",
    "score",
    "scores",
    "similarity",
    "vector",
    "vectors",
}
"""What tests call the floats that a model computes, and what holds some."""

SAME_NUMBERS = {"detach", "double", "float", "item", "list", "numpy", "tolist", "tuple"}
"""Calls that give the numbers they are called on."""


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _names(node: ast.expr) -> Iterator[str]:
    """Return the last name of an expression, or of each part of a list or tuple."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            yield name
        case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.DictComp(value=inner):
            yield from _names(inner)
        case ast.ListComp(elt=inner) | ast.SetComp(elt=inner) | ast.GeneratorExp(elt=inner):
            yield from _names(inner)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _names(part)
        case ast.Call(func=ast.Attribute(value=inner)) if _called(node) in SAME_NUMBERS:
            yield from _names(inner)
        case ast.Call(args=[inner]) if _called(node) in SAME_NUMBERS:
            yield from _names(inner)
        case ast.Call():
            yield _called(node)


def _needs_no_rounding(node: ast.expr) -> bool:
    """Return whether an expression is a literal, a tolerance or a sort, which need no rounding."""
    match node:
        case ast.Constant():
            return True
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(_needs_no_rounding(part) for part in parts)
        case ast.Dict(values=parts):
            return all(_needs_no_rounding(part) for part in parts)
        case ast.UnaryOp(operand=inner):
            return _needs_no_rounding(inner)
        case ast.BinOp(left=left, right=right):
            return _needs_no_rounding(left) and _needs_no_rounding(right)
        case ast.ListComp(elt=inner):
            return _needs_no_rounding(inner)
        case ast.Call():
            return _called(node) in ("approx", "sorted")
    return False


def _is_zero(node: ast.Call, *names: str) -> bool:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    return all(isinstance(x := given.get(n), ast.Constant) and x.value == 0 for n in names)


def _exact_comparisons(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in EXACT:
                yield f"line {node.lineno}: {name}"
            case ast.Call() if _is_zero(node, "rtol", "atol") or _is_zero(node, "rel", "abs"):
                yield f"line {node.lineno}: a tolerance of 0"
            case ast.Compare(left=left, ops=ops, comparators=rest) if any(
                isinstance(op, ast.Eq | ast.NotEq) for op in ops
            ):
                sides = [left, *rest]
                computed = COMPUTED & {name for side in sides for name in _names(side)}
                if computed and not any(map(_needs_no_rounding, sides)):
                    yield f"line {node.lineno}: == on {', '.join(sorted(computed))}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_computed_floats_are_compared_up_to_rounding(path: Path) -> None:
    exact = list(_exact_comparisons(ast.parse(path.read_text(encoding="utf-8"))))
    assert not exact, f"use assert_close or pytest.approx, or assert_same_bits with why: {exact}"


@pytest.mark.parametrize(
    "source",
    [
        "assert torch.equal(one, other)",
        "assert not one.equal(other)",
        "np.testing.assert_array_equal(one, other)",
        "assert_close(one, other, rtol=0, atol=0.0)",
        "assert one == pytest.approx(other, rel=0, abs=0)",
        "assert model.generate(ids) == [[text]]",
        "assert one.loss == other.loss",
        "assert loss(0) == loss(0)",
        "assert float(output.loss) != float(loss)",
        "assert [text.score for text in one] == [text.score for text in other]",
        "assert (one.tokens, one.score) == (other.tokens, other.score)",
        "assert output.logits.tolist() == right.tolist()",
        "assert first['loss'] == second['loss']",
    ],
)
def test_the_rule_notices(source: str) -> None:
    assert len(list(_exact_comparisons(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "assert_close(one, other)",
        "assert_close(one, other, rtol=0, atol=1e-6)",
        "assert one.loss == pytest.approx(other.loss)",
        "assert [text.score for text in one] == pytest.approx(scores)",
        "assert rates == [pytest.approx(rate) for rate in scores]",
        "assert best == Span(start=0, end=8, score=18.0)",
        "assert (found.answer, found.score) == (None, 1)",
        "assert scores == sorted(scores)",
        "assert scores['items'] == len(pairs)",
        "assert output.logits.shape == other.logits.shape",
        "assert len(scores) == len(texts)",
        "assert_same_bits(again.loss, loss, 'stored')",
    ],
)
def test_the_rule_lets_other_comparisons_pass(source: str) -> None:
    assert list(_exact_comparisons(ast.parse(source))) == []
