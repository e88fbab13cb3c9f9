"""Code in the style of the usual BERT tutorials runs once the import is changed.

Each function is one tutorial's code. It runs with the reference and with heedful, on the same
folder, and returns what both must agree on.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import heedful

TEXTS = ["the sky is blue, very blue", "green grass", "an apple was red!"]


@pytest.fixture(scope="module")
def folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with a tokenizer and a model that has all weights, saved by heedful."""
    path = tmp_path_factory.mktemp("tutorials")
    heedful.BertTokenizer.from_pretrained(tiny_model, model_max_length=40).save_pretrained(path)
    torch.manual_seed(0)
    heedful.BertForPreTraining.from_pretrained(tiny_model).save_pretrained(path)
    return path


def classify(library: ModuleType, folder: Path) -> Any:
    """Fine-tune a classifier for a few steps, freeze its body, and save it."""
    tokenizer = library.BertTokenizer.from_pretrained(folder, do_lower_case=True)
    ids, masks = [], []
    for text in TEXTS:
        encoded = tokenizer.encode_plus(
            text,
            add_special_tokens=True,
            max_length=40,
            padding="max_length",
            truncation=True,
            return_attention_mask=True,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        ids.append(encoded["input_ids"])
        masks.append(encoded["attention_mask"])
    ids, masks, labels = torch.cat(ids), torch.cat(masks), torch.tensor([0, 1, 1])
    model = library.BertForSequenceClassification.from_pretrained(
        folder,
        num_labels=2,
        id2label={0: "no", 1: "yes"},
        label2id={"no": 0, "yes": 1},
        output_attentions=False,
        output_hidden_states=False,
    )
    with torch.no_grad():
        model.classifier.weight.copy_(torch.linspace(-1, 1, 32).view(2, 16))
        model.classifier.bias.zero_()
    for parameter in model.base_model.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2, eps=1e-8)
    scheduler = library.get_linear_schedule_with_warmup(
        optimizer, num_warmup_steps=0, num_training_steps=4
    )
    model.eval()
    losses = [model.num_labels]
    for _ in range(3):
        model.zero_grad()
        result = model(
            ids, token_type_ids=None, attention_mask=masks, labels=labels, return_dict=True
        )
        losses.append(result.loss.item())
        result.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    return losses, result.logits, model.config.id2label, model.config.label2id


def word_vectors(library: ModuleType, folder: Path) -> Any:
    """Sum the last hidden states of each token."""
    tokenizer = library.BertTokenizer.from_pretrained(folder)
    model = library.BertModel.from_pretrained(folder, output_hidden_states=True)
    model.eval()
    tokens = tokenizer.tokenize("[CLS] " + TEXTS[0] + " [SEP]")
    ids = tokenizer.convert_tokens_to_ids(tokens)
    with torch.no_grad():
        outputs = model(torch.tensor([ids]), torch.tensor([[1] * len(tokens)]))
    hidden_states = outputs[2]
    layers = torch.stack(hidden_states, dim=0).squeeze(1).permute(1, 0, 2)
    return list(tokenizer.vocab.keys())[5:9], tokens, len(hidden_states), layers[:, -2:].sum(1)


def own_head(library: ModuleType, folder: Path) -> Any:
    """Put a custom module on the pooled output."""

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = library.BertModel.from_pretrained(folder, return_dict=False)
            self.linear = nn.Linear(self.bert.config.hidden_size, 3)
            nn.init.constant_(self.linear.weight, 0.1)
            nn.init.zeros_(self.linear.bias)

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            _, pooled = self.bert(input_ids=ids, attention_mask=mask)
            _, again = self.bert(input_ids=ids, attention_mask=mask, return_dict=False)
            torch.testing.assert_close(pooled, again)
            output: torch.Tensor = self.linear(pooled)
            return output

    tokenizer = library.BertTokenizerFast.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=40, return_tensors="pt")
    return Classifier().eval()(batch["input_ids"], batch["attention_mask"])


def masked_words(library: ModuleType, folder: Path) -> Any:
    """Mask some tokens, never special ones, and compute the loss."""
    tokenizer = library.BertTokenizer.from_pretrained(folder)
    model = library.BertForMaskedLM.from_pretrained(folder).eval()
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    labels = inputs.input_ids.detach().clone()
    special = [
        tokenizer.get_special_tokens_mask(row, already_has_special_tokens=True)
        for row in labels.tolist()
    ]
    chosen = (labels % 3 == 0) & ~torch.tensor(special, dtype=torch.bool)
    labels[~chosen] = -100
    inputs["input_ids"][chosen] = tokenizer.convert_tokens_to_ids(tokenizer.mask_token)
    model.gradient_checkpointing_enable()
    loss = model(**inputs, labels=labels).loss
    model.gradient_checkpointing_disable()
    best = model(**inputs).logits[0].argmax(-1)
    return loss, tokenizer.decode(best), model.num_parameters()


def answers(library: ModuleType, folder: Path) -> Any:
    """Find an answer's tokens by its characters, and read the answer from the logits."""
    tokenizer = library.BertTokenizerFast.from_pretrained(folder)
    question, context = "the sky is?", TEXTS[0]
    start = context.index("blue")
    encodings = tokenizer([question], [context], truncation=True, padding=True)
    positions = [
        encodings.char_to_token(0, start, sequence_index=1),
        encodings.char_to_token(0, start + 3, 1),
        encodings.char_to_token(0, context.index(" "), 1),
        encodings.char_to_token(0),
    ]
    spans = [encodings.token_to_chars(0, position) for position in (0, positions[0])]
    model = library.BertForQuestionAnswering.from_pretrained(folder).eval()
    with torch.no_grad():
        model.qa_outputs.weight.copy_(torch.linspace(-1, 1, 32).view(2, 16))
        model.qa_outputs.bias.zero_()
    ids = tokenizer.encode(question, context)
    second = ids.index(tokenizer.sep_token_id) + 1
    types = [0] * second + [1] * (len(ids) - second)
    outputs = model(torch.tensor([ids]), token_type_ids=torch.tensor([types]))
    tokens = tokenizer.convert_ids_to_tokens(ids)
    first, last = outputs.start_logits.argmax(), outputs.end_logits.argmax()
    return positions, spans[0], tuple(spans[1]), tokens, int(first), int(last), outputs.end_logits


def words_of_tokens(library: ModuleType, folder: Path) -> Any:
    """Assign each word's label to its first token."""
    tokenizer = library.BertTokenizerFast.from_pretrained(folder)
    words, tags = [["green", "grasses"], ["very", "blue", "sky"]], [[1, 2], [0, 0, 2]]
    inputs = tokenizer(words, truncation=True, is_split_into_words=True)
    labels = []
    for i, tag in enumerate(tags):
        previous, row = None, []
        for word in inputs.word_ids(batch_index=i):
            row.append(-100 if word is None or word == previous else tag[word])
            previous = word
        labels.append(row)
    return labels, inputs.tokens(batch_index=1)


def attention(library: ModuleType, folder: Path) -> Any:
    """Return the attention weights of a pair, as a viewer needs them."""
    tokenizer = library.BertTokenizer.from_pretrained(folder)
    model = library.BertModel.from_pretrained(folder, output_attentions=True).eval()
    inputs = tokenizer.encode_plus(*TEXTS[:2], return_tensors="pt")
    weights = model(inputs["input_ids"], token_type_ids=inputs["token_type_ids"])[-1]
    rows = tokenizer.build_inputs_with_special_tokens([9, 10], [11])
    types = tokenizer.create_token_type_ids_from_sequences([9, 10], [11])
    return weights, rows, types, tokenizer.num_special_tokens_to_add(pair=True)


def new_tokens(library: ModuleType, folder: Path) -> Any:
    """Let the vocabulary grow by words of a domain and by marks, and save it all."""
    tokenizer = library.BertTokenizerFast.from_pretrained(folder)
    model = library.BertForMaskedLM.from_pretrained(folder).eval()
    added = tokenizer.add_tokens(["bluegrass", "Very red"])
    marks = {"additional_special_tokens": ["[E1]", "[/E1]"]}
    added += tokenizer.add_special_tokens(marks)
    model.resize_token_embeddings(len(tokenizer))
    with torch.no_grad():
        model.get_input_embeddings().weight[-added:] = torch.linspace(-1, 1, 16)
        model.cls.predictions.bias[-added:] = 0.5
    with tempfile.TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        model.save_pretrained(saved)
        again = library.BertTokenizerFast.from_pretrained(saved)
        model = library.BertForMaskedLM.from_pretrained(saved).eval()
    text = "[E1]Bluegrass[/E1] is very RED, bluegrasses"
    batch = again(text, return_tensors="pt")
    ids = batch["input_ids"][0].tolist()
    return added, len(again), ids, tokenizer.encode(text), again.decode(ids), model(**batch).logits


def words_and_settings(library: ModuleType, folder: Path) -> Any:
    """Ask where words come from, and what a tokenizer and a model are."""
    tokenizer = library.BertTokenizerFast.from_pretrained(folder)
    inputs = tokenizer(["green grasses", "blue sky, a"], ["very red", "an apple"], padding=True)
    words = [
        [inputs.word_to_tokens(1, 0), inputs.word_to_tokens(0, 1), inputs.word_to_tokens(0, 9)],
        [inputs.word_to_tokens(1, 1, sequence_index=1), inputs.word_to_tokens(0)],
        [inputs.word_to_chars(1, 2), inputs.word_to_chars(0, 1, 1), inputs.word_to_chars(0)],
        [inputs.token_to_word(1, 2), inputs.token_to_word(0), inputs.token_to_word(2)],
        [inputs.char_to_word(1, 8), inputs.char_to_word(0, 5, 1), inputs.char_to_word(0, 5)],
    ]
    model = library.BertForMaskedLM.from_pretrained(folder)
    model.tie_weights()
    weight = model.get_output_embeddings().weight
    model.config.use_cache = False
    model.config.pad_token_id = tokenizer.pad_token_id
    model.config.id2label = {0: "good", 1: "bad"}
    again = library.BertConfig.from_dict(json.loads(model.config.to_json_string()))
    return [
        *(words, tokenizer.special_tokens_map, {*tokenizer.all_special_ids}, tokenizer.is_fast),
        *(tokenizer.model_input_names, model.config.model_type, again.hidden_size),
        *(again.use_cache, again.pad_token_id, again.id2label),
        weight is model.get_input_embeddings().weight,
        [model.num_parameters(), model.num_parameters(only_trainable=True)],
    ]


def own_model(library: ModuleType, folder: Path) -> Any:
    """Derive a model from the base class, fine-tune it, and save it after each step."""

    class Classifier(library.BertPreTrainedModel):  # type: ignore[name-defined, misc]
        def __init__(self, config: Any, layers: int = 1) -> None:
            super().__init__(config)
            self.num_labels, self.layers = config.num_labels, layers
            self.bert = library.BertModel(config)
            self.dropout = nn.Dropout(config.hidden_dropout_prob)
            self.classifier = nn.Linear(config.hidden_size, config.num_labels)
            self.init_weights()

        def forward(self, ids: Any, attention_mask: Any, labels: Any) -> Any:
            outputs = self.bert(ids, attention_mask=attention_mask, output_hidden_states=True)
            summed = torch.stack(outputs.hidden_states[-self.layers :]).sum(0)
            logits = self.classifier(self.dropout(summed[:, 0]))
            return nn.CrossEntropyLoss()(logits, labels.view(-1)), logits

    tokenizer = library.BertTokenizer.from_pretrained(folder, local_files_only=True)
    config = library.BertConfig.from_pretrained(folder)
    config.num_labels = 3
    config.hidden_dropout_prob = 0.2
    model = Classifier.from_pretrained(folder, config=config, layers=2, cache_dir="unused")
    with torch.no_grad():
        model.classifier.weight.copy_(torch.linspace(-1, 1, 48).view(3, 16))
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    mask, labels = batch["attention_mask"].float(), torch.tensor([[0], [2], [1]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with tempfile.TemporaryDirectory() as saved:
        for _ in range(2):
            loss, _ = model(batch["input_ids"], mask, labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            model.save_pretrained(saved)
        again = Classifier.from_pretrained(saved, layers=2)
    return losses, again(batch["input_ids"], mask, labels), again.config.num_labels


def own_classifier(library: ModuleType, folder: Path) -> Any:
    """Replace the classifier of a model by layers of one's own, and train only these."""
    model = library.BertForTokenClassification.from_pretrained(folder, num_labels=2)
    model.classifier = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 5))
    model.dropout = nn.Dropout(0.0)
    for parameter in model.classifier.parameters():
        nn.init.constant_(parameter, 0.2)
    for parameter in model.bert.parameters():
        parameter.requires_grad = False
    model.config.use_cache = False
    model.num_labels = 5
    model.train()
    batch = library.BertTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    model.bert.eval()
    outputs = model(**batch, labels=batch["input_ids"] % 5)
    outputs.loss.backward()
    return outputs.loss, outputs.logits, model.classifier[0].weight.grad


def loaders(library: ModuleType, folder: Path) -> Any:
    """Encode each text alone, and let a data loader stack the encodings in two epochs."""
    tokenizer = library.BertTokenizer.from_pretrained(folder, use_fast=True)
    options = {"padding": "max_length", "max_length": 12, "return_tensors": "pt"}
    data = [tokenizer(text, truncation=True, **options) for text in TEXTS]
    model = library.BertModel.from_pretrained(folder, low_cpu_mem_usage=False)
    states = []
    for _ in range(2):
        for batch in torch.utils.data.DataLoader(data, batch_size=2):  # type: ignore[arg-type]
            ids, mask = batch["input_ids"].squeeze(1), batch["attention_mask"]
            states.append(model(ids, attention_mask=mask)[0][:, 0])
    shared = model(ids.repeat(3, 1), attention_mask=torch.ones(1, 12))[0]
    copied = data[0].copy()
    copied["input_ids"] = None
    return states, shared, data[0]["input_ids"], data[0].data["attention_mask"]


def tokens_and_ids(library: ModuleType, folder: Path) -> Any:
    """Add special tokens to tokens and to ids."""
    tokenizer = library.BertTokenizer.from_pretrained(folder)
    first, second = (tokenizer.tokenize(text) for text in TEXTS[:2])
    ids = tokenizer.convert_tokens_to_ids(first)
    row = tokenizer.prepare_for_model(ids, max_length=9, truncation=True, return_tensors="pt")
    pair = tokenizer.encode_plus(first, second, max_length=20, padding="max_length")
    return [
        *(tokenizer.encode(first), tokenizer.encode(ids), tokenizer.encode(first, second)),
        *(tokenizer.encode(first, add_special_tokens=False), row["input_ids"], dict(pair)),
        tokenizer.encode_plus(first, return_tensors="pt")["token_type_ids"],
    ]


def next_sentences(library: ModuleType, folder: Path) -> Any:
    """Compute the loss of labels in columns, and of flat ones."""
    model = library.BertForPreTraining.from_pretrained(folder)
    ids = torch.arange(5, 29).view(2, 12)
    column = torch.tensor([[0], [1]])
    losses = [model(ids, labels=ids, next_sentence_label=column).loss]
    return [*losses, model(ids, labels=ids.flatten(), next_sentence_label=column.flatten()).loss]


def layers(library: ModuleType, folder: Path) -> Any:
    """Call the embeddings and a layer alone, remove a layer, and save the model."""
    model = library.BertForTokenClassification.from_pretrained(folder)
    model.eval()
    ids = torch.arange(5, 29).view(2, 12)
    embedded = model.bert.embeddings(ids, token_type_ids=ids % 2)
    first = model.bert.encoder.layer[0](model.bert.embeddings(ids))[0]
    model.bert.encoder.layer = model.bert.encoder.layer[1:]
    model.config.num_hidden_layers = 1
    states = model.bert(ids, output_hidden_states=True).hidden_states
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        again = library.BertModel.from_pretrained(saved)
    return embedded, first, states, again.config.num_hidden_layers, again(ids)[0]


def next_words(library: ModuleType, folder: Path) -> Any:
    """Write a text word by word, with the cache of earlier calls."""
    model = library.BertLMHeadModel.from_pretrained(folder, is_decoder=True)
    ids, past, words = torch.arange(5, 11).view(2, 3), None, []
    with torch.no_grad():
        for _ in range(4):
            output = model(ids, past_key_values=past)
            ids, past = output.logits[:, -1:].argmax(-1), output.past_key_values
            words.append(ids.tolist())
    scored = model(torch.arange(5, 11).view(2, 3), labels=torch.arange(5, 11).view(2, 3))
    return words, scored.loss, scored.logits.argmax(-1)


TUTORIALS = [
    *(classify, word_vectors, own_head, masked_words, answers, words_of_tokens, attention),
    *(new_tokens, words_and_settings, own_model, own_classifier, loaders, tokens_and_ids),
    *(next_sentences, layers, next_words),
]


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.__name__)
def test_it_runs_with_both(folder: Path, tutorial: Callable[[ModuleType, Path], Any]) -> None:
    ours, theirs = (list(_values(tutorial(lib, folder))) for lib in (heedful, transformers))
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        if isinstance(their, torch.Tensor):
            torch.testing.assert_close(our, their, rtol=1e-4, atol=1e-5)
        elif isinstance(their, float):
            assert our == pytest.approx(their, rel=1e-4)
        else:
            assert our == their


def _values(result: Any) -> Iterator[Any]:
    """Yield the values of nested tuples and lists."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from _values(part)
    elif isinstance(result, dict):
        yield from _values(list(result.values()))
    else:
        yield result
