"""Files dropped on the page come back as CSV with the answers of the run."""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests.browser import Browser, assert_accessible
from tests.serving.browsing import all_of, by_id, is_wide, open_run, text_of, wait
from tests.serving.conftest import Live

from heedful.errors import UserError
from heedful.reading.delimited import csv_rows, delimiter_of, named_delimiter, tsv_rows

TEXTS = [
    "the blue horse sleeps",
    'the "red", soup\r\ntastes 🎉',
    "=HYPERLINK(1)",
    "\n=1",
    "\uff1d1",
    "-5",
    "",
    "<b>the</b> old bridge",
]


def choose_file(browser: Browser, path: Path) -> None:
    browser.driver.execute_script("document.getElementById('files').open = true")
    by_id(browser, "file").send_keys(str(path))
    wait(browser, lambda: by_id(browser, "file-form").is_displayed() or problem(browser))


def problem(browser: Browser) -> str:
    return text_of(browser, "file-problem")


def answer_all(browser: Browser) -> None:
    by_id(browser, "file-start").click()
    wait(browser, lambda: not by_id(browser, "file-stop").is_displayed())


def saved(browser: Browser, folder: Path) -> str:
    """Save the file that came back, and return its contents."""
    browser.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    link = by_id(browser, "file-save")
    path = folder / str(link.get_attribute("download"))
    link.click()
    wait(browser, path.is_file)
    return path.read_bytes().decode("utf-8")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def csv_of(texts: list[str], delimiter: str = ",") -> str:
    content = io.StringIO(newline="")
    writer = csv.writer(content, delimiter=delimiter)
    writer.writerows([("id", "text"), *enumerate(texts)])
    return content.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";"], ids=["comma", "semicolon"])
def test_a_table_comes_back_with_answers(
    page: Browser, live: Live, tmp_path: Path, delimiter: str
) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(("\ufeff" + csv_of(TEXTS * 30, delimiter)).encode("utf-8"))
    open_run(page, live.url, "classify")
    choose_file(page, path)
    answer_all(page)
    assert text_of(page, "file-spoken") == "Done: 240 rows are answered."
    assert all_of(page, "#file-result b") == []
    if delimiter == ",":
        assert_accessible(page)
    assert not is_wide(page)
    rows = rows_of(saved(page, tmp_path))
    assert [row["id"] for row in rows] == [str(number) for number in range(240)]
    assert [row["text"] for row in rows[:8]] == [
        f"'{text}" if text.startswith(("=", "\n", "\uff1d")) else text for text in TEXTS
    ]
    labels = [answer.label for answer in live.load("classify")(TEXTS)]
    assert [row["label"] for row in rows] == [
        label if text else "" for text, label in zip(TEXTS, labels, strict=True)
    ] * 30


@pytest.mark.parametrize(
    ("name", "content", "head", "rows"),
    [
        (  # names that are numbers stay where they are
            "years.csv",
            "text,2021,10\nthe red cat sleeps,,\nthe red cat sleeps,a,b\n",
            ["text", "2021", "10", "label"],
            [["the red cat sleeps", "", "", "animal"], ["the red cat sleeps", "a", "b", "animal"]],
        ),
        (  # quotes are plain characters
            "quotes.tsv",
            'text\tid\n"the red cat sleeps\t1\nthe red cat sleeps"\t2\n',
            ["text", "id", "label"],
            [['"the red cat sleeps', "1", "animal"], ['the red cat sleeps"', "2", "animal"]],
        ),
        (  # a quote that is never closed swallows no row
            "open.csv",
            'text,id\nthe red cat sleeps,1\n"the red cat sleeps,2\nthe red cat sleeps,3\n',
            ["text", "id", "label"],
            [
                ["the red cat sleeps", "1", "animal"],
                ['"the red cat sleeps', "2", "animal"],
                ["the red cat sleeps", "3", "animal"],
            ],
        ),
        (
            "late.jsonl",
            '{"text": "the red cat sleeps"}\n'
            '{"text": "the red cat sleeps", "2": 7, "label": "x"}\n',
            ["text", "answer label", "2", "label"],
            [["the red cat sleeps", "animal", "", ""], ["the red cat sleeps", "animal", "7", "x"]],
        ),
    ],
)
def test_every_column_comes_back(
    page: Browser,
    live: Live,
    tmp_path: Path,
    name: str,
    content: str,
    head: list[str],
    rows: list[list[str]],
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    open_run(page, live.url, "classify")
    choose_file(page, path)
    answer_all(page)
    names, *lines = csv.reader(io.StringIO(saved(page, tmp_path), newline=""))
    assert {len(line) for line in lines} == {len(names)}
    places = [names.index(one) for one in head]
    assert places == sorted(places)
    assert [[line[at] for at in places] for line in lines] == rows


READ = """
const [name, text, header, done] = arguments;
(async () => {
  const rows = [];
  async function* pieces() { yield* [text.slice(0, 20), text.slice(20)]; }
  try {
    for await (const row of tables.rows(pieces(), name, header)) rows.push([...row.values()]);
    done(rows);
  } catch (error) { done(error.message); }
})();
"""


def as_commands_do(name: str, text: str, *, header: bool) -> list[list[str]] | None:
    """Return the cells of a table, without the header; None if it is refused."""

    def lines() -> Iterator[str]:
        return iter(io.StringIO(text, newline="\n"))

    try:
        if name.endswith(".tsv"):
            rows = [*tsv_rows(lines(), name, keep_empty=True)]
        else:
            named = named_delimiter(next(lines()))
            mark = named or delimiter_of(lines(), header=header)
            below = islice(lines(), 0 if named is None else 1, None)
            rows = [*csv_rows(below, name, delimiter=mark, keep_empty=True)]
    except UserError:
        return None
    return [cells for _, cells in rows][int(header) :]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\r\n1,2\r\n\r\n3,4",
        'a,b\n"1\r\n, ""x""",2\n',
        "a|b\n1|2,3\n",
        "sep=;\na;b,c\n1;2\n",
        '"sep=|"\r\na|b\r\n1|2\r\n',
        "1;2\n3;4,5\n",
        "1\t2\n3\t4\n",
        'a,b\n"1,2\n3,4\n',
        'a,b\n"1,2\n3,4\n"5,6\n7,8\n',
        'a,b\n1,"2"x\n3,4\n',
        'a\tb\n"1\t2\n3"\t4\n',
        "a\n1\n\n2\n\n",
        'a\n""\n1\n',
        '"a"\n1|2\n',
        "a,b\n1\n",
        "a,b\n1,2,3\n",
        'a,b\n1,"2\n3\n',
        "a,b\n1,2\r3,4\n",
    ],
)
def test_a_table_is_read_as_the_commands_read_it(page: Browser, live: Live, text: str) -> None:
    if not page.driver.current_url.startswith(live.url):
        open_run(page, live.url, "classify")
    for name in ("a.csv", "a.tsv"):
        for header in (True, False):
            read = page.driver.execute_async_script(READ, name, text, header)
            expected = as_commands_do(name, text, header=header)
            if expected is None:
                assert isinstance(read, str), (name, header)
            else:
                assert read == expected, (name, header)


def test_a_file_can_be_dropped(page: Browser, live: Live, tmp_path: Path) -> None:
    open_run(page, live.url, "regress")
    page.driver.execute_script(
        "const data = new DataTransfer(); data.items.add(new File([arguments[0]], 'a.txt'));"
        "const at = {bubbles: true, cancelable: true, dataTransfer: data};"
        "document.body.dispatchEvent(new DragEvent('dragover', at));"
        "document.body.dispatchEvent(new DragEvent('drop', at));",
        "the bird is red\nthe bird is green",
    )
    wait(page, lambda: by_id(page, "file-form").is_displayed())
    answer_all(page)
    values = [float(row["value"]) for row in rows_of(saved(page, tmp_path))]
    answers = live.load("regress")(["the bird is red", "the bird is green"])
    assert values == pytest.approx([answer.value for answer in answers], abs=1e-5)


def test_json_lines_may_be_packed(page: Browser, live: Live, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl.gz"
    asked = {"question": "what sleeps?", "choices": ["the soup", "the bird", "@tower"], "choice": 9}
    path.write_bytes(gzip.compress(f"{json.dumps(asked)}\n".encode() * 2))
    open_run(page, live.url, "choose")
    choose_file(page, path)
    answer_all(page)
    head, first, _ = saved(page, tmp_path).splitlines()
    assert head.startswith("question,choices,choice,answer choice,text,score,")
    answer = live.load("choose")((asked["question"], *asked["choices"]))
    cells = next(csv.reader([first]))
    assert cells[:5] == [
        *("what sleeps?", '["the soup","the bird","@tower"]', "9"),
        *(str(answer.choice), answer.text),
    ]


@pytest.mark.parametrize("form", ["array", "data", "lines"])
def test_a_json_document_is_read_as_a_whole(
    form: str, page: Browser, live: Live, tmp_path: Path
) -> None:
    path, asked = tmp_path / "items.json", [{"text": f"the bird {n}"} for n in range(3)]
    forms = {
        "array": json.dumps(asked, indent=1),
        "data": json.dumps({"data": asked}),
        "lines": "\n".join(map(json.dumps, asked)),
    }
    path.write_text(forms[form], encoding="utf-8")
    open_run(page, live.url, "regress")
    choose_file(page, path)
    answer_all(page)
    assert [row["text"] for row in rows_of(saved(page, tmp_path))] == [row["text"] for row in asked]


def test_a_row_that_cannot_be_answered_says_why(page: Browser, live: Live, tmp_path: Path) -> None:
    path = tmp_path / "masks.txt"
    path.write_text("the [MASK] is red.\nthe cat is red.\nit is very [MASK].\n", encoding="utf-8")
    open_run(page, live.url, "masked")
    choose_file(page, path)
    answer_all(page)
    rows = rows_of(saved(page, tmp_path))
    filled = [answer.text for answer in live.load("masked")([rows[0]["text"], rows[2]["text"]])]
    assert [row["answer text"] for row in rows] == [filled[0], "", filled[1]]
    assert "no [MASK] in the text" in rows[1]["error"]
    assert all("422" in line for line in page.wait_for_complaints())


def test_a_busy_server_is_asked_again_and_work_can_be_stopped(
    page: Browser, live: Live, tmp_path: Path
) -> None:
    path = tmp_path / "many.txt"
    path.write_text("the blue horse sleeps\n" * 500, encoding="utf-8")
    open_run(page, live.url, "classify")
    choose_file(page, path)
    page.driver.execute_script(
        "const real = window.fetch; window.asked = 0;"
        "window.fetch = async (...all) => { window.asked += 1; if (window.asked === 2) return "
        "new Response('{}', {status: 429, headers: {'retry-after': '0'}});"
        "if (window.asked > 4) return new Promise((_, no) => all[1].signal.addEventListener("
        "'abort', () => no(all[1].signal.reason))); return real(...all); };"
    )
    by_id(page, "file-start").click()
    wait(page, lambda: page.driver.execute_script("return window.asked") == 5)
    by_id(page, "file-stop").click()
    wait(page, lambda: text_of(page, "file-spoken") == "Stopped: 192 rows are answered.")
    rows = rows_of(saved(page, tmp_path))
    assert len(rows) == 192
    assert {row["label"] for row in rows} == {"animal"}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.csv", b"", "empty.csv cannot be read: it is empty."),
        (
            "latin.csv",
            "text\ncafé".encode("latin-1"),
            "latin.csv cannot be read: it is not UTF-8 text.",
        ),
        ("a.jsonl", b'{"text": "a"\n', "a.jsonl cannot be read: line 1 is not JSON."),
        (
            "mac.csv",
            b"text,id\ra,1\n",
            "mac.csv cannot be read: line 1 has a carriage return outside quotes.",
        ),
    ],
)
def test_a_broken_file_is_refused_in_a_sentence(
    page: Browser, live: Live, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    open_run(page, live.url, "classify")
    choose_file(page, path)
    assert problem(page) == sentence
    assert not by_id(page, "file-form").is_displayed()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("c,d,e", "line 3 does not have as many columns as line 1"),
        ('"c,d,e', "the quotes of line 3 do not balance"),
    ],
)
def test_a_broken_row_ends_the_work_with_its_number(
    page: Browser, live: Live, tmp_path: Path, row: str, sentence: str
) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(f"text,id\nthe red cat sleeps,1\n{row}\n", encoding="utf-8")
    open_run(page, live.url, "classify")
    choose_file(page, path)
    answer_all(page)
    assert problem(page) == f"broken.csv cannot be read: {sentence}."
    assert text_of(page, "file-spoken") == "Stopped: 0 rows are answered."
