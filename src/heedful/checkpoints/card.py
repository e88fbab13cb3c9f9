"""``MODEL_CARD.md``: what a run is, from its own record."""

from pathlib import Path

from heedful.checkpoints.runs import RunRecord


def write_card(folder: Path, record: RunRecord, *, purpose: str, example: str) -> None:
    """Write the model card of a run.

    Args:
        folder: where.
        record: what the run folder says of the run.
        purpose: what the model does, in a sentence or two.
        example: what a user may ask it.
    """
    settings = "\n".join(
        f"| {name} | {value} |" for name, value in record.settings.items() if value is not None
    )
    data = "\n".join(
        f"- {item['file']}: {item['bytes']:,} bytes, SHA-256 {item['sha256']}"
        for item in record.data
    )
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    text = f"""# A heedful run: {record.task}

{purpose}
It reads {record.max_length} tokens at once; longer texts are read in windows unless told otherwise.

    heedful predict {folder.parent.name} {example}
    heedful evaluate {folder.parent.name} --data FILE

## Training data

{data}

## Settings

| setting | value |
|---|---|
{settings}

Made with {versions}.
"""
    (folder / "MODEL_CARD.md").write_text(text, encoding="utf-8")
