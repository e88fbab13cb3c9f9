"""An export may replace only files that an export writes."""

import pytest

from heedful.interop import FORMATS
from heedful.tokens.unigram_folder import ALBERT, BIG_BIRD, DEBERTA_V2, XLM_ROBERTA, XLNET


@pytest.mark.parametrize("name", ["hf", "onnx", "openvino", "sentence-transformers"])
def test_vocabularies_of_sentencepiece_are_replaced(name: str) -> None:
    kinds = (ALBERT, BIG_BIRD, DEBERTA_V2, XLM_ROBERTA, XLNET)
    assert FORMATS[name].files.issuperset(kind.file for kind in kinds)
