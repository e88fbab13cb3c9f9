"""Which code points are what, as the pinned reference sees them.

Token ids have to be those that a model was trained with, whatever Unicode version the running
Python knows, so the classes are data here and not questions to ``unicodedata``. The compiled
reference (``tokenizers`` 0.22.2) mixes versions, and so do these tables:

- Control, punctuation and mark classes are those of Unicode 8. Later marks are therefore kept
  and later punctuation does not split words.
- Decomposition and canonical order are those of Unicode 9. What Unicode 9 knew never changes, so
  ``unicodedata`` may be asked about it, and about nothing else.
- Lower case is that of Unicode 17, of which older Pythons know all but `NEWER_LOWER_CASE`.

The tests compare every code point with the reference. Ranges are hexadecimal, ends included.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator


class _Ranges:
    """A set of code points that is given by its ranges."""

    def __init__(self, text: str) -> None:
        pairs = [(part.split("-") * 2)[:2] for part in text.split()]
        self._starts = [int(first, 16) for first, _ in pairs]
        self._ends = [int(last, 16) for _, last in pairs]

    def __contains__(self, code: int) -> bool:
        at = bisect_right(self._starts, code) - 1
        return at >= 0 and code <= self._ends[at]

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._starts, self._ends, strict=True):
            yield from range(first, last + 1)

    def pattern(self) -> str:
        """Return the set as a regular expression."""
        ranges = zip(self._starts, self._ends, strict=True)
        return "[" + "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges) + "]"


SPACES = _Ranges("9-A D 20 A0 1680 2000-200A 2028-2029 202F 205F 3000")
"""What separates words. Unlike ``str.split``, not U+000B, U+000C, U+001C to U+001F and U+0085."""

REMOVED = _Ranges(
    """
    0-8 B-C E-1F 7F-9F AD 600-605 61C 6DD 70F 180E 200B-200F 202A-202E 2060-2064 2066-206F
    D800-F8FF FEFF FFF9-FFFB FFFD 110BD 1BCA0-1BCA3 1D173-1D17A E0001 E0020-E007F F0000-FFFFD
    100000-10FFFD
    """
)
"""Controls, format and private-use characters, U+FFFD, and lone surrogates.

The reference cannot be given a surrogate; its class, *other*, is the one that is removed.
"""

IDEOGRAPHS = _Ranges(
    "3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F"
)
"""Characters that are words by themselves.

The reference starts extension E at U+2B920 where Unicode has U+2B820: what lies between is not
split there, and so not here.
"""

PUNCTUATION = _Ranges(
    """
    21-2F 3A-40 5B-60 7B-7E A1 A7 AB B6-B7 BB BF 37E 387 55A-55F 589-58A 5BE 5C0 5C3 5C6 5F3-5F4
    609-60A 60C-60D 61B 61E-61F 66A-66D 6D4 700-70D 7F7-7F9 830-83E 85E 964-965 970 AF0 DF4 E4F
    E5A-E5B F04-F12 F14 F3A-F3D F85 FD0-FD4 FD9-FDA 104A-104F 10FB 1360-1368 1400 166D-166E
    169B-169C 16EB-16ED 1735-1736 17D4-17D6 17D8-17DA 1800-180A 1944-1945 1A1E-1A1F 1AA0-1AA6
    1AA8-1AAD 1B5A-1B60 1BFC-1BFF 1C3B-1C3F 1C7E-1C7F 1CC0-1CC7 1CD3 2010-2027 2030-2043 2045-2051
    2053-205E 207D-207E 208D-208E 2308-230B 2329-232A 2768-2775 27C5-27C6 27E6-27EF 2983-2998
    29D8-29DB 29FC-29FD 2CF9-2CFC 2CFE-2CFF 2D70 2E00-2E2E 2E30-2E42 3001-3003 3008-3011 3014-301F
    3030 303D 30A0 30FB A4FE-A4FF A60D-A60F A673 A67E A6F2-A6F7 A874-A877 A8CE-A8CF A8F8-A8FA A8FC
    A92E-A92F A95F A9C1-A9CD A9DE-A9DF AA5C-AA5F AADE-AADF AAF0-AAF1 ABEB FD3E-FD3F FE10-FE19
    FE30-FE52 FE54-FE61 FE63 FE68 FE6A-FE6B FF01-FF03 FF05-FF0A FF0C-FF0F FF1A-FF1B FF1F-FF20
    FF3B-FF3D FF3F FF5B FF5D FF5F-FF65 10100-10102 1039F 103D0 1056F 10857 1091F 1093F 10A50-10A58
    10A7F 10AF0-10AF6 10B39-10B3F 10B99-10B9C 11047-1104D 110BB-110BC 110BE-110C1 11140-11143
    11174-11175 111C5-111C9 111CD 111DB 111DD-111DF 11238-1123D 112A9 114C6 115C1-115D7
    11641-11643 1173C-1173E 12470-12474 16A6E-16A6F 16AF5 16B37-16B3B 16B44 1BC9F 1DA87-1DA8B
    """
)
"""Unicode's punctuation, and every ASCII character that is neither letter, digit nor space."""

MARKS = _Ranges(
    """
    300-36F 483-487 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-65F 670 6D6-6DC 6DF-6E4 6E7-6E8
    6EA-6ED 711 730-74A 7A6-7B0 7EB-7F3 816-819 81B-823 825-827 829-82D 859-85B 8E3-902 93A 93C
    941-948 94D 951-957 962-963 981 9BC 9C1-9C4 9CD 9E2-9E3 A01-A02 A3C A41-A42 A47-A48 A4B-A4D
    A51 A70-A71 A75 A81-A82 ABC AC1-AC5 AC7-AC8 ACD AE2-AE3 B01 B3C B3F B41-B44 B4D B56 B62-B63
    B82 BC0 BCD C00 C3E-C40 C46-C48 C4A-C4D C55-C56 C62-C63 C81 CBC CBF CC6 CCC-CCD CE2-CE3 D01
    D41-D44 D4D D62-D63 DCA DD2-DD4 DD6 E31 E34-E3A E47-E4E EB1 EB4-EB9 EBB-EBC EC8-ECD F18-F19
    F35 F37 F39 F71-F7E F80-F84 F86-F87 F8D-F97 F99-FBC FC6 102D-1030 1032-1037 1039-103A
    103D-103E 1058-1059 105E-1060 1071-1074 1082 1085-1086 108D 109D 135D-135F 1712-1714 1732-1734
    1752-1753 1772-1773 17B4-17B5 17B7-17BD 17C6 17C9-17D3 17DD 180B-180D 18A9 1920-1922 1927-1928
    1932 1939-193B 1A17-1A18 1A1B 1A56 1A58-1A5E 1A60 1A62 1A65-1A6C 1A73-1A7C 1A7F 1AB0-1ABD
    1B00-1B03 1B34 1B36-1B3A 1B3C 1B42 1B6B-1B73 1B80-1B81 1BA2-1BA5 1BA8-1BA9 1BAB-1BAD 1BE6
    1BE8-1BE9 1BED 1BEF-1BF1 1C2C-1C33 1C36-1C37 1CD0-1CD2 1CD4-1CE0 1CE2-1CE8 1CED 1CF4 1CF8-1CF9
    1DC0-1DF5 1DFC-1DFF 20D0-20DC 20E1 20E5-20F0 2CEF-2CF1 2D7F 2DE0-2DFF 302A-302D 3099-309A A66F
    A674-A67D A69E-A69F A6F0-A6F1 A802 A806 A80B A825-A826 A8C4 A8E0-A8F1 A926-A92D A947-A951
    A980-A982 A9B3 A9B6-A9B9 A9BC A9E5 AA29-AA2E AA31-AA32 AA35-AA36 AA43 AA4C AA7C AAB0 AAB2-AAB4
    AAB7-AAB8 AABE-AABF AAC1 AAEC-AAED AAF6 ABE5 ABE8 ABED FB1E FE00-FE0F FE20-FE2F 101FD 102E0
    10376-1037A 10A01-10A03 10A05-10A06 10A0C-10A0F 10A38-10A3A 10A3F 10AE5-10AE6 11001
    11038-11046 1107F-11081 110B3-110B6 110B9-110BA 11100-11102 11127-1112B 1112D-11134 11173
    11180-11181 111B6-111BE 111CA-111CC 1122F-11231 11234 11236-11237 112DF 112E3-112EA
    11300-11301 1133C 11340 11366-1136C 11370-11374 114B3-114B8 114BA 114BF-114C0 114C2-114C3
    115B2-115B5 115BC-115BD 115BF-115C0 115DC-115DD 11633-1163A 1163D 1163F-11640 116AB 116AD
    116B0-116B5 116B7 1171D-1171F 11722-11725 11727-1172B 16AF0-16AF4 16B30-16B36 16F8F-16F92
    1BC9D-1BC9E 1D167-1D169 1D17B-1D182 1D185-1D18B 1D1AA-1D1AD 1D242-1D244 1DA00-1DA36
    1DA3B-1DA6C 1DA75 1DA84 1DA9B-1DA9F 1DAA1-1DAAF 1E8D0-1E8D6 E0100-E01EF
    """
)
"""Nonspacing marks: what ``strip_accents`` takes away after decomposing."""

KEPT_MARK_CLASSES: dict[int, int] = {
    code: combining_class
    for combining_class, ranges in {
        7: "11446 1E94A",
        9: "1B44 1BAA 1BF2-1BF3 A953 A9C0 111C0 11235 1134D 11442 116B6 11C3F",
        216: "1D165-1D166 1D16E-1D172",
        224: "302E-302F",
        226: "1D16D",
        230: "8D4-8E1 1DFB 1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E944-1E949",
    }.items()
    for code in _Ranges(ranges)
}
"""Combining classes of the characters that canonical order moves and `MARKS` does not hold.

They are spacing marks, and marks of Unicode 9, which its decomposition knows and the marks of
Unicode 8 do not.
"""

MOVABLE = frozenset({*KEPT_MARK_CLASSES, *_Ranges("1D15E-1D164 1D1BB-1D1C0")})
"""Characters that are, or decompose into, one that canonical order moves and that is kept."""

_SUPPLEMENTARY_COMPOSED = _Ranges(
    "1109A 1109C 110AB 1134B-1134C 114BB-114BC 114BE 115BA-115BB 1D15E-1D164 1D1BB-1D1C0 "
    "2F800-2FA1D"
)

NEWER_LOWER_CASE: dict[int, int] = {
    upper: lower
    for first, last, target in (
        (0x1C89, 0x1C89, 0x1C8A),
        (0xA7CB, 0xA7CB, 0x0264),
        (0xA7CC, 0xA7CC, 0xA7CD),
        (0xA7CE, 0xA7CE, 0xA7CF),
        (0xA7D2, 0xA7D2, 0xA7D3),
        (0xA7D4, 0xA7D4, 0xA7D5),
        (0xA7DA, 0xA7DA, 0xA7DB),
        (0xA7DC, 0xA7DC, 0x019B),
        (0x10D50, 0x10D65, 0x10D70),
        (0x16EA0, 0x16EB8, 0x16EBB),
    )
    for upper, lower in zip(
        range(first, last + 1), range(target, target + last - first + 1), strict=True
    )
}
"""Lower case that came after Unicode 14, the version of the oldest Python we run on."""


def decomposition(character: str) -> str:
    """Return the canonical decomposition that Unicode 9 gives a character.

    A character of the basic plane that is composed was so in Unicode 9; beyond it, later versions
    added some, which the reference leaves whole.
    """
    code = ord(character)
    if code > 0xFFFF and code not in _SUPPLEMENTARY_COMPOSED:
        return character
    return unicodedata.normalize("NFD", character)


def combining_class(character: str) -> int:
    """Return the canonical combining class of a character in Unicode 9."""
    code = ord(character)
    return unicodedata.combining(character) if code in MARKS else KEPT_MARK_CLASSES.get(code, 0)


def lower(character: str) -> str:
    """Return the lower case of one character, whatever stands beside it.

    ``str.lower`` on a whole text would make a final sigma of the last letter of a Greek word; the
    reference does not.
    """
    newer = NEWER_LOWER_CASE.get(ord(character))
    return character.lower() if newer is None else chr(newer)
