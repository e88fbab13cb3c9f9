"""Names of models: a folder, a package or a name on the hub."""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from heedful import BertConfig, BertModel, BertTokenizer, UserError
from heedful.sources import HUB_NAMES, resolve

FILES = [
    *("config.json", "generation_config.json", "preprocessor_config.json", "heedful.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "target_vocab.json", "merges.txt"),
    *("spiece.model", "spm.model", "sentencepiece.bpe.model", "source.spm", "target.spm"),
    *("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"),
    *("config_sentence_transformers.json", "model.safetensors", "model.safetensors.index.json"),
]
"""What heedful reads of a model's folder."""

Downloads = list[tuple[str, str | None, list[str]]]


download_options: list[dict[str, Any]] = []
"""The other options of the downloads."""


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Downloads:
    """Provide the later downloads: the name, the revision and the patterns of each."""
    calls: Downloads = []
    download_options.clear()

    def download(
        name: str, *, revision: str | None, allow_patterns: list[str], **options: Any
    ) -> str:
        calls.append((name, revision, allow_patterns))
        download_options.append(options)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return calls


def test_a_name_on_the_hub_is_downloaded_with_all_files_that_are_read(
    downloads: Downloads, tmp_path: Path
) -> None:
    assert resolve("sentence-transformers/all-MiniLM-L6-v2", "main") == tmp_path
    [(name, revision, patterns)] = downloads
    assert (name, revision) == ("sentence-transformers/all-MiniLM-L6-v2", "main")
    assert [file for file in FILES if not any(fnmatch(file, one) for one in patterns)] == []
    for unread in ("pytorch_model.bin", "tf_model.h5", "README.md", "onnx/model.onnx"):
        assert not any(fnmatch(unread, one) for one in patterns)


def test_a_pickle_is_downloaded_only_if_it_may_be_read(downloads: Downloads) -> None:
    with pytest.raises(UserError):  # the folder is empty
        BertModel.from_pretrained("owner/model", allow_pickle=True)
    assert "pytorch_model*.bin" in downloads[0][2]


@pytest.mark.parametrize("name", ["bert-base-uncased", "bert-base-chinese", "roberta-base", "gpt2"])
def test_an_old_name_has_its_owner_added(downloads: Downloads, name: str) -> None:
    resolve(name)
    assert [call[0] for call in downloads] == [HUB_NAMES[name]]
    assert HUB_NAMES[name].endswith(f"/{name}")


def test_another_name_without_an_owner_is_not_looked_up(downloads: Downloads) -> None:
    message = "no model 'bert-base-uncasd' \\(did you mean 'bert-base-uncased'\\?\\): give a folder"
    with pytest.raises(UserError, match=message):
        resolve("bert-base-uncasd")
    assert not downloads


def test_a_folder_comes_before_a_name_on_the_hub(
    downloads: Downloads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    assert resolve("gpt2") == Path("gpt2")
    assert not downloads


@pytest.mark.parametrize("name", ["minilm", "folder"])
def test_only_a_model_from_a_hub_has_a_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=f"revision v2 is for a model from a hub, but '{name}' is"):
        resolve(name, "v2")
    assert resolve("folder", "main") == Path("folder")  # the reference's default


def test_an_unfinished_run_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "heedful.json").touch()
    with pytest.raises(UserError, match="training has not finished; continue it with --resume"):
        resolve(tmp_path)
    (tmp_path / "config.json").touch()  # a copy of a finished run without its manifest
    assert resolve(tmp_path) == tmp_path


def test_options_of_the_reference_reach_the_download(downloads: Downloads, tmp_path: Path) -> None:
    options: dict[str, Any] = {"cache_dir": tmp_path, "local_files_only": True, "token": "secret"}
    for kind in (BertModel, BertConfig, BertTokenizer):
        with pytest.raises(UserError):  # the folder is empty
            kind.from_pretrained("owner/model", **options, use_fast=True, trust_remote_code=True)
    with pytest.raises(UserError):
        BertModel.from_pretrained("owner/model")
    assert download_options == [options, options, options, {}]
    assert len(downloads) == 4
    with pytest.raises(UserError, match="has no argument 'from_tf'"):
        BertModel.from_pretrained("owner/model", from_tf=True)  # type: ignore[call-arg]
