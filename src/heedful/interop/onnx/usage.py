"""Write the README of a graph folder: inputs, outputs, and an example program."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.interop.checking import uses_token_types
from heedful.interop.onnx.graphs import ENCODER
from heedful.interop.source import Source
from heedful.models import BertEncoderDecoder

README = "README.md"

Port = tuple[str, str, str, str]
"""``input`` or ``output``, and the name, type and shape of a tensor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A runtime for graphs, as presented to users."""

    name: str
    """Name of the file format."""
    suffix: str
    code: str
    """Python code that imports the runtime and defines ``open_graph`` and ``compute``."""
    ports: Callable[[Path], list[Port]]
    """Reads the inputs and outputs of a file."""


_ONNX = """\
import onnxruntime

def open_graph(name):
    return onnxruntime.InferenceSession(f"{name}.onnx")

def compute(graph, inputs):
    inputs = {one.name: inputs[one.name] for one in graph.get_inputs()}
    names = [one.name for one in graph.get_outputs()]
    return dict(zip(names, graph.run(names, inputs)))
"""


def _ports(path: Path) -> list[Port]:
    import onnxruntime

    def port(kind: str, one: Any) -> Port:
        element = one.type.removeprefix("tensor(").removesuffix(")")
        return kind, one.name, element, ", ".join(map(str, one.shape))

    graph = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [
        *(port("input", one) for one in graph.get_inputs()),
        *(port("output", one) for one in graph.get_outputs()),
    ]


ONNX = Engine(name="ONNX", suffix=".onnx", code=_ONNX, ports=_ports)

_TEXTS = """\
from heedful import load_tokenizer

{engine}
tokenizer = load_tokenizer(".")
rows = tokenizer({texts}, padding=True, return_tensors="np"{types})
for name, array in compute(open_graph("model"), {rows}).items():
    print(name, array.shape)
"""

_IMAGES = """\
from PIL import Image
from heedful import ViTImageProcessor

{engine}
processor = ViTImageProcessor.from_pretrained(".")
image = Image.new("RGB", (64, 48), "white")  # or the name of a file
rows = processor([image, image], return_tensors="np")
for name, array in compute(open_graph("model"), rows).items():
    print(name, array.shape)
"""

_CONTINUE = """\
import numpy as np
from heedful import load_tokenizer

{engine}
tokenizer = load_tokenizer(".")
graph = open_graph("model")
ids = tokenizer(["a text"], return_tensors="np")["input_ids"][:, :-1]  # without the end token
past = {{f"past_key_values.{{block}}.{{kind}}": np.zeros((1, heads, 0, {width}), np.float32)
        for block, heads in enumerate({heads}) for kind in ("key", "value")}}
generated = [*ids[0]]
while len(generated) < {most} and generated[-1] != tokenizer.sep_token_id:
    mask = np.ones((1, len(generated)), np.int64)
    outputs = compute(graph, {{"input_ids": ids, "attention_mask": mask, **past}})
    ids = outputs.pop("logits")[:, -1:].argmax(-1)
    past = {{name.replace("present", "past_key_values"): outputs[name] for name in outputs}}
    generated.append(int(ids[0, 0]))
print(tokenizer.decode(generated, skip_special_tokens=True))
"""

_WRITE = """\
import numpy as np
from heedful import load_tokenizer

{engine}
tokenizer = load_tokenizer(".")
names = ("encoder_model", "decoder_model", "decoder_with_past_model")
encode, decode_first, decode_next = map(open_graph, names)
{ids}
mask, generated = np.ones_like(ids), [{first}]
inputs = {{"input_ids": ids, "attention_mask": mask{types}}}
inputs = {{"encoder_hidden_states": compute(encode, inputs)["last_hidden_state"]}}
graph = decode_first
while len(generated) < {most} and generated[-1] != {end}:
    inputs |= {{"input_ids": np.array([generated[-1:]]), "encoder_attention_mask": mask}}
    outputs = compute(graph, inputs)
    generated.append(int(outputs.pop("logits")[0, -1].argmax()))
    inputs |= {{name.replace("present", "past_key_values"): outputs[name] for name in outputs}}
    graph = decode_next
print({text})
"""

_TRANSLATOR_IDS = """\
ids = np.array([[*tokenizer.source.encode_batch(["a text"])[0], tokenizer.eos_token_id]])"""


def write_usage(source: Source, folder: Path, engine: Engine, *, int8: bool = False) -> None:
    """Write ``README.md``: the inputs and outputs of each graph, and an example program."""
    record = source.record
    what = "image" if source.reads_images else "text"
    lines = [
        f"# A run of {record.task} as {engine.name}",
        "",
        f"Written by heedful. {'int8' if int8 else 'fp32'} "
        f"weights; a {what} has at most {record.max_length} tokens.",
        "",
        *_tables(folder, engine),
    ]
    if labels := record.goal.get("labels"):
        shown = json.dumps(labels, ensure_ascii=False)  # one line, so it cannot end the code block
        lines += ["The labels, in the order of the logits:", "", "```json", shown, "```", ""]
    lines += ["In this folder:", "", "```python", program(source, folder, engine).rstrip(), "```"]
    (folder / README).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _tables(folder: Path, engine: Engine) -> Iterator[str]:
    for path in sorted(folder.glob(f"*{engine.suffix}")):
        yield f"`{path.name}`:"
        yield ""
        yield "| | name | type | shape |"
        yield "|---|---|---|---|"
        for kind, name, element, shape in engine.ports(path):
            yield f"| {kind} | `{name}` | {element} | ({shape}) |"
        yield ""


def program(source: Source, folder: Path, engine: Engine) -> str:
    """Return an example program that runs the graphs inside their folder."""
    record, model = source.record, source.model
    if (folder / ENCODER).with_suffix(engine.suffix).is_file():
        if isinstance(model, BertEncoderDecoder):
            types = "token_type_ids" if model.encoder.config.type_vocab_size > 1 else ""
            return _WRITE.format(
                engine=engine.code,
                ids='ids = tokenizer(["a text"], return_tensors="np")["input_ids"]',
                types=f', "{types}": np.zeros_like(ids)' if types else "",
                first=model.decoder_start_token_id,
                end=source.tokenizer.sep_token_id,
                most=min(65, model.max_target_positions),
                text="tokenizer.decode(generated, skip_special_tokens=True)",
            )
        config = model.config
        return _WRITE.format(
            engine=engine.code,
            ids=_TRANSLATOR_IDS,
            types="",
            first=config.decoder_start_token_id,
            end=config.eos_token_id,
            most=record.goal["longest"] + 1,
            text="tokenizer.target.decode([id for id in generated[1:] if id != generated[0]])",
        )
    if source.reads_images:
        return _IMAGES.format(engine=engine.code)
    if source.generates:
        body: Any = model.body
        heads = [block.attention.self for block in body.encoder.blocks]
        return _CONTINUE.format(
            engine=engine.code,
            most=model.max_positions,
            heads=[len(one.heads) for one in heads],
            width=heads[0].head_width,
        )
    texts, rows = '["a text", "another text"]', "rows"
    if record.task == "choose":
        texts = '["a question"] * 2, ["a choice", "another choice"]'
        rows = "{name: rows[name][None] for name in rows}"
    elif record.task == "answer" or record.goal.get("pairs"):
        texts = '["a text", "another text"], ["its second text", "and its own"]'
    # RoBERTa may have token types, but its tokenizer returns them only on request.
    asked = uses_token_types(source) and not source.tokenizer.token_types
    types = ", return_token_type_ids=True" if asked else ""
    return _TEXTS.format(engine=engine.code, texts=texts, rows=rows, types=types)
