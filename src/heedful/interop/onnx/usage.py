"""What is said of a folder of graphs: their inputs and outputs, and a program that uses them."""

import json
from collections.abc import Iterator
from pathlib import Path

from heedful.interop.onnx.graphs import READER
from heedful.interop.source import Source
from heedful.models import BertEncoderDecoder

README = "README.md"

_TEXTS = """\
import onnxruntime
from heedful import load_tokenizer

tokenizer = load_tokenizer(".")
session = onnxruntime.InferenceSession("model.onnx")
rows = tokenizer({texts}, padding=True, return_tensors="np")
inputs = {{one.name: rows[one.name]{item} for one in session.get_inputs()}}
for output, array in zip(session.get_outputs(), session.run(None, inputs)):
    print(output.name, array.shape)
"""

_CONTINUE = """\
import numpy as np
import onnxruntime
from heedful import load_tokenizer

tokenizer = load_tokenizer(".")
session = onnxruntime.InferenceSession("model.onnx")
ids = tokenizer(["a text"], return_tensors="np")["input_ids"][:, :-1]  # without what ends it
past = {{one.name: np.zeros((1, one.shape[1], 0, one.shape[3]), np.float32)
        for one in session.get_inputs() if one.name.startswith("past_key_values.")}}
written = [*ids[0]]
while len(written) < {most} and written[-1] != tokenizer.sep_token_id:
    inputs = {{"input_ids": ids, "attention_mask": np.ones((1, len(written)), np.int64), **past}}
    logits, *present = session.run(None, inputs)
    past = dict(zip(past, present))
    ids = logits[:, -1:].argmax(-1)
    written.append(int(ids[0, 0]))
print(tokenizer.decode(written, skip_special_tokens=True))
"""

_WRITE = """\
import numpy as np
import onnxruntime
from heedful import load_tokenizer

tokenizer = load_tokenizer(".")
names = ("encoder_model", "decoder_model", "decoder_with_past_model")
read, start, go_on = (onnxruntime.InferenceSession(f"{{name}}.onnx") for name in names)
{ids}
mask, written = np.ones_like(ids), [{first}]
inputs = {{"input_ids": ids, "attention_mask": mask{types}}}
inputs = {{"encoder_hidden_states": read.run(None, inputs)[0]}}
session = start
while len(written) < {most} and written[-1] != {end}:
    inputs |= {{"input_ids": np.array([written[-1:]]), "encoder_attention_mask": mask}}
    inputs = {{one.name: inputs[one.name] for one in session.get_inputs()}}
    outputs = dict(zip((one.name for one in session.get_outputs()), session.run(None, inputs)))
    written.append(int(outputs.pop("logits")[0, -1].argmax()))
    inputs |= {{name.replace("present", "past_key_values"): outputs[name] for name in outputs}}
    session = go_on
print({text})
"""

_TRANSLATOR_IDS = """\
ids = np.array([[*tokenizer.source.encode_batch(["a text"])[0], tokenizer.eos_token_id]])"""


def write_usage(source: Source, folder: Path, *, int8: bool) -> None:
    """Write ``README.md``: what goes into each graph, what comes out, and how it is used."""
    record = source.record
    lines = [
        f"# A run of {record.task} as ONNX",
        "",
        f"Written by heedful. {'int8' if int8 else 'fp32'} "
        f"weights; a text has at most {record.max_length} tokens.",
        "",
        *_tables(folder),
    ]
    if labels := record.goal.get("labels"):
        lines += [
            f"The labels, in the order of the logits: `{json.dumps(labels, ensure_ascii=False)}`",
            "",
        ]
    lines += ["In this folder:", "", "```python", program(source, folder).rstrip(), "```"]
    (folder / README).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _tables(folder: Path) -> Iterator[str]:
    import onnxruntime

    for path in sorted(folder.glob("*.onnx")):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        yield f"`{path.name}`:"
        yield ""
        yield "| | name | type | shape |"
        yield "|---|---|---|---|"
        for kind, values in (("input", session.get_inputs()), ("output", session.get_outputs())):
            for value in values:
                element = value.type.removeprefix("tensor(").removesuffix(")")
                shape = ", ".join(map(str, value.shape))
                yield f"| {kind} | `{value.name}` | {element} | ({shape}) |"
        yield ""


def program(source: Source, folder: Path) -> str:
    """Return a program that computes with the graphs of a folder, and runs there."""
    record, model = source.record, source.model
    if (folder / READER).is_file():
        if isinstance(model, BertEncoderDecoder):
            types = "token_type_ids" if model.encoder.config.type_vocab_size > 1 else ""
            return _WRITE.format(
                ids='ids = tokenizer(["a text"], return_tensors="np")["input_ids"]',
                types=f', "{types}": np.zeros_like(ids)' if types else "",
                first=model.decoder_start_token_id,
                end=source.tokenizer.sep_token_id,
                most=min(65, model.max_written),
                text="tokenizer.decode(written, skip_special_tokens=True)",
            )
        config = model.config
        return _WRITE.format(
            ids=_TRANSLATOR_IDS,
            types="",
            first=config.decoder_start_token_id,
            end=config.eos_token_id,
            most=record.goal["longest"] + 1,
            text="tokenizer.target.decode([id for id in written[1:] if id != written[0]])",
        )
    if model.config.is_decoder:
        return _CONTINUE.format(most=model.max_positions)
    texts, item = '["a text", "another text"]', ""
    if record.task == "choose":
        texts, item = '["a question"] * 2, ["a choice", "another choice"]', "[None]"
    elif record.task == "answer" or record.goal.get("pairs"):
        texts = '["a text", "another text"], ["its second text", "and its own"]'
    return _TEXTS.format(texts=texts, item=item)
