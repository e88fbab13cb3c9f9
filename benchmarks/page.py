"""``python -m benchmarks.page``: write the tables of docs/benchmarks.md from the stored results.

For each type of CPU and number of threads, the page shows the latest result of each row.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import FOLDER, Entry, read
from benchmarks.rows import ROWS
from benchmarks.runner import ROOT
from benchmarks.table import headings, lines

PAGE = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def newest(folder: Path) -> dict[tuple[str, int], dict[str, Entry]]:
    """Return the latest result of each row, by CPU and number of threads."""
    groups: dict[tuple[str, int], dict[str, Entry]] = {}
    for path in sorted(folder.glob("*.json")):
        kept = read(path)
        for entry in kept["rows"]:
            rows = groups.setdefault((kept["machine"]["cpu"], entry["threads"]), {})
            if entry["row"] not in rows or rows[entry["row"]]["when"] <= entry["when"]:
                rows[entry["row"]] = entry
    return groups


def text_of(folder: Path) -> str:
    """Return the tables as Markdown."""
    parts = []
    for (cpu, threads), rows in newest(folder).items():
        parts += [f"## {cpu}, {_with_unit(threads, 'thread')}", ""]
        order = [name for name in ROWS if name in rows] + sorted(set(rows) - set(ROWS))
        for name in order:
            parts += [*_section(name, rows[name]), ""]
    return "\n".join(parts)


def _section(name: str, entry: Entry) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    title = ROWS[name].title if name in ROWS else entry["title"]
    yield f"{title[0].upper()}{title[1:]}. {_conditions(entry)}"
    yield ""
    columns = headings(entry)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join('---' if c in ('', 'quality') else '---:' for c in columns)}|"
    for cells in lines(entry):
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _conditions(entry: Entry) -> str:
    """Describe how a row was measured."""
    best = {name: max(rates.values()) for name, rates in entry["ceilings"].items()}
    ceilings = ", ".join(f"{name} {rate:,.0f}" for name, rate in best.items())
    versions = ", ".join(
        f"{name} {version}"
        for name, version in entry["versions"]["peers"].items()
        if name not in ("torch", "tokenizers")
    )
    size = "" if entry["size"] == 1 else f", {entry['size']:.0%} of the usual work"
    torch = entry["versions"]["heedful"].get("torch", "")
    return (
        f"{_with_unit(entry['laps'], 'lap')}{size}, {entry['when'][:10]}: `{entry['command']}`; "
        f"peak GFLOP/s: {ceilings}; torch {torch}; {versions}."
    )


def _with_unit(number: int, unit: str) -> str:
    return f"{number} {unit}{'s'[: number != 1]}"


def fill(page: str, tables: str) -> str:
    """Replace the tables between the two markers of the page."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def main() -> None:
    """Write the page."""
    page = fill(PAGE.read_text(encoding="utf-8"), text_of(FOLDER))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
