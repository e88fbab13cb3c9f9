"""What the golden runs learn, and the inputs that they answer."""

RATES = ("--learning-rate", "5e-3", "--head-learning-rate", "1e-2")
BODY = ("--model", "body", *RATES, "--batch-size", "8")
MANY = ("--label-separator", ";")
PAIR = ("--text-pair", "reply")
OTHER = ("--text-pair", "other")

TRANSLATORS: dict[str, tuple[str, ...]] = {
    "start-shared": ("--vocab-size", "340"),
    "start-separate": ("--vocab-size", "340", "--separate-vocabularies", "--pre-norm"),
    "start-gru": ("--vocab-size", "340", "--arch", "rnn"),
    "start-lstm": (
        *("--vocab-size", "340", "--separate-vocabularies"),
        *("--arch", "rnn", "--cell", "lstm"),
    ),
}
"""Options of the translators that the runs start from."""

GERMAN = ("data/translate.de", "data/translate.en")


def _task(name: str, file: str, *options: str, epochs: int = 20) -> tuple[str, ...]:
    data = ("--train", f"data/{file}", *options)
    return (name, *data, *BODY, "--epochs", str(epochs), "--dropout", "0")


def _pretrain(model: str, *options: str, epochs: int = 120) -> tuple[str, ...]:
    data = ("--train", "data/pretrain.txt", "--model", model, "--max-length", "24")
    rates = ("--learning-rate", "5e-3", "--head-learning-rate", "5e-3", "--batch-size", "16")
    return ("pretrain", *data, *rates, *options, "--epochs", str(epochs), "--dropout", "0")


def _translate(start: str, rate: str, epochs: int = 60) -> tuple[str, ...]:
    learn = ("--learning-rate", rate, "--batch-size", "8", "--epochs", str(epochs))
    return ("translate", "--train", *GERMAN, "--model", start, *learn, "--dropout", "0")


RUNS: dict[str, tuple[str, ...]] = {
    "classify": _task("classify", "classify.csv"),
    "many": _task("classify", "many.csv", *MANY),
    "pair": _task("classify", "pairs.csv", *PAIR),
    "pruned": (
        *("classify", "--train", "data/classify.csv", "--model", "classify", "--prune", "0.4"),
        *(*RATES, "--epochs", "6"),
    ),
    "regress": _task("regress", "regress.csv", epochs=30),
    "tag": _task("tag", "tag.conll"),
    "spans": _task("tag", "tag.jsonl", "--scheme", "IOBES"),
    "answer": _task("answer", "answer.jsonl", "--stride", "6", epochs=40),
    "choose": _task("choose", "choose.jsonl", epochs=30),
    "embed": _task("embed", "embed.csv", *OTHER),
    "pretrain": _pretrain("body"),
    "masked": _pretrain("relative", "--objective", "mlm"),
    "writer": _task("generate", "generate.txt", epochs=40),
    "replies": _task("generate", "generate.csv", epochs=60),
    "translate": _translate("start-shared", "1e-2"),
    "separate": _translate("start-separate", "1e-2"),
    "gru": _translate("start-gru", "1e-2"),
    "lstm": _translate("start-lstm", "1e-2"),
}
"""Names of the golden runs, and the words after ``heedful train`` that they learn by."""

LONG = "the very very white tower stands and the old bridge stands and the house stands " * 3
CONTEXT = "Carla eats cheese in Oslo. the sky is blue. the sky is blue. the sky is blue. it is red."
TWEET = "@Ann lives near U.S.A. http://x.de/a?b=1 with a well-known dog."

ANSWERS: list[tuple[str, ...]] = [
    ("predict", "classify", "the blue horse sleeps", "the very red soup tastes", LONG),
    ("predict", "classify", "the green bridge", "--all-scores"),
    ("predict", "classify", LONG, "--long-text", "head-tail", "--all-scores"),
    ("predict", "many", "the red cat and the blue soup", "it is white", "--all-scores"),
    ("predict", "pair", "the cat is red", "--context", "no, it is not here", "--all-scores"),
    ("predict", "pair", "--input", "data/pairs.csv", *PAIR),
    ("predict", "pruned", "the blue horse sleeps", LONG, "--all-scores"),
    ("predict", "regress", "the bird is very very red", "the bird is green", LONG),
    ("predict", "tag", "Ann is in Paris", "Dan Miller lives near New Lima", TWEET),
    ("predict", "tag", TWEET, "--all-scores", "--aggregation", "average"),
    ("predict", "tag", "--input", "data/tag.conll"),
    ("predict", "spans", "Ann is in Paris", "Dan Miller lives near New Lima", TWEET),
    ("predict", "answer", "where is it?", "who eats?", "when is it?", "--context", CONTEXT),
    ("predict", "answer", "--input", "data/answer.jsonl", "--all-scores", "--top", "2"),
    ("predict", "choose", "what sleeps?", "the soup", "the bird", "the tower", "--all-scores"),
    ("predict", "choose", "--input", "data/choose.jsonl"),
    ("predict", "embed", "the red cat sleeps", LONG),
    ("predict", "embed", "the red cat sleeps", "--context", "a cat, red"),
    ("predict", "embed", "a soup, green", "--against", "data/pretrain.txt", "--top", "3"),
    ("predict", "sentences", "the red cat sleeps", LONG),
    ("predict", "pretrain", "the [MASK] is red. it is very [MASK].", "--top", "2"),
    ("predict", "pretrain", "the cat is red.", "--context", "it is very red."),
    ("predict", "masked", "the [MASK] is red. it is very [MASK].", "--top", "2"),
    ("score", "pretrain", "the cat is red.", "the red is cat.", "--all-scores"),
    ("score", "masked", "the cat is red."),
    ("predict", "writer", "the dog likes", "the bird", "--max-new-tokens", "12"),
    ("predict", "writer", "the dog likes", "--beam", "1", "--max-new-tokens", "12"),
    ("predict", "replies", "cat, red", "horse, white", "--all-scores", "--top", "2"),
    ("predict", "translate", "Das hund ist rot!", "Das katze sieht das pferd!"),
    ("predict", "translate", "Das hund ist rot!", "--alignments", "--all-scores", "--top", "2"),
    ("predict", "translate", "Das hund ist rot!", "--prefix", "The dog"),
    ("predict", "separate", "Das hund ist rot!", "Das katze sieht das pferd!"),
    ("predict", "gru", "Das hund ist rot!", "Das katze sieht das pferd!", "--alignments"),
    ("predict", "lstm", "Das hund ist rot!", "Das katze sieht das pferd!", "--beam", "1"),
    ("predict", "marian", "Das hund ist rot!", "Das katze sieht das pferd!", "--alignments"),
    ("tokenize", "The horses' tower (1990) tastes of ünicode ☃.", "--model", "body"),
]
"""Command lines whose rows are kept."""

EVALUATIONS: list[tuple[str, ...]] = [
    ("classify", "--data", "data/classify.csv"),
    ("many", "--data", "data/many.csv", *MANY),
    ("pair", "--data", "data/pairs.csv", *PAIR),
    ("pruned", "--data", "data/classify.csv"),
    ("regress", "--data", "data/regress.csv"),
    ("tag", "--data", "data/tag.jsonl"),
    ("tag", "--data", "data/tag.conll"),
    ("spans", "--data", "data/tag.jsonl"),
    ("answer", "--data", "data/answer.jsonl"),
    ("choose", "--data", "data/choose.jsonl"),
    ("embed", "--data", "data/embed.csv", *OTHER),
    ("pretrain", "--data", "data/pretrain.txt"),
    ("masked", "--data", "data/pretrain.txt"),
    ("writer", "--data", "data/generate.txt"),
    ("replies", "--data", "data/generate.csv"),
    ("translate", "--data", *GERMAN),
    ("separate", "--data", *GERMAN),
    ("gru", "--data", *GERMAN),
    ("lstm", "--data", *GERMAN),
    ("marian", "--data", *GERMAN),
]
"""Words after ``heedful evaluate`` whose metrics are kept."""

LOADED: list[tuple[str, str | list[str], str]] = [
    ("classify", "the blue horse sleeps", "label"),
    ("many", "the red cat and the blue soup", "label"),
    ("pair", ["the cat is red", "no, it is not"], "label"),
    ("tag", "Dan Miller lives near New Lima", "entities"),
    ("answer", ["where is it?", CONTEXT], "answer"),
    ("choose", ["what sleeps?", "the soup", "the bird", "the tower"], "text"),
    ("pretrain", "the cat [MASK] red.", "text"),
    ("replies", "cat, red", "text"),
    ("translate", "Das hund ist rot!", "text"),
    ("gru", "Das hund ist rot!", "text"),
    ("marian", "Das hund ist rot!", "text"),
]
"""Runs, what ``heedful.load(run)`` is given, and the attribute of its answer that is kept."""

TENSORS: list[tuple[str, str]] = [
    ("BertModel", "body"),
    ("BertModel", "relative"),
    ("BertModel", "classify"),
    ("BertForSequenceClassification", "classify"),
    ("BertForSequenceClassification", "pruned"),
    ("BertForTokenClassification", "tag"),
    ("BertForQuestionAnswering", "answer"),
    ("BertForPreTraining", "pretrain"),
    ("BertForNextSentencePrediction", "pretrain"),
    ("BertForMaskedLM", "masked"),
    ("BertLMHeadModel", "writer"),
]
"""Public classes and the folders they load, whose outputs are kept."""


def _again(task: str, file: str, model: str, *options: str, batch: int = 8) -> tuple[str, ...]:
    data = ("--train", f"data/{file}", "--model", model, "--batch-size", str(batch))
    return (task, *data, "--learning-rate", "3e-3", "--head-learning-rate", "6e-3", *options)


def _text(model: str, *options: str) -> tuple[str, ...]:
    return _again("pretrain", "pretrain.txt", model, "--max-length", "24", *options)


def _scratch(*options: str) -> tuple[str, ...]:
    data = ("--train", "data/pretrain.txt", "--vocabulary", "body", "--preset", "tiny")
    return ("pretrain", *data, "--max-length", "24", "--batch-size", "8", *options)


def _german(*options: str) -> tuple[str, ...]:
    rate = ("--learning-rate", "3e-3", "--batch-size", "8")
    return ("translate", "--train", *GERMAN, *rate, *options)


FEW = ("--batch-tokens", "32")
"""So that a step's gradient is that of several batches."""
DEV = ("--dev", "data/classify.csv", "--evaluate-every", "5")
DEV_GERMAN = ("--dev", *GERMAN, "--evaluate-every", "10")
NEW = ("--preset", "tiny", "--vocab-size", "340")

CURVES: dict[str, tuple[str, ...]] = {
    "classify": _again("classify", "classify.csv", "classify"),
    "classify-fresh": _again("classify", "classify.csv", "body", "--fresh-pooler"),
    "classify-windows": _again("classify", "classify.csv", "classify", "--max-length", "8", *FEW),
    "classify-dev": _again("classify", "classify.csv", "classify", *DEV),
    "classify-ema": _again("classify", "classify.csv", "classify", *DEV, "--ema", "0.9"),
    "classify-average": _again("classify", "classify.csv", "classify", *DEV, "--average", "3"),
    "classify-recomputed": _again("classify", "classify.csv", "body", "--gradient-checkpointing"),
    "classify-relative": _again("classify", "classify.csv", "relative", *FEW),
    "classify-weights": _again("classify", "classify.csv", "body", "--class-weights", "balanced"),
    "classify-many": _again("classify", "many.csv", "many", *MANY),
    "classify-pair": _again("classify", "pairs.csv", "pair", *PAIR, *FEW),
    "classify-pruned": _again("classify", "classify.csv", "pruned"),
    "classify-prune": _again("classify", "classify.csv", "classify", "--prune", "0.4"),
    "regress": _again("regress", "regress.csv", "regress"),
    "regress-fresh": _again("regress", "regress.csv", "body", *FEW),
    "tag": _again("tag", "tag.conll", "tag"),
    "tag-pieces-fresh": _again("tag", "tag.conll", "body", "--label-pieces", "all", *FEW),
    "tag-spans": _again("tag", "tag.jsonl", "spans", "--scheme", "IOBES"),
    "tag-spans-windows": _again("tag", "tag.jsonl", "body", "--max-length", "12", *FEW),
    "answer": _again("answer", "answer.jsonl", "answer"),
    "answer-windows-fresh": _again(
        *("answer", "answer.jsonl", "body", "--max-length", "20", "--stride", "4"), *FEW
    ),
    "choose": _again("choose", "choose.jsonl", "choose"),
    "choose-fresh": _again("choose", "choose.jsonl", "body", "--batch-tokens", "64"),
    "embed": _again("embed", "embed.csv", "embed", *OTHER),
    "embed-first": _again("embed", "embed.csv", "sentences", *OTHER, "--pooling", "cls"),
    "embed-scored": _again("embed", "scored.csv", "body", *OTHER, "--label", "score", *FEW),
    "pretrain": _text("pretrain"),
    "pretrain-few": _text("pretrain", *FEW, "--masking", "word", "--max-predictions", "2"),
    "pretrain-masked": _text("masked", "--objective", "mlm", *FEW),
    "pretrain-heads-fresh": _text("body", "--gradient-checkpointing"),
    "pretrain-tiny-fresh": _scratch(),
    "pretrain-keys-fresh": _scratch("--position-type", "relative_key"),
    "pretrain-queries-fresh": _scratch("--position-type", "relative_key_query"),
    "generate": _again("generate", "generate.txt", "writer"),
    "generate-recomputed": _again("generate", "generate.txt", "body", "--gradient-checkpointing"),
    "generate-pairs": _again("generate", "generate.csv", "replies", *FEW),
    "generate-pairs-fresh": _again("generate", "generate.csv", "body"),
    "translate": _german("--model", "translate"),
    "translate-few": _german("--model", "translate", *FEW, "--schedule", "inverse-sqrt"),
    "translate-dev": _german("--model", "translate", *DEV_GERMAN, "--average", "2"),
    "translate-ema": _german("--model", "translate", *DEV_GERMAN, "--ema", "0.9"),
    "translate-separate": _german("--model", "separate"),
    "translate-marian": _german("--model", "marian"),
    "translate-gru": _german("--model", "gru"),
    "translate-lstm": _german("--model", "lstm", *FEW),
    "translate-fresh": _german(*NEW),
    "translate-pre-norm-fresh": _german(*NEW, "--pre-norm", "--separate-vocabularies"),
    "translate-gru-fresh": _german(*NEW, "--arch", "rnn"),
    "translate-lstm-fresh": _german(*NEW, "--arch", "rnn", "--cell", "lstm"),
}
"""Names of trainings whose losses are compared between versions, and the words after ``heedful
train``. All but those called fresh go on from weights that are stored, though a head may be drawn.
"""
