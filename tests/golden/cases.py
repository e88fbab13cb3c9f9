"""What the golden runs learn, and what they are asked."""

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
