"""Configuration of ERNIE, with the reference's key names."""

from typing import ClassVar

from heedful.models.bert.config import BertConfig
from heedful.models.configs import check_booleans, check_sizes
from heedful.models.stored_config import configuration


@configuration
class ErnieConfig(BertConfig):
    """Sizes and options of an ERNIE model: those of BERT, and task types.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """

    MODEL_TYPE: ClassVar[str] = "ernie"

    task_type_vocab_size: int = 3
    """Number of task types (Sun et al. 2020, section 4.1)."""
    use_task_id: bool = False
    """Whether the model has task type embeddings; ERNIE 1.0 has none."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # a dataclass with slots has no super() of its own
        check_sizes(self, ("task_type_vocab_size",))
        check_booleans(self, ("use_task_id",))
