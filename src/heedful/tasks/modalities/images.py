"""ImageRecord input: labelled folders with a subfolder per label, or single files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.images import collate_images, image_example
from heedful.errors import UserError, check_known
from heedful.explanation_target import Side, TokenMasker
from heedful.images.processor import ViTImageProcessor
from heedful.models import FAMILIES
from heedful.models.loading import load_model, read_config
from heedful.models.model import Model
from heedful.reading.images import ImageRecord, read_images
from heedful.settings import ClassifySettings, ColumnSettings, DataSettings, refuse_options
from heedful.sources import resolve
from heedful.task import Input, LengthLimit, Recipe, Start
from heedful.tasks.modalities import LabelsOf
from heedful.tasks.modalities.patches import covered, side_of_image

ARCH = "vit"
"""Model family for training from scratch."""

SHIFT = 0.1
"""Default maximum shift of images when training from scratch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Images:
    """ImageRecord input for a ViT; see ``Modality``."""

    shift: float = 0.0
    """Maximum random shift of training images, as a share of the side length."""

    example = "picture.png"
    noun = "image"

    @property
    def inputs(self) -> tuple[Input, ...]:
        """One image."""
        return (Input(name="picture"),)

    def read(
        self, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[ImageRecord]:
        """Stream the images of folders.

        Raises:
            UserError: a text format is given, or a folder does not exist.
        """
        if Path("-") in paths:
            raise UserError("images cannot be read from standard input: give files, or a folder")
        if columns not in (ColumnSettings(), ColumnSettings(format="images")):
            raise UserError("images are read from folders: leave out column options")
        return read_images(paths, labelled=labelled)

    def records(self, items: Sequence[Any], first: int) -> list[ImageRecord]:
        """Make records from file names or file contents.

        Raises:
            UserError: an item is neither.
        """
        images = []
        for number, item in enumerate(items, start=first):
            if isinstance(item, bytes):
                images.append(ImageRecord(content=item, source=f"image {number}"))
            elif isinstance(item, str | Path):
                images.append(ImageRecord(content=Path(item), source=str(item)))
            else:
                raise UserError(f"image {number}: give the name of a file, or its bytes")
        return images

    def start(self, recipe: Recipe, labels: tuple[str, ...], problem_type: str) -> Start:
        """Load an image model, or create one from scratch.

        Raises:
            UserError: the model does not read images, or a text option is given.
        """
        options, data = recipe.options, recipe.data
        assert isinstance(options, ClassifySettings)
        assert isinstance(data, DataSettings)
        _refuse(data, options)
        torch.manual_seed(recipe.training.seed)
        if options.preset is not None:
            data.refuse_model()
        start = _fresh if options.preset is not None else _loaded
        model, processor = start(data, options, labels, problem_type)
        return Start(tokenizer=processor, model=model, max_length=model.max_positions)

    def encode(
        self,
        records: Iterable[ImageRecord],
        reader: ViTImageProcessor,
        fit: LengthLimit,
        labels: LabelsOf | None,
    ) -> Iterator[Fitted[Example]]:
        """Encode each image as one example.

        Raises:
            UserError: an image cannot be read; names it.
        """
        for record in records:
            label_values = () if labels is None else labels(record)
            pixels = reader.read(record.content, record.source)
            example = image_example(pixels, fit.max_length, label_values)
            yield Fitted(pieces=[example], tokens_total=fit.max_length, tokens_used=fit.max_length)

    def sides(
        self,
        record: ImageRecord,
        fitted: Fitted[Example],
        window: int,
        reader: ViTImageProcessor,
    ) -> Side:
        """Return the class token and the patches; the name of a patch is its row and column."""
        return side_of_image(fitted.pieces[window], reader)

    def token_masker(self, reader: ViTImageProcessor, side: Side) -> TokenMasker:
        """Return a function that paints patches in the colour that is normalised to 0."""
        assert side.patches is not None
        return partial(covered, reader=reader, grid=(side.patches.rows, side.patches.columns))

    def batch(
        self,
        examples: Sequence[Example],
        reader: ViTImageProcessor,
        targets: dict[str, Tensor],
        draw: Draw | None,
    ) -> Batch:
        """Collate images, with random shifts in training."""
        return collate_images(examples, reader, targets=targets, shift=self.shift, draw=draw)


def shift_of(options: ClassifySettings) -> float:
    """Return the maximum shift of images, as a share of the side length."""
    default = 0.0 if options.preset is None else SHIFT
    return default if options.shift is None else options.shift


def _refuse(data: DataSettings, options: ClassifySettings) -> None:
    """Refuse options without effect on images or on a trained model."""
    if options.preset is None:
        why = "is for a model from scratch: give --preset too"
        refuse_options(options, ("patch_size", "grey"), why)
    refuse_options(data, ("max_length", "long_text"), "is for texts; leave it out")
    if data.fresh_pooler:
        raise UserError("--fresh-pooler: the model of this task has no pooler; leave it out")


def _check_size(side: int, *patch: int) -> None:
    """Refuse an image size that is not a multiple of the patch size: an edge would be ignored.

    Raises:
        UserError: naming the option.
    """
    for size in patch:
        if side % size and side > size:
            raise UserError(f"--image-size {side}: must be a multiple of the patch size, {size}")


def _fresh(
    data: DataSettings, options: ClassifySettings, labels: tuple[str, ...], problem_type: str
) -> tuple[Model, ViTImageProcessor]:
    """Create a model from scratch."""
    family = FAMILIES[ARCH]
    presets = family.presets()
    assert options.preset is not None
    check_known("--preset", options.preset, presets)
    side = options.image_size or 224
    _check_size(side, options.patch_size or 16, options.patch_size or 16)
    channels = 1 if options.grey else 3
    values: dict[str, Any] = {
        **presets[options.preset],
        "image_size": side,
        "patch_size": options.patch_size or 16,
        "num_channels": channels,
        "id2label": dict(enumerate(labels)),
        "problem_type": problem_type,
    }
    config_class = family.config_class()
    if data.dropout is not None:
        values |= dict.fromkeys(config_class.DROPOUTS, data.dropout)
    values["encoder_stride"] = values["patch_size"]
    model: Model = family.model_class("sequence").from_config(config_class(**values))
    half = (0.5,) * channels
    return model, ViTImageProcessor(size=(side, side), image_mean=half, image_std=half)


def _loaded(
    data: DataSettings, options: ClassifySettings, labels: tuple[str, ...], problem_type: str
) -> tuple[Model, ViTImageProcessor]:
    """Load a model, with a fresh classification head unless its head has the same labels."""
    folder = resolve(data.model, data.revision)
    config = read_config(folder)
    if FAMILIES[config.MODEL_TYPE].reads != "images":
        raise UserError(
            f"--model {data.model}: a text model (model_type {config.MODEL_TYPE!r}); for images, "
            "give the folder of a ViT, or --preset to train one from scratch"
        )
    model: Model = load_model(
        data.model,
        head="sequence",
        id2label=dict(enumerate(labels)),
        problem_type=problem_type,
        dropout=data.dropout,
        fresh_head=tuple(config.id2label.values()) != labels,
        revision=data.revision,
    )
    processor = ViTImageProcessor.from_pretrained(folder, channels=config.num_channels)
    if options.image_size is not None:
        _check_size(options.image_size, *config.patch)
        side = (options.image_size, options.image_size)
        model.body.set_image_size(side)  # type: ignore[operator]
        processor = replace(processor, size=side)
    elif processor.size != config.input_size:
        raise UserError(
            f"{folder}: preprocessor_config.json resizes images to {processor.size}, but "
            f"config.json expects {config.input_size}"
        )
    return model, processor
