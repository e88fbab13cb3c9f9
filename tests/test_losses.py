import pytest
import torch
import torch.nn.functional as F

from heedful import losses
from heedful.errors import UserError


def _classes() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    return logits, torch.tensor([[0, 2, -100, 1], [-100, 1, 1, 2]])


@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 3.0], [0.0, 1.0, 0.0]])
def test_cross_entropy_is_torchs_mean(weights: list[float] | None) -> None:
    logits, labels = _classes()
    class_weights = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    total, count = losses.cross_entropy(logits, labels, class_weights=class_weights)
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), class_weights)
    torch.testing.assert_close(total / count, expected)
    (found,) = torch.autograd.grad(total / count, logits)
    (right,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(found, right)


def test_cross_entropy_counts_labels_or_their_weights() -> None:
    logits, labels = _classes()
    assert losses.cross_entropy(logits, labels)[1] == 6
    weights = torch.tensor([1.0, 10.0, 100.0])
    assert losses.cross_entropy(logits, labels, class_weights=weights)[1] == 1 + 3 * 10 + 2 * 100
    total, count = losses.cross_entropy(logits, torch.full((2, 4), -100))
    assert total == count == 0


@pytest.mark.parametrize("smoothing", [0.1, 0.5, 1.0])
def test_smoothing_is_torchs(smoothing: float) -> None:
    logits, labels = _classes()
    total, count = losses.cross_entropy(logits, labels, label_smoothing=smoothing)
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)
    torch.testing.assert_close(total / count, expected)
    (found,) = torch.autograd.grad(total / count, logits)
    (right,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(found, right)
    nothing = losses.cross_entropy(logits, torch.full((2, 4), -100), label_smoothing=smoothing)
    assert nothing == (0, 0)


@pytest.mark.parametrize("smoothing", [-0.1, 1.1, float("nan")])
def test_smoothing_out_of_range_is_refused(smoothing: float) -> None:
    with pytest.raises(UserError, match="it must be from 0 to 1"):
        losses.cross_entropy(*_classes(), label_smoothing=smoothing)


def test_smoothing_does_not_go_with_weights() -> None:
    with pytest.raises(UserError, match="label_smoothing cannot be combined with class_weights"):
        losses.cross_entropy(*_classes(), class_weights=torch.ones(3), label_smoothing=0.1)


def test_mse_is_torchs_mean() -> None:
    predictions, targets = torch.randn(2, 5, 3, dtype=torch.float64)
    total, count = losses.mse(predictions, targets)
    torch.testing.assert_close(total / count, F.mse_loss(predictions, targets))
    assert count == 15
    assert losses.mse(torch.tensor([0.5]), torch.tensor([2]))[0] == 2.25


@pytest.mark.parametrize("class_weights", [None, [0.5, 2.0, 3.0]])
@pytest.mark.parametrize("positive_weights", [None, [1.0, 4.0, 0.25]])
def test_binary_cross_entropy_is_torchs_mean(
    class_weights: list[float] | None, positive_weights: list[float] | None
) -> None:
    logits = torch.randn(4, 3, dtype=torch.float64)
    labels = torch.randint(2, (4, 3))
    weight, positive = (
        None if weights is None else torch.tensor(weights, dtype=torch.float64)
        for weights in (class_weights, positive_weights)
    )
    total, count = losses.binary_cross_entropy(
        logits, labels, class_weights=weight, positive_weights=positive
    )
    expected = F.binary_cross_entropy_with_logits(
        logits, labels.double(), weight, pos_weight=positive
    )
    torch.testing.assert_close(total / count, expected)
    assert count == 12


def test_sums_and_counts_add_up_over_a_split_batch() -> None:
    logits, labels = _classes()
    weights = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    whole = losses.cross_entropy(logits, labels, class_weights=weights)
    parts = [
        losses.cross_entropy(logits[part], labels[part], class_weights=weights) for part in (0, 1)
    ]
    torch.testing.assert_close(parts[0][0] + parts[1][0], whole[0])
    torch.testing.assert_close(parts[0][1] + parts[1][1], whole[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    logits = torch.randn(3000, 3).to(dtype)
    labels = torch.randint(3, (3000,))
    chosen = F.one_hot(labels, 3)
    for (total, _), (expected, _) in (
        (losses.cross_entropy(logits, labels), losses.cross_entropy(logits.float(), labels)),
        (losses.mse(logits, chosen), losses.mse(logits.float(), chosen)),
        (
            losses.binary_cross_entropy(logits, chosen),
            losses.binary_cross_entropy(logits.float(), chosen),
        ),
    ):
        assert total.dtype == torch.float32
        torch.testing.assert_close(total, expected)


def test_partners_are_told_from_the_others() -> None:
    torch.manual_seed(0)
    first, second = (F.normalize(torch.randn(4, 6), dim=-1) for _ in range(2))
    shared = torch.eye(4, dtype=torch.bool)
    total, count = losses.in_batch_contrastive(first, second, shared=shared, scale=5.0)
    scores, right = 5.0 * first @ second.T, torch.arange(4)
    expected = (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2
    torch.testing.assert_close(total / count, expected)
    shared[0, 2] = shared[2, 0] = True
    scores[0, 2] = scores[2, 0] = -torch.inf
    expected = (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2
    total, count = losses.in_batch_contrastive(first, second, shared=shared, scale=5.0)
    torch.testing.assert_close(total / count, expected)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_soft_classes_are_the_divergence_from_the_teacher(temperature: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(5, 4, dtype=torch.float64)
    total, count = losses.soft_cross_entropy(logits, teacher, temperature)
    wanted = torch.exp(teacher / temperature)
    wanted = wanted / wanted.sum(-1, keepdim=True)
    told = torch.exp(logits / temperature)
    told = told / told.sum(-1, keepdim=True)
    divergence = (wanted * (wanted.log() - told.log())).sum()
    torch.testing.assert_close(total, temperature**2 * divergence)
    assert count == 5
    (gradient,) = torch.autograd.grad(total, logits)
    torch.testing.assert_close(gradient, temperature * (told - wanted).detach())


def test_soft_classes_that_cannot_be_count_for_nothing() -> None:
    torch.manual_seed(0)
    logits, teacher = torch.randn(2, 3, 4, dtype=torch.float64)
    logits.requires_grad_()
    never = torch.tensor([False, True, False, True])
    total, _ = losses.soft_cross_entropy(
        logits.masked_fill(never, -torch.inf), teacher.masked_fill(never, -torch.inf), 2.0
    )
    expected, _ = losses.soft_cross_entropy(logits[:, ~never], teacher[:, ~never], 2.0)
    torch.testing.assert_close(total, expected)
    (gradient,) = torch.autograd.grad(total, logits)
    (right,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(gradient, right)


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_soft_switches_are_classes_of_two(temperature: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(5, 4, dtype=torch.float64)
    total, count = losses.soft_binary_cross_entropy(logits, teacher, temperature)
    pairs = [torch.stack([x.flatten(), torch.zeros(20)], 1) for x in (logits, teacher)]
    expected, _ = losses.soft_cross_entropy(pairs[0], pairs[1], temperature)
    torch.testing.assert_close(total, expected)
    assert count == 20
    (gradient,) = torch.autograd.grad(total, logits)
    right = temperature * ((logits / temperature).sigmoid() - (teacher / temperature).sigmoid())
    torch.testing.assert_close(gradient, right.detach())


def test_cosine_distance_reads_directions_alone() -> None:
    torch.manual_seed(0)
    vectors, teacher = torch.randn(2, 5, 4, dtype=torch.float64)
    total, count = losses.cosine_distance(vectors, 3 * teacher)
    products = (vectors * teacher).sum(-1) / (vectors.norm(dim=-1) * teacher.norm(dim=-1))
    torch.testing.assert_close(total, (1 - products).sum())
    assert count == 5
