"""``heedful vocabulary``: plain text in, a folder with a WordPiece vocabulary out."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from heedful.errors import UserError, listed
from heedful.files import new_folder
from heedful.reading.lines import check_file, read_lines, source_name
from heedful.settings import VocabularySettings
from heedful.tokens import BertTokenizer, Vocabulary
from heedful.tokens.learning import count_words, learn_vocabulary
from heedful.tokens.normalize import Normalizer
from heedful.tokens.wordpiece_folder import FILES
from heedful.training.progress import counted


def learn(
    files: Sequence[Path], settings: VocabularySettings, out: Path, *, overwrite: bool = False
) -> BertTokenizer:
    """Learn a vocabulary and write it into a folder that ``BertTokenizer.from_pretrained`` reads.

    Args:
        files: plain text, also ``.gz``, streamed.
        settings: size of the vocabulary, and what is done to a text before it is split.
        out: the folder.
        overwrite: whether to replace what stands there.

    Raises:
        UserError: a file is missing or no text, there are too few tokens for its characters, or
            the folder exists, and ``overwrite`` is false or it holds anything else.
    """
    if out.exists() and not overwrite:  # now, not after all has been read
        raise UserError(f"{out} exists; choose another folder or give --overwrite")
    if out.is_file() or (out.is_dir() and {path.name for path in out.iterdir()} - FILES):
        raise UserError(f"--out {out} holds other files than a vocabulary; choose another folder")
    if not files:
        raise UserError("no text file given")
    for path in files:
        check_file(path)
    lower_case = not settings.cased
    strip_accents = lower_case if settings.strip_accents is None else settings.strip_accents
    normalizer = Normalizer(
        lower_case=lower_case, strip_accents=strip_accents, split_ideographs=True, never_split=()
    )
    words = count_words(counted(_lines(files), "lines read"), normalizer)
    if not words:
        raise UserError(f"{listed([source_name(path) for path in files])}: no words in there")
    tokens = learn_vocabulary(words, size=settings.size, alphabet=settings.alphabet)
    tokenizer = BertTokenizer(
        Vocabulary(tokens), do_lower_case=lower_case, strip_accents=settings.strip_accents
    )
    with new_folder(out, overwrite=overwrite) as folder:
        tokenizer.save_pretrained(folder)
    return tokenizer


def _lines(files: Sequence[Path]) -> Iterator[str]:
    for path in files:
        yield from read_lines(path)
