"""A readable answer and the window it is about in, claims with evidence and refusals with reasons out.

A model may lie, so nothing it says is taken on trust: a fact stands on words that the person said in this very turn,
found here, not by the model. Each item ends in exactly one of the verdict's four lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

import msgspec

from distiller.distill.carries import asks, carries, speaks_of_one_project, turns_round
from distiller.distill.orders import gives_orders
from distiller.distill.recalls import LEFT_OUT, is_recall
from distiller.distill.redact import holds_secret, redact
from distiller.distill.reply import Answer, Item, Quote
from distiller.vocabulary import Claim, Evidence, NearFact, Redacted, Refusal, Strength, Verdict, Window

SUMMARY_CHARACTERS = 120
BODY_CHARACTERS = 600
BODY_SENTENCES = 4
NOTE_WORDS = 200
FACTS_PER_TURN = 3
CANDIDATES_PER_TURN = 3
SUSPICIOUS_PER_TURN = 5
NOTE_CHARACTERS = 2000

_SLUG = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){1,4}")
_VALUE_IN_SLUG = re.compile(r"(?:^|-)(?:\d{4}|\d{3,}|v\d+|[a-z]+-\d+$|(?:19|20)\d\d-\d\d)(?:-|$)")
_SENTENCE_END = re.compile(r"[.!?](?=\s+\S)")
_WORDS = re.compile(r"\s*\S+")  # with the white space before it: a note has lines
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_QUOTE_CHARACTERS = 4  # a shorter quote carries no claim


class _Doubt(Exception):  # noqa: N818 - a value on its way to a Refusal, never seen outside
    """Why an item is not believed."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


def verify(
    answer: Answer,
    window: Window,
    *,
    agent: str,
    session_id: str,
    root_session_id: str,
    turn_key: str,
    project_key: str,
    file: str,
    said_at: str,
    near_facts: Sequence[NearFact] = (),
) -> Verdict:
    """Judge an answer. `said_at` (UTC, of the prompt) stands in where a row has no time of its own.

    kept + candidates + suspicious + refusals = items of the answer, the unreadable ones included.
    """
    source = Evidence(
        agent=agent,
        session_id=session_id,
        turn_key=turn_key,
        message_id="",
        role="person",
        quote=Redacted(""),
        said_at=said_at,
        local_date=window.local_date,
        project_key=project_key,
        file=file,
        root_session_id=root_session_id or session_id,
    )
    judge = _Judge(window, source, near_facts)
    for item in answer.facts:
        judge.sort(item, judge.kept, at_most=FACTS_PER_TURN)
    for item in answer.candidates:
        judge.sort(item, judge.candidates, at_most=CANDIDATES_PER_TURN)
    for item in answer.suspicious:
        judge.suspect(item)
    return Verdict(
        tuple(judge.kept),
        tuple(judge.candidates),
        tuple(judge.suspicious),
        (*answer.refusals, *judge.refusals),
        _note(answer.session_note),
        answer.empty_reason,
    )


class _Judge:
    """Sorts the items of one answer."""

    def __init__(self, window: Window, source: Evidence, near_facts: Sequence[NearFact]) -> None:
        self.kept: list[Claim] = []
        self.candidates: list[Claim] = []
        self.suspicious: list[Claim] = []
        self.refusals: list[Refusal] = []
        self._rows = {row.number: row for row in window.rows}
        self._source = source
        self._near = {near.number: near for near in near_facts}
        self._by_name = {near.name: near for near in near_facts}
        own = [row.text for row in window.rows if row.part == "own"]
        self._said_or_known = _folded(" ".join([*own, *(f"{near.name} {near.summary}" for near in near_facts)]))
        self._local_date = window.local_date
        self._year = window.local_date[:4]
        self._said: set[str] = set()

    def sort(self, item: Item, into: list[Claim], *, at_most: int | None = None) -> None:
        """Put a fact or candidate where it belongs: `into`, quarantine or the refusals."""
        try:
            claim = self._claim(item)
            if gives_orders(f"{claim.summary}\n{claim.body}"):
                into, at_most = self.suspicious, None
            self._first_time(claim)
            _room(into, at_most)
            into.append(claim)
        except _Doubt as doubt:
            if doubt.code in _FOREIGN_WORDS and gives_orders(f"{item.summary}\n{item.body}"):
                self.suspect(item)  # a planted order that the model took for a fact: people shall see it
            else:
                self._refuse(item, doubt)

    def suspect(self, item: Item) -> None:
        """Take a suspicious item for quarantine: it may rest on any row, but on what stands there."""
        try:
            _clean(item)
            _lengths(item)
            _room(self.suspicious, SUSPICIOUS_PER_TURN)
            self.suspicious.append(_claimed(item, item.slug[:80], item.scope, self._evidence(item, roles=False)))
        except _Doubt as doubt:
            self._refuse(item, doubt)

    def _refuse(self, item: Item, doubt: _Doubt) -> None:
        self.refusals.append(Refusal(doubt.code, redact(item.slug)[:80], doubt.detail))

    def _claim(self, item: Item) -> Claim:
        _clean(item)
        near = self._meant(item)
        slug = near.name if near else item.slug
        if not near:
            _slug(slug)
        _lengths(item)
        self._valid_until(item)
        evidence = self._evidence(item)
        if not any(one.part == "claims" for one in evidence):
            raise _Doubt("not-own-words", "no quote of the person's own words of this turn")
        if item.op == "retire" and near is not None:
            _retires(item, near)
        else:
            self._identifiers(item)
            _meant(item)
        scope = _narrow(item)
        if near is not None and near.scope == "user" and scope == "project" and item.op != "none":
            near = None  # what holds in this project alone changes nothing that holds everywhere
        elif near is not None:
            scope = "user" if near.scope == "user" else "project"
        return _claimed(item, slug, scope, evidence, near)

    def _meant(self, item: Item) -> NearFact | None:
        """The near fact that an item is about: the numbered one, else the one of that name."""
        if item.near is not None:
            if item.near not in self._near:
                raise _Doubt("unknown-near-fact", f"no near fact {item.near}")
            return self._near[item.near]
        near = self._by_name.get(item.slug)
        if near is None and item.op in ("retire", "none"):
            raise _Doubt("unknown-near-fact", f"nothing shown is called {item.slug[:80]}")
        return near

    def _valid_until(self, item: Item) -> None:
        """Doubt an end that is no day, or that lay behind when the words were said."""
        end = item.valid_until
        if end is None:
            return
        if not _DAY.fullmatch(end) or not _is_day(end):
            raise _Doubt("schema", "valid_until is no date")
        if end < self._local_date:
            raise _Doubt("schema", "valid_until lies before the day of the turn")

    def _evidence(self, item: Item, *, roles: bool = True) -> tuple[Evidence, ...]:
        """The quotes as they stand in the window; `roles`: whether it must be right who said them."""
        if not item.evidence:
            raise _Doubt("quote-not-found", "no quote at all")
        return tuple(self._found(quote, roles=roles) for quote in item.evidence)

    def _found(self, quote: Quote, *, roles: bool) -> Evidence:
        row = self._rows.get(quote.row)
        if row is None:
            raise _Doubt("unknown-row", f"no row {quote.row}")
        words = _verbatim(quote.quote, row.text)
        if words is None:
            raise _Doubt("quote-not-found", f"not in row {row.number}")
        if is_recall(row) or row.text == LEFT_OUT:
            raise _Doubt("echo", f"row {row.number} is a recall")
        if roles and quote.role != _ROLES[row.part]:
            raise _Doubt("wrong-role", f"row {row.number} is not the {quote.role}'s")
        own = row.part == "own" and row.role == "user"
        if own and roles and asks(words, row.text):
            raise _Doubt("question", f"row {row.number} only asks there")
        return msgspec.structs.replace(
            self._source,
            message_id=row.message_id,
            role="person" if own else "assistant" if row.part == "assistant" else "tool",
            quote=words,
            said_at=row.at or self._source.said_at,
            part="claims" if own and not row.previous else "supports",
        )

    def _identifiers(self, item: Item) -> None:
        """Doubt names and numbers that neither the person said nor a known fact or a quoted row holds."""
        quoted = (self._rows[quote.row].text for quote in item.evidence)
        seen = f"{self._said_or_known} {_folded(' '.join(quoted))}"
        for name in _names(f"{item.summary}\n{item.body}"):
            if not self._occurs(name, seen):
                raise _Doubt("identifier-unseen", name[:80])

    def _occurs(self, name: str, seen: str) -> bool:
        plain = _folded(name)
        if re.fullmatch(r"[\d.,:/-]+", plain):
            return self._number_occurs(plain, seen)
        return plain in seen

    def _number_occurs(self, number: str, seen: str) -> bool:
        if re.search(rf"(?<![\d.]){re.escape(number)}(?!\d|\.\d)", seen) or _NUMBER_WORDS.get(number, "\0") in seen:
            return True
        # Dates are made absolute: the day of the turn and what its words reckon from it are not invented.
        dated = re.fullmatch(r"(\d{4})(?:-\d\d(?:-\d\d)?)?", number)
        near_year = dated and self._year and abs(int(dated[1]) - int(self._year)) <= 1
        return bool(near_year and _TIME_WORDS.search(seen))

    def _first_time(self, claim: Claim) -> None:
        marks = {f"{claim.scope} {claim.slug}", _folded(claim.body)}
        if marks & self._said:
            raise _Doubt("same-turn-duplicate", "said already in this turn")
        self._said |= marks


_FOREIGN_WORDS = ("not-own-words", "wrong-role")
_ROLES = {
    "own": "user",
    "pasted": "user",
    "injected": "user",
    "assistant": "assistant",
    "call": "assistant",
    "result": "tool",
}
_NUMBER_WORDS = {
    str(number): word
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
}
_TIME_WORDS = re.compile(
    r"\b(?:today|tomorrow|yesterday|now|since|until|by|next|last|this|ago|week|month|year|noon|(?:mon|tues|wednes|thurs|fri|satur"
    r"|sun)day|january|february|march|april|may|june|july|august|september|october|november|december|heute|morgen|gestern|seit"
    r"|bis|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)\b"
)
_IDENTIFIERS = re.compile(
    r"""`([^`\n]+)`|(?<![A-Za-z])"([^"\n]{2,60})"|(https?://[^\s)>\]"']+)|(?<![\w-])(--?[a-z][\w-]+)|((?:[\w.@~-]*/)+[\w.@-]+)"""
    r"|\b([A-Za-z]\w*(?:_\w+)+)\b|\b([a-z]+[A-Z]\w*)\b|\b([A-Z]{2,}[A-Z0-9]*-\d+)\b|\b([\w-]+\.[a-z]{1,4})\b(?!\.\w)|(?<![\w.])(\d[\d.,:/-]*\d|\d)(?![\w])"
)


def _names(text: str) -> Iterable[str]:
    """What stands in `text` that cannot be paraphrased: code, quoted names, URLs, flags, paths, numbers."""
    for match in _IDENTIFIERS.finditer(text):
        name = match[match.lastindex or 0].rstrip(".,:;/")
        if name:
            yield name


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _quotes(item: Item) -> str:
    return "\n".join(quote.quote for quote in item.evidence)


def _narrow(item: Item) -> str:
    """The scope that a claim asks for; words that speak of this project alone are never for all of them."""
    return "project" if speaks_of_one_project(_quotes(item)) else item.scope


def _retires(item: Item, near: NearFact) -> None:
    """Doubt the end of a known fact for which the person said nothing about it."""
    if not carries(_quotes(item), f"{near.name.replace('-', ' ')}\n{near.summary}"):
        raise _Doubt("quote-unrelated", "its quotes share no word with the fact that it retires")


def _meant(item: Item) -> None:
    """Doubt a claim that its quotes cannot mean."""
    quotes = _quotes(item)
    claim = f"{item.slug.replace('-', ' ')}\n{item.summary}\n{item.body}"
    if not carries(quotes, claim):
        raise _Doubt("quote-unrelated", "its quotes share no word with it")
    if turns_round(quotes, claim):
        raise _Doubt("turned-round", "it says the opposite of its quotes")


def _room(claims: list[Claim], at_most: int | None) -> None:
    if at_most is not None and len(claims) >= at_most:
        raise _Doubt("too-many", f"more than {at_most} in one turn")


def _clean(item: Item) -> None:
    for text in (item.slug, item.summary, item.body, *item.related, *(quote.quote for quote in item.evidence)):
        if holds_secret(text):
            raise _Doubt("secret", "it holds a secret, or the place of one")


def _slug(slug: str) -> None:
    if not _SLUG.fullmatch(slug) or slug.startswith("quarantined-"):
        raise _Doubt("bad-slug", "2 to 5 words of lower-case ASCII, joined by hyphens")
    if _VALUE_IN_SLUG.search(slug):
        raise _Doubt("bad-slug", "a date, number or ticket in it would have to change with the value")


def _lengths(item: Item) -> None:
    if not item.summary.strip() or not item.body.strip():
        raise _Doubt("schema", "summary or body is blank")
    if "\n" in item.summary.strip() or len(item.summary) > SUMMARY_CHARACTERS:
        raise _Doubt("too-long", f"summary over one line of {SUMMARY_CHARACTERS} characters")
    if len(item.body) > BODY_CHARACTERS or len(_SENTENCE_END.findall(item.body.strip())) >= BODY_SENTENCES:
        raise _Doubt("too-long", f"body over {BODY_SENTENCES} sentences or {BODY_CHARACTERS} characters")


def _claimed(item: Item, slug: str, scope: str, evidence: tuple[Evidence, ...], near: NearFact | None = None) -> Claim:
    return Claim(
        op="add" if near is None and item.op in ("update", "supersede") else item.op,
        slug=slug,
        kind=item.kind,
        scope="user" if scope == "user" else "project",
        summary=Redacted(item.summary.strip()),
        body=Redacted(item.body.strip()),
        strength=Strength(item.strength),
        related=tuple(name for name in item.related if _SLUG.fullmatch(name) and name != slug),
        valid_until=item.valid_until,
        evidence=evidence,
        near=near.number if near else None,
    )


def _verbatim(quote: str, text: str) -> Redacted | None:
    """`quote` as it stands in `text`, white space folded; None where it does not."""
    words = quote.split()
    if not words or len("".join(words)) < _QUOTE_CHARACTERS:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return Redacted(found[0]) if found else None


def _note(note: str | None) -> Redacted | None:
    """The revised note, cut to its size; none if it carries orders or hides something into the next prompts."""
    if not note or gives_orders(note):
        return None
    words = _WORDS.findall(note[:NOTE_CHARACTERS])
    return redact("".join(words[:NOTE_WORDS]).strip()) or None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
