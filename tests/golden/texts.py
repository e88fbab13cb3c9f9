"""Small training files for every task, all made by this module.

What they say is easy enough for a model of some thousand weights to be sure of, so that its answers
are the same on every processor.
"""

import csv
import json
import random
from collections.abc import Iterable
from pathlib import Path

ANIMALS = ("cat", "dog", "bird", "horse")
FOODS = ("bread", "apple", "cheese", "soup")
PLACES = ("house", "garden", "bridge", "tower")
COLOURS = ("red", "green", "blue", "white")
NAMES = ("Ann", "Ben", "Carla", "Dan Miller", "Eva")
CITIES = ("Rome", "Oslo", "Paris", "New Lima", "U.S.A.")
VERBS = {"animal": "sleeps", "food": "tastes", "place": "stands"}
NOUNS = {"animal": ANIMALS, "food": FOODS, "place": PLACES}
GERMAN = {
    **dict(zip(ANIMALS, ("Katze", "Hund", "Vogel", "Pferd"), strict=True)),
    **dict(zip(COLOURS, ("rot", "grün", "blau", "weiß"), strict=True)),
    "sees": "sieht",
    "likes": "mag",
    "the": "das",
    "is": "ist",
}
"""A language like German, without its endings."""


def _table(path: Path, header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])


def _lines(path: Path, lines: Iterable[object]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _objects(path: Path, rows: Iterable[dict[str, object]]) -> None:
    _lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def write_texts(folder: Path) -> None:
    """Write the files of all tasks, and the words and letters of a vocabulary for them."""
    draw = random.Random(0)
    _write_decisions(folder, draw)
    _write_names(folder, draw)
    _write_questions(folder, draw)
    _write_running_text(folder, draw)
    _write_pairs(folder)
    _write_vocabulary(folder)


def _write_decisions(folder: Path, draw: random.Random) -> None:
    kinds = [(kind, noun) for kind, nouns in NOUNS.items() for noun in nouns]
    single = [
        (f"the {'very ' * draw.randrange(3)}{colour} {noun} {VERBS[kind]}", kind)
        for kind, noun in kinds
        for colour in COLOURS
    ]
    _table(folder / "classify.csv", ("text", "label"), single)
    many = []
    for _ in range(60):
        chosen = draw.sample(list(NOUNS), draw.randrange(4))
        nouns = [draw.choice(NOUNS[kind]) for kind in chosen]
        text = " and ".join(f"the {draw.choice(COLOURS)} {noun}" for noun in nouns)
        many.append((text or f"it is {draw.choice(COLOURS)}", ";".join(sorted(chosen))))
    _table(folder / "many.csv", ("text", "label"), many)
    replies = {"agrees": "yes, it is", "denies": "no, it is not", "asks": "who says so?"}
    _table(
        folder / "pairs.csv",
        ("text", "reply", "label"),
        (
            (f"the {noun} is {colour}", f"{reply}{' here' * draw.randrange(2)}", label)
            for _, noun in kinds[::2]
            for colour in COLOURS[:2]
            for label, reply in replies.items()
        ),
    )
    _table(
        folder / "regress.csv",
        ("text", "label"),
        (
            (f"the {noun} is {'very ' * times}{colour}", times)
            for _, noun in kinds[:6]
            for colour in COLOURS[:2]
            for times in range(4)
        ),
    )
    _table(
        folder / "embed.csv",
        ("text", "other"),
        (
            (f"the {colour} {noun} {VERBS[kind]}", f"a {noun}, {colour}")
            for kind, noun in kinds
            for colour in COLOURS[:2]
        ),
    )
    _table(
        folder / "scored.csv",
        ("text", "other", "score"),
        (
            (f"the {colour} {noun}", f"a {other}", 3 * (noun == other) + (noun in ANIMALS))
            for colour in COLOURS[:2]
            for noun in (*ANIMALS[:2], *FOODS[:2])
            for other in (*ANIMALS[:2], *FOODS[:2])
        ),
    )


def _write_names(folder: Path, draw: random.Random) -> None:
    blocks, rows = [], []
    for number in range(60):
        name, city = draw.choice(NAMES), draw.choice(CITIES)
        middle = draw.choice(("is in", "lives near", "went, alone, to"))
        tail = draw.choice(("", " http://x.de/a?b=1", " with a well-known dog ."))
        text = f"{name} {middle} {city}{tail}"
        if number % 6 == 0:
            text, name, city = f"the {draw.choice(COLOURS)} dog sleeps near it", "", ""
        entities = []
        for part, label in ((name, "PER"), (city, "LOC")):
            if part:
                start = text.index(part)
                entities.append({"start": start, "end": start + len(part), "label": label})
        rows.append({"text": text, "entities": entities})
        tags = []
        for word in text.split(" "):
            where = [n for n, part in enumerate((name, city)) if word in part.split(" ")]
            tag = "O"
            if where:
                first = (name, city)[where[0]].split(" ")[0] == word
                tag = f"{'B' if first else 'I'}-{('PER', 'LOC')[where[0]]}"
            tags.append(f"{word} {tag}\n")
        blocks.append("".join(tags))
    (folder / "tag.conll").write_text("\n".join(blocks), encoding="utf-8")
    _objects(folder / "tag.jsonl", rows)


def _write_questions(folder: Path, draw: random.Random) -> None:
    rows: list[dict[str, object]] = []
    for number in range(60):
        name, food, city = draw.choice(NAMES), draw.choice(FOODS), draw.choice(CITIES[:4])
        filler = " the sky is blue." * draw.randrange(3)
        context = f"{name} eats {food} in {city}.{filler}"
        question, answer = (
            ("who eats?", name),
            ("what is eaten?", food),
            ("where is it?", city),
            ("when is it?", None),
        )[number % 4]
        answers = [] if answer is None else [{"text": answer, "start": context.index(answer)}]
        rows.append(
            {"id": str(number), "question": question, "context": context, "answers": answers}
        )
    _objects(folder / "answer.jsonl", rows)
    choices: list[dict[str, object]] = []
    for _ in range(60):
        wanted = draw.choice(list(NOUNS))
        texts = [draw.choice(NOUNS[kind]) for kind in NOUNS]
        right = texts[list(NOUNS).index(wanted)]
        draw.shuffle(texts)
        choices.append(
            {
                "question": f"what {VERBS[wanted]}?",
                "choices": [f"the {text}" for text in texts],
                "answer": texts.index(right),
            }
        )
    _objects(folder / "choose.jsonl", choices)


def _write_running_text(folder: Path, draw: random.Random) -> None:
    documents = []
    for noun in (*ANIMALS, *PLACES):
        for colour in COLOURS:
            kind = "animal" if noun in ANIMALS else "place"
            likes = draw.choice(FOODS)
            documents.append(
                f"The {noun} is {colour}. The {colour} {noun} {VERBS[kind]}. It is very {colour}. "
                f"Ann sees the {noun} and likes {likes}."
            )
    draw.shuffle(documents)
    (folder / "pretrain.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    _lines(
        folder / "generate.txt",
        (
            f"the {noun} likes {food}, and the {food} is {colour}."
            for noun, food, colour in zip(ANIMALS * 4, FOODS * 4, COLOURS * 4, strict=True)
        ),
    )
    _table(
        folder / "generate.csv",
        ("text", "label"),
        (
            (f"{noun}, {colour}", f"the {colour} {noun} sleeps.")
            for noun in ANIMALS
            for colour in COLOURS
        ),
    )


def _write_pairs(folder: Path) -> None:
    english = [
        f"the {one} {verb} the {other}"
        for one in ANIMALS
        for verb in ("sees", "likes")
        for other in ANIMALS
    ] + [f"the {noun} is {colour}" for noun in ANIMALS for colour in COLOURS]
    _lines(folder / "translate.en", (f"{text.capitalize()}." for text in english))
    _lines(
        folder / "translate.de",
        (" ".join(GERMAN[word] for word in text.split()).capitalize() + "!" for text in english),
    )


def _write_vocabulary(folder: Path) -> None:
    words = {*NAMES, *CITIES, *ANIMALS, *FOODS, *PLACES, *COLOURS, *VERBS.values()}
    words = {part for word in words for part in word.lower().replace(".", " ").split()}
    words -= {"miller", "u", "s", "a", "horse", "tastes"}  # to be in pieces
    words |= {"the", "very", "is", "it", "and", "in", "yes", "no", "not", "who", "what", "where"}
    words |= {"when", "eats", "sees", "likes", "near", "lives", "mill", "##er", "tast", "##es"}
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *sorted(words), *letters, *(f"##{one}" for one in letters), *".,:/?=!-"]
    (folder / "body").mkdir()
    _lines(folder / "body" / "vocab.txt", pieces)
