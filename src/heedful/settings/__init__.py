"""Settings of the commands. The docstring of a setting is also its help on the command line."""

from heedful.settings.answers import OutputSettings, PredictSettings
from heedful.settings.data import (
    ColumnSettings,
    DataFormat,
    DataSettings,
    FileSettings,
    ParallelSettings,
    Unnamed,
)
from heedful.settings.explaining import ExplainSettings, MethodName
from heedful.settings.export import ExportSettings
from heedful.settings.python import (
    EvaluateOptions,
    ExplainOptions,
    PredictOptions,
    TrainOptions,
    checked_options,
)
from heedful.settings.ranges import (
    AnswerPrecision,
    LongText,
    PrecisionName,
    in_range,
    refuse_options,
)
from heedful.settings.scoring import BleuTokenize, ScoreSettings
from heedful.settings.serving import ServeSettings
from heedful.settings.tasks import (
    TASKS,
    AnswerSettings,
    ChooseSettings,
    ClassifySettings,
    EmbedSettings,
    GenerateSettings,
    PretrainSettings,
    RegressSettings,
    TagSettings,
    TaskEntry,
    TranslateSettings,
)
from heedful.settings.teaching import TeacherSettings
from heedful.settings.training import (
    HEAD_RATE,
    HEAD_RATE_PER_OUTPUT,
    RunSettings,
    Schedule,
    TrainSettings,
    TranslateTrainSettings,
)
from heedful.settings.values import checked_value, checked_values
from heedful.settings.vocabulary import VocabularySettings

__all__ = [
    "HEAD_RATE",
    "HEAD_RATE_PER_OUTPUT",
    "TASKS",
    "AnswerPrecision",
    "AnswerSettings",
    "BleuTokenize",
    "ChooseSettings",
    "ClassifySettings",
    "ColumnSettings",
    "DataFormat",
    "DataSettings",
    "EmbedSettings",
    "EvaluateOptions",
    "ExplainOptions",
    "ExplainSettings",
    "ExportSettings",
    "FileSettings",
    "GenerateSettings",
    "LongText",
    "MethodName",
    "OutputSettings",
    "ParallelSettings",
    "PrecisionName",
    "PredictOptions",
    "PredictSettings",
    "PretrainSettings",
    "RegressSettings",
    "RunSettings",
    "Schedule",
    "ScoreSettings",
    "ServeSettings",
    "TagSettings",
    "TaskEntry",
    "TeacherSettings",
    "TrainOptions",
    "TrainSettings",
    "TranslateSettings",
    "TranslateTrainSettings",
    "Unnamed",
    "VocabularySettings",
    "checked_options",
    "checked_value",
    "checked_values",
    "in_range",
    "refuse_options",
]
