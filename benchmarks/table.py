"""Format a row as lines of text, for the terminal and for docs/benchmarks.md."""

from benchmarks.results import Entry


def headings(entry: Entry) -> list[str]:
    """Return the column headings of a row."""
    units = {"rate": entry["unit"], "seconds": "s", "memory": "MiB"}
    return [
        *("", units[entry["measure"]], "× best peer", "× best in its format"),
        *("share of the peak", "peak MiB", "quality"),
    ]


def lines(entry: Entry) -> list[list[str]]:
    """Return a line for each arm: first heedful's, then the peers', the best first."""
    less_is_better = entry["measure"] != "rate"

    def sort_key(item: tuple[str, Entry]) -> tuple[bool, bool, float]:
        arm = item[1]
        value = arm.get("value", 0.0)
        return arm["peer"], "failed" in arm, value if less_is_better else -value

    return [_line(name, arm) for name, arm in sorted(entry["arms"].items(), key=sort_key)]


def _line(name: str, arm: Entry) -> list[str]:
    if "failed" in arm:
        return [name, *("",) * 5, f"failed: {arm['failed']}"]
    share = f"{arm['share']:.0%}" if "share" in arm else ""
    quality = ", ".join(f"{key} {_number(value)}" for key, value in arm["quality"].items())
    ratios = [_ratio(arm.get(key)) for key in ("ratio", "ratio_in_format")]
    return [name, _value(arm["value"]), *ratios, share, f"{arm['peak']:,}", quality]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _value(value: float) -> str:
    """Format a number with at least three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.5g}"
