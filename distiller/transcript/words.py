"""A prompt's text in, its parts out: the person's own words, what they pasted, what was injected.

Most noise that similar tools store comes from pasted text, and a fact must never rest on it. So where it is unclear
whose words they are, they count as pasted: losing a fact costs less than inventing one. Joined again, the parts are the
text, byte for byte.

A prompt may be a megabyte of anything, so every pattern here is bounded: time grows with the text's length, no faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

Part = Literal["own", "pasted", "injected"]

_MAX_OWN_LINES = 40  # nobody types more; a paste is in it
_MAX_LINES_UNDER_HEADING = 15  # one heading may be typed, a document has more
_MAX_ASSENT_WORDS = 8
_MAX_JUDGED = 65_536  # characters; what goes on after them was not typed and is not looked at
_MAX_LINE = 4_000  # characters; nobody types a longer line
_LOOKED_AT = 400  # characters of a line that tell what wrote it

_INJECTED_WHOLE = re.compile(
    r"\s*(?:This session is being continued from a previous conversation|Caveat: The messages below were generated"
    r"|\[Request interrupted by user|# AGENTS\.md instructions)"
)
_IDE_CONTEXT = re.compile(
    r"\s*# (?:Context from my IDE setup|Files mentioned by the user):.*?^## My request for Codex:[ \t]*\n?",
    re.DOTALL | re.MULTILINE,
)
_IDE_CONTEXT_ALONE = re.compile(r"\s*# (?:Context from my IDE setup|Files mentioned by the user):")
_TAGS = (
    r"system-reminder|local-command-[a-z]{1,40}|command-(?:name|message|contents)|bash-(?:std(?:out|err))|task-notification"
    r"|teammate-message|ide_\w{1,40}|[a-z-]{0,40}hook[a-z-]{0,40}|environment_context|user_instructions|INSTRUCTIONS"
    r"|turn_aborted|skill|user_action|subagent_notification|goal_context|codex_internal_context|recommended_plugins"
    r"|memory[a-z_-]{0,40}|context"
)
_INJECTED = re.compile(rf"<({_TAGS})(?:\s[^<>]{{0,400}})?>.*?(?:</\1>|\Z)|</?command-args>", re.DOTALL)
_SHELL = re.compile(r"<(bash-input|user_shell_command)>.*?(?:</\1>|\Z)", re.DOTALL)  # a command states nothing
_MARKER = re.compile(r"\[(?:Pasted text|Image|Pasted content|Attachment)\b[^\[\]\n]{0,200}\]")
_FENCE = re.compile(r"""^[ \t]*(`{3,}|~{3,}|'{3}|"{3}).*?(?:^[ \t]*\1[`~]*[ \t]*$\n?|\Z)""", re.DOTALL | re.MULTILINE)
_ELEMENT = re.compile(
    r"^[ \t]*<([A-Za-z][\w.-]{0,80})(?:\s[^<>\n]{0,400})?>[ \t]*\n.*?(?:^[ \t]*</\1>[ \t]*$\n?|\Z)",
    re.DOTALL | re.MULTILINE,
)

_HEADING = re.compile(r"^ {0,3}#{1,6} \S|^---[ \t]*$")
_LIST_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s")
_PLACE = re.compile(r"[\w./\\-]\.[A-Za-z]\w{0,7}(?::\d+|#L\d+|\(\d+[,)])")
_MACHINE_LINE = re.compile(
    r"""\s*(?:
      >                                                                # a quotation
    | \[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d | \[?\d\d:\d\d:\d\d\b            # log lines
    | [A-Z][a-z]{2}\s+\d+\s\d\d:\d\d:\d\d
    | [\[(]?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL|CRITICAL)\b[\]):]?\s*\S
    | (?:npm|pnpm|yarn|pip|cargo|make)(?:\[\d+\])?[: ]\s*(?:ERR|WARN|error|warning|notice|\*\*\*)
    | (?:error|warning|note|fatal|panic)(?:\[\w+\])?: \s
    | (?:\w+\.)*\w*(?:Error|Exception|Warning)\b(?::|$)                 # the last line of a traceback
    | at\s[\w.$<>\[\]/]+.*[(:]\S*:?\d+ | File\s".*",\sline\s\d+         # frames
    | diff\s--git\s | index\s[0-9a-f]{7} | @@\s | (?:---|\+\+\+)\s(?:[ab]/|/dev/null)
    | \S{1,60}@[\w.-]{1,80}:?\S{0,120}\s?[$\#%]\s | [$\u276f\u279c]\s   # shell prompts
    | [\w./\\-]+\.[A-Za-z]\w{0,7}:\d+                                   # compiler, grep
    | \d+(?:\t|[|\u2192])                                              # numbered lines
    | (?:commit|Merge:)\s[0-9a-f]{7,40}\b                               # git log, long and short
    | (?:[*|][*|\\/ ]{0,8})?(?=[a-f]*\d)[0-9a-f]{7,12}\s\S
    | (?:Author|Committer|Date):\s{2,}\S | Author:\s.{1,80}<\S+@\S+>
    | \|.*\|\s*$                                                        # a table
    | [{}\[\]()]+[,;]?\s*$ | "[\w.-]+"\s*: | "[^"]*",?\s*$              # JSON
    | //\s?\S | /\* | \*/ | <!-- | --\s\S | ;+\s\S | REM\s | \#!         # comments in code
    | <[A-Za-z/!][^\n]*>\s*$ | <(?:p|li|div|span|t[dhr]|h[1-6]|blockquote|pre|code|strong|em|ul|ol)\b[^<>]{0,200}>
    | (?:import|from|export|const|let|var|def|class|function|return|public|private|package)\s.*[;:{(]\s*$  # code
    )""",
    re.VERBOSE,
)
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\):|\s*(?:goroutine \d+ \[|thread '.*' panicked at )")
_HUNK = re.compile(r"\s*(?:diff --git |@@ )")
_HUNK_LINE = re.compile(r"[ +\-\\@]|index |new file |deleted file |similarity |rename ")
_CHANGED = re.compile(r"[+-](?!\d+\b)[^\s+-]")  # of a diff without header; a typed bullet has a blank, "+1" a number
_CELLS = re.compile(r"[^\s,;\t]{0,60}(?:[,;]\S|\t)")
_INDENT = re.compile(r"(?: {4}|\t)[ \t]*\S")
_CAPITALS = re.compile(r"[A-Z][A-Z ]{2,40}\s*\Z")  # the heading of a manual page
_COMMENT = re.compile(r"#{1,6}\s?\S")
_KEY = re.compile(
    r"(?!(?:remember|note|ps|fyi|btw|also|decision|reminder|important|nb|update)s?:)[a-z_][\w.-]{0,40}:(?:\s|\Z)"
)
_UNDER_KEY = re.compile(r"\s+\S|- ")
_QUOTE_MARKS = re.compile('["\u201c\u201d\u201e\u00ab\u00bb]')

_FIELD = re.compile(
    r"\s*(From|To|Cc|Bcc|Subject|Sent|Date|Reply-To|Von|An|Betreff|Gesendet|Datum"  # a letter
    r"|Description|Summary|Title|Steps to reproduce|Expected(?: \w+)?|Actual(?: \w+)?|Acceptance criteria|Reporter"
    r"|Assignee|Priority|Status|Labels?|Severity|Components?|Fix versions?|Sprint|Story points|Issue type"
    r"|[A-Z]{2,}-\d+)\s?:(?:\s|\Z)"
)
_TURN_OF_SPEECH = re.compile(
    r"\s*\*{0,2}(?:Human|User|Assistant|AI|Bot|System|Customer|Interviewer|Moderator)\*{0,2}:"
    r"|@?\w[\w.-]{0,24}(?:[ ]\w[\w.-]{0,24}){0,2}[ ](?:[ ]+|[\u2014\u2013|]\s?|(?=\[))(?:(?:Today|Yesterday)\sat\s)?"
    r"\[?\d{1,2}:\d\d\s?(?:[AP]M)?\]?\s*\Z"  # bob  10:14 AM
    r"|@?\w[\w.-]{0,24}[ ]\d{1,2}:\d\d\s?[AP]M\s*\Z"
    r"|\[?\d{1,2}:\d\d(?:\s?[AP]M)?\]?\s+<?[\w.-]{1,30}[>:]\s"  # [10:14] bob: ...
    r"|\[\d[\d/.,:\s-]{3,20}(?:[AP]M)?\]\s*\S.{0,30}:"  # [12/1/26, 10:14 AM] Bob: ...
    r"|(?:On|Am)\s.{5,120}\s(?:wrote|schrieb)\b.{0,60}:\s*\Z"
    r"|\d{1,2}:\d\d\s?[AP]M\s*\Z|\s*(?:Re|Fwd?|AW|WG):\s"
    r"|-{2,}\s?(?:Forwarded|Original|Weitergeleitete|Urspr)"
)
_ANNOUNCED = re.compile(
    r"\b(?:wrote|writes|says|said|replied|answered|posted|schrieb|sagt)\b[^:]{0,40}:?\s*\Z"
    r"|\b(?:message|mail|e-?mail|output|logs?|ticket|issue|review|comment|docs?|spec|results?|response|answer|transcript"
    r"|slack|teams|discord|quote|prompt|snippet|contents?|article|page|readme|[\w-]{1,40}\.\w{1,5})\b[^:]{0,40}:\s*\Z",
    re.IGNORECASE,
)
"""A line after which somebody else speaks: `Kim wrote:`, `here is our AGENTS.md:`."""
_SPEAKER = re.compile(r"\s*@?([A-Za-z][\w.-]{1,20}):\s+\S")


def split(text: str) -> list[tuple[Part, str]]:
    """The parts of `text` in order; neighbours differ, and joined they are `text` again."""
    return _merged(_parts(text))


def has_own_words(parts: Iterable[tuple[Part, str]]) -> bool:
    """Whether there is more in `parts` than a bare command, assent or "go on", in which nothing can be stated."""
    own = " ".join(text for part, text in parts if part == "own").casefold()
    words = _WORD.findall(own)
    if not words:
        return False
    if len(words) > _MAX_ASSENT_WORDS:
        return True
    return not all(word in _ASSENT or word.isdigit() or not _ASSENT_CJK.sub("", word) for word in words)


# --- whole text -------------------------------------------------------------------------------------------------


def _parts(text: str) -> Iterator[tuple[Part, str]]:
    context = _IDE_CONTEXT.match(text)
    if context:
        yield "injected", text[: context.end()]
        text = text[context.end() :]
    if _INJECTED_WHOLE.match(text) or (not context and _IDE_CONTEXT_ALONE.match(text)):
        yield "injected", text
        return
    for outer, piece in _cut(text, _INJECTED, "injected"):
        if outer == "own":
            yield from _without_pasted_spans(piece[:_MAX_JUDGED])
            yield "pasted", piece[_MAX_JUDGED:]
        else:
            yield outer, piece


def _without_pasted_spans(text: str) -> Iterator[tuple[Part, str]]:
    """Cut out what delimits itself, then judge the remaining lines together."""
    spans: list[tuple[Part, str]] = [("own", text)]
    for pattern in (_FENCE, _SHELL, _ELEMENT, _MARKER):
        spans = [
            cut
            for part, piece in spans
            for cut in (_cut(piece, pattern, "pasted") if part == "own" else [(part, piece)])
        ]
    lines = [
        (part, line)
        for part, piece in spans
        for line in (piece.splitlines(keepends=True) if part == "own" else [piece])
    ]
    yield from _judge(lines)


def _cut(text: str, pattern: re.Pattern[str], as_part: Part) -> list[tuple[Part, str]]:
    cuts: list[tuple[Part, str]] = []
    at = 0
    for found in pattern.finditer(text):
        cuts += [("own", text[at : found.start()]), (as_part, found[0])]
        at = found.end()
    return [*cuts, ("own", text[at:])]


def _merged(parts: Iterable[tuple[Part, str]]) -> list[tuple[Part, str]]:
    """Neighbours of one kind as one part; blank text goes with what stands before it."""
    merged: list[tuple[Part, list[str]]] = []
    for part, text in parts:
        if merged and (merged[-1][0] == part or not text.strip()):
            merged[-1][1].append(text)
        elif text:
            merged.append((part, [text]))
    return [(part, "".join(texts)) for part, texts in merged]


# --- lines ------------------------------------------------------------------------------------------------------


def _judge(lines: list[tuple[Part, str]]) -> Iterator[tuple[Part, str]]:
    """Say of each line that still counts as own whether it is."""
    pasted = [part != "own" or len(text) > _MAX_LINE for part, text in lines]
    texts = [text for _, text in lines]
    heads = [text[:_LOOKED_AT] for text in texts]
    _mark_quotations(texts, pasted)
    for mark in (
        _mark_machine_lines, _mark_changes_and_cells, _mark_indented, _mark_settings, _mark_reviews, _mark_documents,
        _mark_comments, _mark_letters,
    ):  # fmt: skip
        mark(heads, pasted)
    _mark_long_pastes(texts, pasted)
    for text, is_pasted in zip(texts, pasted, strict=True):
        yield ("pasted" if is_pasted else "own"), text


def _mark_quotations(texts: Sequence[str], pasted: list[bool]) -> None:
    """A quotation that goes over line ends, with the lines in which it begins and ends."""
    opened: int | None = None
    for number, text in enumerate(texts):
        if pasted[number] or len(_QUOTE_MARKS.findall(text)) % 2 == 0:
            continue
        if opened is None or number - opened > _MAX_OWN_LINES:
            opened = number
        else:
            _fill(pasted, opened, number + 1)
            opened = None
    if opened is not None and _QUOTE_MARKS.match(texts[opened].rstrip()[-1:]):
        _fill(pasted, opened, len(texts))


def _mark_machine_lines(texts: Sequence[str], pasted: list[bool]) -> None:
    """Logs, quotations, tables, tracebacks and hunks, with the lines inside them."""
    inside: re.Pattern[str] | None = None
    for number, text in enumerate(texts):
        if pasted[number]:
            inside = None
        elif _HUNK.match(text):
            inside, pasted[number] = _HUNK_LINE, True
        elif _TRACEBACK.match(text):
            inside, pasted[number] = _INDENTED, True
        elif inside and inside.match(text):
            pasted[number] = True
        else:
            inside = None
            pasted[number] = bool(_MACHINE_LINE.match(text))


def _mark_changes_and_cells(texts: Sequence[str], pasted: list[bool]) -> None:
    """Pieces of a diff without its header, and two or more rows of cells without blanks between them."""
    for start, end in _runs(texts, _CHANGED):
        if any(text.startswith("+") for text in texts[start:end]):
            _fill(pasted, start, end)
    for start, end in _runs(texts, _CELLS):
        if end - start > 1:
            _fill(pasted, start, end)


def _mark_indented(texts: Sequence[str], pasted: list[bool]) -> None:
    """Lines that stand four columns in were copied, unless they go on with an item of a list."""
    listed = [False] * len(texts)
    for start, end in _lists(texts):
        _fill(listed, start, start if _INDENT.match(texts[start]) else end)
    for number, text in enumerate(texts):
        if not listed[number] and _INDENT.match(text):
            _fill(pasted, number - 1 if number and _CAPITALS.match(texts[number - 1]) else number, number + 1)


def _mark_settings(texts: Sequence[str], pasted: list[bool]) -> None:
    """Two lines that begin with a lower-case key are settings, with what stands under them."""
    keys = [bool(_KEY.match(text)) for text in texts]
    if sum(keys) < 2:  # noqa: PLR2004 - two
        return
    inside = False
    for number, text in enumerate(texts):
        inside = keys[number] or (inside and bool(_UNDER_KEY.match(text)))
        pasted[number] = pasted[number] or inside


def _mark_comments(texts: Sequence[str], pasted: list[bool]) -> None:
    """A line that begins with "#" may be a typed title if it is the first; a later one was copied."""
    said = False
    for number, text in enumerate(texts):
        pasted[number] = pasted[number] or (said and bool(_COMMENT.match(text)))
        said = said or bool(text.strip())


def _mark_letters(texts: Sequence[str], pasted: list[bool]) -> None:
    """From the first sign of a letter, ticket or talk on: where its last speaker ends, nothing tells."""
    fields: dict[str, int] = {}
    speakers: dict[str, int] = {}
    starts: list[int] = []
    for number, text in enumerate(texts):
        if pasted[number]:
            continue
        if field := _FIELD.match(text):
            fields.setdefault(field[1], number)
        if _TURN_OF_SPEECH.match(text):
            starts.append(number)
        if _ANNOUNCED.search(text) and any(line.strip() for line in texts[number + 1 : number + 3]):
            starts.append(number + 1)
        if (speaker := _SPEAKER.match(text)) and speakers.setdefault(speaker[1], number) != number:
            starts.append(speakers[speaker[1]])
    if len(fields) > 1:
        starts.append(min(fields.values()))
    if starts:
        _fill(pasted, min(starts), len(texts))


def _runs(texts: Sequence[str], pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Neighbouring lines that match."""
    start: int | None = None
    for number, text in enumerate((*texts, "")):
        if pattern.match(text):
            start = number if start is None else start
        elif start is not None:
            yield start, number
            start = None


def _fill(flags: list[bool], start: int, end: int) -> None:
    flags[start:end] = [True] * (end - start)


def _mark_reviews(texts: Sequence[str], pasted: list[bool]) -> None:
    """A list in which one item points at a line of a file was written by a tool or a reviewer, all of it."""
    for start, end in _lists(texts):
        if any(_PLACE.search(text) for text in texts[start:end]):
            _fill(pasted, start, end)


def _lists(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Runs of list items with the lines that belong to them."""
    start: int | None = None
    for number, text in enumerate((*texts, "\n", "\n")):
        if _LIST_ITEM.match(text):
            start = number if start is None else start
        elif start is not None and text.strip() and not text[0].isspace():
            yield start, number
            start = None
    if start is not None:
        yield start, len(texts)


def _mark_documents(texts: Sequence[str], pasted: list[bool]) -> None:
    """From the first heading on, if there are more, or if much stands under it."""
    headings = [number for number, text in enumerate(texts) if not pasted[number] and _HEADING.match(text)]
    if headings and (len(headings) > 1 or len(texts) - headings[0] > _MAX_LINES_UNDER_HEADING):
        _fill(pasted, headings[0], len(texts))


def _mark_long_pastes(texts: Sequence[str], pasted: list[bool]) -> None:
    """Of a text longer than anyone types, only what introduces it is own: up to a colon or an empty line."""
    own = [number for number, text in enumerate(texts) if not pasted[number] and text.strip()]
    if len(own) <= _MAX_OWN_LINES:
        return
    introduction = next(
        (
            number
            for number in range(own[0], len(texts))
            if texts[number].rstrip().endswith(":") or not texts[number].strip()
        ),
        own[0],
    )
    if introduction > own[0] + _MAX_LINES_UNDER_HEADING:
        introduction = own[0]
    _fill(pasted, introduction + 1, len(texts))


_INDENTED = re.compile(r"[ \t]+\S|\w[\w.]*(?:Error|Exception|Warning|Interrupt|Exit)\b")

# --- assent -----------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[\w']+")
_ASSENT = frozenset(
    """
    yes yep yeah yup ya y ok okay k kk sure fine good great nice cool perfect excellent awesome amazing lovely right
    correct exactly agreed agree approved approve accept accepted confirmed confirm lgtm looks sounds all go on ahead do
    it that this so just now then and continue continues proceed carry keep going resume next more please pls thanks
    thank you thx ty much very well done works for me i think the is a an option choice number no nope n not yet stop
    wait cancel first second third one two three b c d try again retry let's lets to

    ja jo jep jawohl genau richtig gut sehr super prima perfekt passt klar einverstanden gerne gern mach mache weiter
    los bitte danke vielen dank dir in ordnung oki nein nee das machen stimmt alles klasse toll

    oui ouais d'accord accord daccord vas y allez continue continuez poursuis merci beaucoup parfait bien très c'est bon
    ça marche non entendu exact fais le stp

    sí si vale claro adelante continúa continua sigue seguir gracias muchas perfecto bien muy de acuerdo hazlo dale
    correcto exacto está listo genial por favor
    """.split()  # noqa: SIM905 - 200 words read better as prose
)
_ASSENT_CJK = re.compile(
    "(?:はい|うん|ええ|お願い|おねがい|します|いたします|続けて|つづけて|ください|下さい|ありがとう|ございます|ございました"
    "|了解|です|しました|いい|よ|ね|大丈夫|完璧|進めて|それで|では|好|的|是|对|對|可以|继续|繼續|行|嗯|谢谢|謝謝|没问题|沒問題"
    "|完美|确认|確認|同意|请|請|吧|了|啊|没|有|你|好的|ok|オッケー|オーケー)"
)
