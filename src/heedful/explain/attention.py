"""Attention maps as pictures.

Attention shows where a model looks, not why it decides.
"""

from pathlib import Path

import torch
from torch import Tensor

from heedful.errors import UserError
from heedful.extras import missing
from heedful.predictor import Predictor

# More pieces than this are not legible in one picture.
MAX_PIECES = 64


@torch.inference_mode()
def attention_maps(predictor: Predictor, text: str) -> tuple[list[str], Tensor]:
    """Return a text's pieces and the attention between them.

    Shape:
        (layers, heads, pieces, pieces), rows (queries) summing to 1.

    Raises:
        UserError: the text is too long to draw.
    """
    encoding = predictor.tokenizer(text, return_tensors="pt")
    pieces = predictor.tokenizer.convert_ids_to_tokens(encoding["input_ids"][0].tolist())
    if len(pieces) > MAX_PIECES:
        raise UserError(f"the text has {len(pieces)} pieces; at most {MAX_PIECES} can be drawn")
    output = predictor.model(**encoding.to(predictor.device), output_attentions=True)
    return pieces, torch.stack(output.attentions)[:, 0].float().cpu()


def save_attention_picture(predictor: Predictor, text: str, path: Path) -> None:
    """Draw the attention of each layer, averaged over its heads, to a .png or .svg file.

    Raises:
        UserError: matplotlib is not installed, or the text is too long to draw.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise missing("plot") from None
    pieces, maps = attention_maps(predictor, text)
    layers = maps.mean(1)  # (layers, pieces, pieces)
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    side = 1.6 + 0.22 * len(pieces)
    figure = Figure(figsize=(side * columns, side * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for number, layer in enumerate(layers):
        axes = figure.add_subplot(rows, columns, number + 1)
        axes.imshow(layer.numpy(), cmap="cividis", vmin=0)
        axes.set_title(f"layer {number + 1}, mean of its heads", fontsize=9)
        axes.set_xticks(range(len(pieces)), pieces, rotation=90, fontsize=7)
        axes.set_yticks(range(len(pieces)), pieces, fontsize=7)
        axes.tick_params(length=0)
    figure.suptitle("which piece (row) attends to which (column)", fontsize=10)
    figure.savefig(path, dpi=110)
