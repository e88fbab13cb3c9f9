"""``heedful vocabulary``: learn a vocabulary from plain text, and write it to a folder."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from heedful.errors import UserError, join_names
from heedful.files import check_not_input, new_folder, write_json
from heedful.reading.lines import check_file, read_lines, source_name
from heedful.settings import VocabularySettings
from heedful.tokens import (
    BertTokenizer,
    DebertaTokenizer,
    GPT2Tokenizer,
    RobertaTokenizer,
    Tokenizer,
    Vocabulary,
    bytelevel_folder,
    load_encoder_tokenizer,
    wordpiece_folder,
)
from heedful.tokens.folder import CONFIG, TOKENIZER_JSON
from heedful.tokens.learning import (
    FRAMINGS,
    count_words,
    learn_bytes,
    learn_unigram,
    learn_vocabulary,
)
from heedful.tokens.normalize import Normalizer
from heedful.tokens.roberta import ByteLevelTokenizer
from heedful.training.progress import counted

ALPHABET = 1000
"""Maximum number of distinct characters in a WordPiece vocabulary."""


def family_options(settings: VocabularySettings) -> str:
    """Return the options of ``heedful train pretrain`` that select the vocabulary's family."""
    if settings.kind == "wordpiece":
        return ""
    return f"--arch {settings.family} "


def learn(
    files: Sequence[Path], settings: VocabularySettings, out: Path, *, overwrite: bool = False
) -> Tokenizer:
    """Learn a vocabulary and write it into a folder that `load_tokenizer` reads.

    Args:
        files: plain text files, which may be compressed; they are streamed.
        settings: kind and size of the vocabulary, and the normalization of texts.
        out: the folder.
        overwrite: whether to replace an existing vocabulary.

    Raises:
        UserError: a file is missing or not text; the size is too small for the characters; or
            ``out`` exists and ``overwrite`` is false, or ``out`` is a file or holds other files.
    """
    if out.exists() and not overwrite:  # check before reading the files
        raise UserError(f"{out} exists; choose another folder or give --overwrite")
    ours = wordpiece_folder.FILES | bytelevel_folder.FILES | {TOKENIZER_JSON}
    if out.exists() and (not out.is_dir() or {path.name for path in out.iterdir()} - ours):
        raise UserError(f"--out {out} holds other files than a vocabulary; choose another folder")
    if not files:
        raise UserError("no text file given")
    for path in files:
        check_file(path)
    check_not_input("--out", out, files)
    tokenizer = _KINDS[settings.kind](
        counted(_lines(files, settings.encoding), "lines read"), settings
    )
    with new_folder(out, overwrite=overwrite) as folder:
        tokenizer.save_pretrained(folder)
    return tokenizer


def _wordpiece(texts: Iterable[str], settings: VocabularySettings) -> BertTokenizer:
    lower_case = not settings.cased
    strip_accents = lower_case if settings.strip_accents is None else settings.strip_accents
    normalizer = Normalizer(
        lower_case=lower_case, strip_accents=strip_accents, split_ideographs=True, never_split=()
    )
    words = count_words(texts, normalizer)
    tokens = learn_vocabulary(words, size=settings.size, alphabet=settings.alphabet or ALPHABET)
    return BertTokenizer(
        Vocabulary(tokens), do_lower_case=lower_case, strip_accents=settings.strip_accents
    )


def _bytes(texts: Iterable[str], settings: VocabularySettings) -> Tokenizer:
    tokens, merges = learn_bytes(texts, size=settings.size, arch=settings.family)
    tokenizer = _BYTE_LEVEL[settings.family]
    return tokenizer(Vocabulary(tokens, tokenizer.kind.special), merges)


def _unigram(texts: Iterable[str], settings: VocabularySettings) -> Tokenizer:
    with TemporaryDirectory() as name:
        folder = Path(name)
        compiled = learn_unigram(texts, size=settings.size, arch=settings.family)
        write_json(folder / TOKENIZER_JSON, compiled)
        write_json(folder / CONFIG, {"tokenizer_class": FRAMINGS[settings.family].tokenizer})
        return load_encoder_tokenizer(folder)


_BYTE_LEVEL: dict[str, type[ByteLevelTokenizer]] = {
    "roberta": RobertaTokenizer,
    "gpt2": GPT2Tokenizer,
    "deberta": DebertaTokenizer,
}
_KINDS: dict[str, Callable[[Iterable[str], VocabularySettings], Tokenizer]] = {
    "wordpiece": _wordpiece,
    "bpe": _bytes,
    "unigram": _unigram,
}


def _lines(files: Sequence[Path], encoding: str) -> Iterator[str]:
    """Yield the lines of all files, without line endings.

    Raises:
        UserError: all files are blank.
    """
    is_blank = True
    for path in files:
        for line in read_lines(path, encoding=encoding):
            is_blank = is_blank and not line.strip()
            yield line.rstrip("\r\n")
    if is_blank:
        raise UserError(f"{join_names([source_name(path) for path in files])}: no words in it")
