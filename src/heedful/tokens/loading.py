"""Load the tokenizer of a folder, with one table of all kinds of tokenizers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from heedful.arguments import suggest_arguments
from heedful.errors import UserError, did_you_mean
from heedful.files import read_json_or_empty
from heedful.sources import resolve, takes_download_options
from heedful.tokens import bytelevel_folder, translation, unigram_folder, wordpiece_folder
from heedful.tokens.bert import (
    BertTokenizer,
    DistilBertTokenizer,
    ElectraTokenizer,
    MPNetTokenizer,
)
from heedful.tokens.folder import (
    ANY_CLASS,
    CONFIG,
    TOKENIZER_JSON,
    json_model_type,
    json_part,
    read_files,
)
from heedful.tokens.protocol import Tokenizer
from heedful.tokens.roberta import DebertaTokenizer, GPT2Tokenizer, RobertaTokenizer
from heedful.tokens.translation import MODEL_CONFIG, TranslationTokenizer
from heedful.tokens.unigram_tokenizer import (
    AlbertTokenizer,
    BigBirdTokenizer,
    DebertaV2Tokenizer,
    XLMRobertaTokenizer,
    XLNetTokenizer,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerKind:
    """A kind of tokenizer, and how to recognise its folders."""

    read: Callable[[Path], Tokenizer | TranslationTokenizer]
    classes: tuple[str, ...]
    """Its class names in ``tokenizer_config.json``, each also with the suffix ``Fast``."""
    model_types: tuple[str, ...]
    """The types of its models in ``config.json``."""
    compiled: str | None = None
    """The type of its model in ``tokenizer.json``; None if the kind has no such file."""
    is_in: Callable[[Path], bool] = lambda folder: False
    """Whether a folder that names neither a class nor a model type holds files of this kind."""


KINDS = (
    TokenizerKind(
        read=BertTokenizer.from_pretrained,
        classes=(wordpiece_folder.BERT.name,),
        model_types=("bert", "ernie"),
        compiled="WordPiece",
        is_in=lambda folder: (
            (folder / wordpiece_folder.VOCABULARY).is_file()
            or bool(json_part(read_files(folder), "model", "WordPiece"))
        ),
    ),
    TokenizerKind(
        read=DistilBertTokenizer.from_pretrained,
        classes=(wordpiece_folder.DISTILBERT.name,),
        model_types=("distilbert",),
        compiled="WordPiece",
    ),
    TokenizerKind(
        read=ElectraTokenizer.from_pretrained,
        classes=(wordpiece_folder.ELECTRA.name,),
        model_types=("electra",),
        compiled="WordPiece",
    ),
    TokenizerKind(
        read=MPNetTokenizer.from_pretrained,
        classes=(wordpiece_folder.MPNET.name,),
        model_types=("mpnet",),
        compiled="WordPiece",
    ),
    TokenizerKind(
        read=DebertaTokenizer.from_pretrained,
        classes=(bytelevel_folder.DEBERTA_KIND.name,),
        model_types=("deberta",),
        compiled="BPE",
        is_in=lambda folder: bytelevel_folder.holds(folder, bytelevel_folder.DEBERTA_KIND),
    ),
    TokenizerKind(
        read=GPT2Tokenizer.from_pretrained,
        classes=(bytelevel_folder.GPT2_KIND.name,),
        model_types=("gpt2",),
        compiled="BPE",
        # RoBERTa's vocabulary includes GPT-2's tokens.
        is_in=lambda folder: (
            bytelevel_folder.holds(folder, bytelevel_folder.GPT2_KIND)
            and not bytelevel_folder.holds(folder, bytelevel_folder.ROBERTA_KIND)
        ),
    ),
    TokenizerKind(
        read=RobertaTokenizer.from_pretrained,
        classes=(bytelevel_folder.ROBERTA_KIND.name,),
        model_types=("roberta",),
        compiled="BPE",
        is_in=lambda folder: (
            (folder / bytelevel_folder.MERGES).is_file()
            or bool(json_part(read_files(folder), "model", "BPE"))
        ),
    ),
    TokenizerKind(
        read=AlbertTokenizer.from_pretrained,
        classes=(unigram_folder.ALBERT.name,),
        model_types=("albert",),
        compiled="Unigram",
        is_in=lambda folder: unigram_folder.holds(folder, unigram_folder.ALBERT),
    ),
    TokenizerKind(
        read=XLNetTokenizer.from_pretrained,
        classes=(unigram_folder.XLNET.name,),
        model_types=("xlnet",),
        compiled="Unigram",
        is_in=lambda folder: unigram_folder.holds(folder, unigram_folder.XLNET),
    ),
    TokenizerKind(
        read=XLMRobertaTokenizer.from_pretrained,
        classes=(unigram_folder.XLM_ROBERTA.name,),
        model_types=("xlm-roberta",),
        compiled="Unigram",
        is_in=lambda folder: unigram_folder.holds(folder, unigram_folder.XLM_ROBERTA),
    ),
    TokenizerKind(
        read=BigBirdTokenizer.from_pretrained,
        classes=(unigram_folder.BIG_BIRD.name,),
        model_types=("big_bird",),
        compiled="Unigram",
    ),
    TokenizerKind(
        read=DebertaV2Tokenizer.from_pretrained,
        classes=(unigram_folder.DEBERTA_V2.name,),
        model_types=("deberta-v2",),
        compiled="Unigram",
        is_in=lambda folder: (
            (folder / unigram_folder.DEBERTA_V2.file).is_file()
            or unigram_folder.holds(folder, unigram_folder.DEBERTA_V2)
        ),
    ),
    TokenizerKind(
        read=TranslationTokenizer.from_pretrained,
        classes=translation.CLASSES,
        model_types=("marian", "heedful-rnn"),
        is_in=translation.is_translation_folder,
    ),
)
"""All kinds of tokenizers. The class that a folder names decides. Otherwise its model's type
decides, unless ``tokenizer.json`` is of another kind. Otherwise its files decide."""


@takes_download_options
@suggest_arguments
def load_tokenizer(
    name_or_folder: str | os.PathLike[str], revision: str | None = None
) -> Tokenizer | TranslationTokenizer:
    """Load the tokenizer of a model, of any supported class.

    If the folder's model has only one token type, like a RoBERTa with a BERT tokenizer, token types
    are disabled. Otherwise, second texts would have a type that the model lacks.

    Args:
        name_or_folder: a folder, a run, an installed model package or a hub name.
        revision: commit, tag or branch of a hub name.

    Raises:
        UserError: there is no such folder, it has no supported tokenizer, or a file is damaged.
    """
    folder = resolve(name_or_folder, revision)
    tokenizer = kind_of(folder).read(folder)
    if isinstance(tokenizer, TranslationTokenizer):
        return tokenizer
    if read_json_or_empty(folder / MODEL_CONFIG).get("type_vocab_size") == 1:
        tokenizer.disable_token_types()
    return tokenizer


def load_encoder_tokenizer(
    name_or_folder: str | os.PathLike[str], revision: str | None = None
) -> Tokenizer:
    """Load the tokenizer of an encoder model; see `load_tokenizer`.

    Raises:
        UserError: the model is a translator.
    """
    tokenizer = load_tokenizer(name_or_folder, revision)
    if isinstance(tokenizer, TranslationTokenizer):
        raise UserError(f"{name_or_folder}: holds a translator; give a model that encodes texts")
    return tokenizer


def kind_of(folder: Path) -> TokenizerKind:
    """Return the kind of the tokenizer in a folder.

    Raises:
        UserError: there is no tokenizer, or its kind is not supported.
    """
    model, path = read_json_or_empty(folder / MODEL_CONFIG), folder / CONFIG
    name = read_json_or_empty(path).get("tokenizer_class")
    if name is None:  # older folders store it in the model's config
        name, path = model.get("tokenizer_class"), folder / MODEL_CONFIG
    name = str(name or ANY_CLASS)
    if name.removesuffix("Fast") != ANY_CLASS:
        for kind in KINDS:
            if name.removesuffix("Fast") in kind.classes:
                return kind
        allowed = [each for kind in KINDS for each in kind.classes]
        raise UserError(
            f"{path}: tokenizer_class {name!r} is not supported{did_you_mean(name, allowed)}; "
            f"supported: {', '.join(allowed)}"
        )
    of_model = [kind for kind in KINDS if model.get("model_type") in kind.model_types]
    compiled = json_model_type(read_files(folder)) if of_model else None
    if of_model and compiled in (None, of_model[0].compiled):
        return of_model[0]
    # A model may use the tokenizer of another family: multilingual BERTs with XLM-RoBERTa's.
    if kinds := [*(kind for kind in KINDS if kind.is_in(folder)), *of_model]:
        return kinds[0]
    if (folder / "preprocessor_config.json").is_file():
        raise UserError(f"{folder}: its model reads images; give one that reads texts")
    raise UserError(
        f"{folder}: no tokenizer in it; expected vocab.txt, vocab.json with its other files, "
        f"{unigram_folder.ALBERT.file}, {unigram_folder.XLM_ROBERTA.file} or {TOKENIZER_JSON}"
    )
