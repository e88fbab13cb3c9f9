"""``python -m benchmarks.page``: make the tables of docs/benchmarks.md from the results.

For each kind of CPU and number of threads, each row is the newest that was measured.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.race import ROOT
from benchmarks.results import FOLDER, Entry, read
from benchmarks.rows import ROWS
from benchmarks.table import headings, lines

PAGE = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def newest(folder: Path) -> dict[tuple[str, int], dict[str, Entry]]:
    """Return by CPU and threads, and by row, what was measured last."""
    groups: dict[tuple[str, int], dict[str, Entry]] = {}
    for path in sorted(folder.glob("*.json")):
        kept = read(path)
        for entry in kept["rows"]:
            rows = groups.setdefault((kept["machine"]["cpu"], entry["threads"]), {})
            if entry["row"] not in rows or rows[entry["row"]]["when"] <= entry["when"]:
                rows[entry["row"]] = entry
    return groups


def text_of(folder: Path) -> str:
    """Return the tables, as Markdown."""
    parts = []
    for (cpu, threads), rows in newest(folder).items():
        parts += [f"## {cpu}, {_counted(threads, 'thread')}", ""]
        order = [name for name in ROWS if name in rows] + sorted(set(rows) - set(ROWS))
        for name in order:
            parts += [*_section(name, rows[name]), ""]
    return "\n".join(parts)


def _section(name: str, entry: Entry) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield f"{entry['title'][0].upper()}{entry['title'][1:]}. {_how(entry)}"
    yield ""
    columns = headings(entry)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join('---' if c in ('', 'quality') else '---:' for c in columns)}|"
    for cells in lines(entry):
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _how(entry: Entry) -> str:
    """Say how it was measured."""
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
        f"{_counted(entry['laps'], 'lap')}{size}, {entry['when'][:10]}: `{entry['command']}`; "
        f"GFLOP/s at best: {ceilings}; torch {torch}; {versions}."
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s'[: number != 1]}"


def filled(page: str, tables: str) -> str:
    """Return the page with these tables between its marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def main() -> None:
    """Write the page."""
    page = filled(PAGE.read_text(encoding="utf-8"), text_of(FOLDER))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
