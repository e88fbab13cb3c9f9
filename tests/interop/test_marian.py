"""Trained models translate the same in the reference and, once converted, in other programs."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful import cli, files
from heedful.checkpoints import runs
from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError
from heedful.interop import export, marian
from heedful.models import RnnConfig, RnnSearch, Transformer, TransformerConfig
from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.tokens import TranslationTokenizer
from heedful.tokens.learning import count_strings_between_spaces, learn_translation

pytest.importorskip("sentencepiece", reason="needs the extra [marian]")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended")

LONGEST = 36
PAIRS = {
    "Der Mann läuft.": "The man runs.",
    "Die Frau läuft, der Mann steht.": "The woman runs, the man stands.",
    "Das Haus steht.": "The house stands.",
    "Die Frau steht!": "The woman stands!",
    "Der Hund läuft.": "The dog runs.",
    "Ein Haus, ein Hund.": "A house, a dog.",
}
TEXTS = [*PAIRS, "Ein Mann  steht, 日本", "Der Hund steht. Die Frau!", "läuft"]


def _tokenizer(*, separate: bool = False) -> TranslationTokenizer:
    words = [count_strings_between_spaces([*texts] * 2) for texts in (PAIRS, PAIRS.values())]
    return learn_translation(*words, size=304, separate=separate)


def _config(tokenizer: TranslationTokenizer, **more: Any) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=tokenizer.source.vocab_size,
        decoder_vocab_size=tokenizer.target.vocab_size,
        pad_token_id=tokenizer.pad_token_id,
        share_encoder_decoder_embeddings=tokenizer.joint,
        **{
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "dropout": 0.0,
            "max_position_embeddings": 40,
        }
        | more,
    )


def _learn(model: Transformer, tokenizer: TranslationTokenizer) -> None:
    """Train a model on the pairs until its texts differ and end."""
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id

    def rows(texts: Sequence[str], side: Any, fill: int) -> torch.Tensor:
        ids = [torch.tensor([*row, end]) for row in side.encode_batch(texts)]
        return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=fill)

    read = rows([*PAIRS], tokenizer.source, pad)
    written = rows([*PAIRS.values()], tokenizer.target, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(100):
        loss = model(read, read != pad, labels=written).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _write(run: Path, model: Any, tokenizer: TranslationTokenizer, task: str = "translate") -> Path:
    model.save_pretrained(run)
    tokenizer.save_pretrained(run)
    record = RunRecord(
        task=task,
        goal={"longest": LONGEST},
        max_length=40,
        settings={},
        data=[],
        versions={},
    )
    runs.write_record(run, record)
    files.write_manifest(run)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    tokenizer = _tokenizer()
    model = Transformer(_config(tokenizer))
    _learn(model, tokenizer)
    return _write(tmp_path_factory.mktemp("runs") / "de-en", model, tokenizer)


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "marian"
    export(run, out, "marian")
    return out


def _ours(folder: Path, **options: Any) -> list[str]:
    predictor = Predictor.load(folder, PredictSettings(precision="fp32", **options))
    return [answer.text for answer in predictor(TEXTS)]


def _theirs(folder: Path, **options: Any) -> list[str]:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    found = model.generate(**tokenizer(TEXTS, return_tensors="pt", padding=True), **options)
    texts: list[str] = tokenizer.batch_decode(found, skip_special_tokens=True)
    return texts


def test_the_model_has_learnt_something_to_compare(run: Path) -> None:
    assert _ours(run)[: len(PAIRS)] == [*PAIRS.values()]


@pytest.mark.parametrize("beam", [1, 4])
def test_the_reference_translates_alike(run: Path, exported: Path, beam: int) -> None:
    given = {} if beam == 4 else {"num_beams": beam}  # what the folder says is our default
    assert _theirs(exported, **given) == [text.strip() for text in _ours(run, beam=beam)]


def test_two_vocabularies_are_read_by_the_reference(tmp_path: Path) -> None:
    torch.manual_seed(1)
    tokenizer = _tokenizer(separate=True)
    size = tokenizer.source.vocab_size
    assert size == tokenizer.target.vocab_size
    model = Transformer(_config(tokenizer))
    _learn(model, tokenizer)
    run = _write(tmp_path / "run", model, tokenizer)
    export(run, tmp_path / "out", "marian")
    assert _theirs(tmp_path / "out") == [text.strip() for text in _ours(run)]


@pytest.mark.parametrize("beam", [1, 4])
def test_ctranslate2_translates_alike(run: Path, exported: Path, beam: int, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the other library")
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(exported)).convert(str(tmp_path / "converted"))
    translator = ctranslate2.Translator(str(tmp_path / "converted"), intra_threads=1)
    tokenizer = TranslationTokenizer.from_pretrained(run)
    ids = [[*row, tokenizer.eos_token_id] for row in tokenizer.source.encode_batch(TEXTS)]
    found = translator.translate_batch(
        [tokenizer.source.pieces(row) for row in ids],
        beam_size=beam,
        max_decoding_length=LONGEST,
    )
    said = [[tokenizer.target.ids[piece] for piece in one.hypotheses[0]] for one in found]
    assert [tokenizer.target.decode(row) for row in said] == _ours(run, beam=beam)


@pytest.mark.parametrize("cut_by", ["us", "sentencepiece"])
def test_a_marian_folder_is_a_run_to_ask(
    run: Path, exported: Path, cut_by: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(exported, tmp_path / "folder")
    if cut_by == "sentencepiece":  # as in the folders of others
        (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "de"}))
    found, expected = _ours(folder), _ours(run)
    assert [text.strip() for text in found] == [text.strip() for text in expected]


def test_a_translation_that_takes_all_positions_is_linked(exported: Path, tmp_path: Path) -> None:
    model = Transformer.from_pretrained(exported)
    model.final_logits_bias[0, model.config.eos_token_id] = -1e4  # it goes on and on
    folder = shutil.copytree(exported, tmp_path / "folder")
    model.save_pretrained(folder, overwrite=True)
    settings = PredictSettings(precision="fp32", alignments=True, max_new_tokens=40)
    (answer,) = Predictor.load(folder, settings).predict(["Der Mann läuft."])
    assert not answer.n_best[0].ended
    assert answer.links.target_words


def test_the_command_line_exports_and_asks(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert cli.run(["export", str(run), "--to", out, "--format", "marian"]) == 0
    assert cli.run(["predict", out, "Der Mann läuft.", "--plain", "--precision", "fp32"]) == 0
    assert capsys.readouterr().out == "The man runs.\n"
    assert cli.run(["tokenize", "--model", out, "Das Haus"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert "".join(row["pieces"]) == "▁Das▁Haus</s>"
    assert ["Das Haus"[slice(*span)] for span in row["offsets"]][-1:] == [""]
    assert len(row["ids"]) == len(row["offsets"])


def test_it_is_checked_where_it_is_read(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="needs the reference library")
    assert export(run, tmp_path / "out", "marian").consumer.startswith("transformers ")
    monkeypatch.setattr(marian, "find_spec", lambda name: None)
    assert export(run, tmp_path / "ours", "marian").consumer.startswith("heedful ")


def test_what_is_there_is_not_replaced_unasked(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(run, out, "marian")
    with pytest.raises(UserError, match="out exists; choose another folder or give --overwrite"):
        export(run, out, "marian")
    export(run, out, "marian", overwrite=True)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe holds other files than a model"):
        export(run, tmp_path / "pipe", "marian", overwrite=True)
    (out / "notes.txt").write_text("keep me")
    with pytest.raises(UserError, match="out holds other files than a model"):
        export(run, out, "marian", overwrite=True)
    assert (out / "notes.txt").read_text() == "keep me"


def test_what_cannot_be_a_marian_model_is_refused(run: Path, tmp_path: Path) -> None:
    tokenizer = _tokenizer()
    out = tmp_path / "out"
    model: Any = Transformer(_config(tokenizer, normalize_before=True))
    _write(tmp_path / "pre-norm", model, tokenizer)
    with pytest.raises(UserError, match=r"this model is pre-norm.*without --pre-norm"):
        export(tmp_path / "pre-norm", out, "marian")
    two = _tokenizer(separate=True)
    _write(tmp_path / "two", Transformer(_config(two, normalize_before=True)), two)
    with pytest.raises(UserError, match=r"has two vocabularies; Pegasus.*use --format onnx"):
        export(tmp_path / "two", out, "hf")
    model = Transformer(_config(tokenizer))
    model.prune_heads({}, cross_attn_heads={0: [0]})
    _write(tmp_path / "pruned", model, tokenizer)
    with pytest.raises(UserError, match="has pruned heads"):
        export(tmp_path / "pruned", out, "marian")
    sizes = {"vocab_size": tokenizer.source.vocab_size, "pad_token_id": tokenizer.pad_token_id}
    model = RnnSearch(RnnConfig(decoder_vocab_size=sizes["vocab_size"], **sizes))
    _write(tmp_path / "rnn", model, tokenizer)
    with pytest.raises(UserError, match="a recurrent network; Marian's models here are"):
        export(tmp_path / "rnn", out, "marian")
    _write(tmp_path / "other", Transformer(_config(tokenizer)), tokenizer, task="classify")
    with pytest.raises(UserError, match="a classify run; --format marian is for runs of translate"):
        export(tmp_path / "other", out, "marian")
    (tmp_path / "other" / "manifest.json").unlink()
    with pytest.raises(UserError, match="not a heedful run"):
        export(tmp_path, out, "marian")
    unfinished = shutil.copytree(run, tmp_path / "unfinished")
    (unfinished / "manifest.json").unlink()
    with pytest.raises(UserError, match="training has not finished"):
        export(unfinished, out, "marian")
    assert not out.exists()


def test_vocabularies_of_two_sizes_are_refused(tmp_path: Path) -> None:
    words = [
        count_strings_between_spaces([text] * 2)
        for text in ("ab abc", "the long text of many letters")
    ]
    tokenizer = learn_translation(*words, size=310, separate=True)
    run = _write(tmp_path / "run", Transformer(_config(tokenizer)), tokenizer)
    with pytest.raises(UserError, match=r"vocabularies have 26\d and \d+ pieces"):
        export(run, tmp_path / "out", "marian")
    assert not (tmp_path / "out").exists()


def test_a_longest_text_that_is_a_link_to_nowhere_is_not_passed_over(tmp_path: Path) -> None:
    assert marian.read_longest(tmp_path) is None
    (tmp_path / "generation_config.json").symlink_to(tmp_path / "missing.json")
    with pytest.raises(UserError, match=r"config\.json: no such file .a link to nowhere"):
        marian.read_longest(tmp_path)
