"""A request in, an answer in the strict schema out, found by a grammar of explicit statements alone.

No model, no network. Strict on purpose: one wrong fact misleads every later session, a missing one costs a question.
It reads the person's own words of this turn; foreign text can only become suspicious. What it answers is judged by
`reply` and `verify` like any model's answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from distiller.distill import note, planted, topics
from distiller.distill.dates import absolute
from distiller.distill.languages import LANGUAGES, Cue, Language
from distiller.distill.recalls import is_recall
from distiller.distill.redact import holds_secret
from distiller.distill.reply import Item, Quote
from distiller.distill.verify import BODY_CHARACTERS, FACTS_PER_TURN, SUMMARY_CHARACTERS
from distiller.vocabulary import FactKind, NearFact, Request, Row, Window


class Sentence(NamedTuple):
    """A sentence of a row, verbatim, and the same with quoted parts blanked: what cues are looked for in."""

    text: str
    masked: str
    start: int  # characters; where it stands in the row
    end: int


class _Found(NamedTuple):
    sentence: Sentence
    row: Row
    cue: Cue
    language: Language
    firm: bool
    body: str
    support: Quote | None = None  # what the agent proposed, where the person agreed to it


_LONG = 1200  # characters: longer prompts are briefs
_LIST_ITEMS = 3  # from here on a list is one
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]", re.MULTILINE)
_SENTENCES = range(2, 61)  # words: shorter ones state nothing, longer ones are no statement
_SHORTEST_BODY = 12  # characters
_SUSPICIOUS_PER_TURN = 3
_TELLING = 2  # content words from which on a proposal says what is proposed
_END = re.compile(r"(?<=[.!?])(?P<close>[\"'\u201d\u2019)\]]{0,3})\s+(?=\S)|\n\s*")
_ABBREVIATED = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|prof|st|e\.g|i\.e|vs|approx|incl|resp|ca|cf|fig|sec|max|min|mt|mio|dept|sr|jr|z\.B|d\.h|u\.a|bzw|inkl|evtl|ggf)\.|\.\.\.)\Z",
    re.IGNORECASE,
)
_ABBREVIATED_BEFORE_A_NUMBER = re.compile(r"\b(?:no|nr|nos|p|pp|ch|vol|art)\.\Z", re.IGNORECASE)
_ABBREVIATED_BEFORE_MORE = re.compile(r"\b(?:etc|usw|inc|ltd|al|a\.m|p\.m)\.\Z", re.IGNORECASE)
_INITIAL = re.compile(r"(?:\A|[^\w.]|\b[A-Z]\.)[A-Z]\.\Z")
_LONGEST_ABBREVIATION = 12  # characters, with what tells it from a word's end
_WRAPPED = 60  # characters: a line of this length that goes on in lower case was wrapped, not ended
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(
    r"`[^`\n]{0,400}`|\"[^\"\n]{0,400}\"|“[^“”\n]{0,400}”|«[^«»\n]{0,400}»|„[^„“\n]{0,400}“|(?<![\w])'[^'\n]{2,400}'(?!\w)"
)
_REQUEST_PREFIX = re.compile(r"(?i)(?:can|could|would|will) you (?:please |also )?(?=(?:stop|always|never)\b)")
_LEADING_PLEASE = re.compile(r"(?i)\A(?:please|bitte)[, ]+")
_PRONOUN_ONLY = re.compile(r"(?i)\A(?:that|this|it|they|these|those)\b")


def answer(request: Request) -> str:
    """JSON text of the strict schema: what the person stated outright in this turn."""
    window = request.window
    found = list(_statements(window))
    facts = [_item(one, request) for one in found if one.firm][:FACTS_PER_TURN]
    candidates = [_item(one, request) for one in found if not one.firm][:FACTS_PER_TURN]
    facts = [*_retired(request), *facts]
    suspicious = planted.items(window)
    empty = not facts and not candidates and not suspicious
    return msgspec.json.encode(
        {
            "facts": facts,
            "candidates": candidates,
            "suspicious": suspicious,
            "session_note": note.write(request),
            "empty_reason": "no-cue" if empty else None,
        }
    ).decode()


def sentences(text: str) -> list[Sentence]:
    """The sentences of `text`, verbatim and in order; fenced code is left out."""
    plain = _FENCE.sub(lambda match: "\n" * len(match[0]), text)
    found: list[Sentence] = []
    start = 0
    for end, following in _ends(plain):
        if _goes_on(plain, start, end, following):
            continue
        piece = text[start:end]
        if stripped := piece.strip():
            at = start + piece.index(stripped)
            found.append(Sentence(stripped, _masked(stripped), at, at + len(stripped)))
        start = following
    return found


def _ends(text: str) -> Iterator[tuple[int, int]]:
    """Where a sentence may end and where the next one would begin."""
    for match in _END.finditer(text):
        yield match.start() + len(match["close"] or ""), match.end()
    yield len(text), len(text)


def _goes_on(text: str, start: int, end: int, following: int) -> bool:
    """Whether what looks like a sentence's end is the stop of an abbreviation or the end of a wrapped line."""
    if following == len(text):
        return False
    after = text[following]
    if text[end] == "\n":
        line = text[max(start, text.rfind("\n", start, end) + 1) : end]
        return text.count("\n", end, following) == 1 and len(line) >= _WRAPPED and after.islower()
    before = text[max(start, end - _LONGEST_ABBREVIATION) : end]
    return bool(
        _ABBREVIATED.search(before)
        or (_ABBREVIATED_BEFORE_A_NUMBER.search(before) and after.isdigit())
        or (_ABBREVIATED_BEFORE_MORE.search(before) and not after.isupper())
        or (_INITIAL.search(before) and after.isupper())
    )


def _masked(text: str) -> str:
    return _QUOTED.sub(lambda match: "`" + "_" * (len(match[0]) - 2) + "`", text)


# --- finding ----------------------------------------------------------------------------------------------------


def _own_rows(window: Window) -> list[Row]:
    return [row for row in window.rows if row.part == "own" and not row.previous and not is_recall(row)]


def _statements(window: Window) -> Iterator[_Found]:
    """Statements in the order in which they were said, each once."""
    seen: set[str] = set()
    for row in _own_rows(window):
        parts = sentences(row.text)
        for index in range(len(parts)):
            found = _statement(row, parts, index, window)
            if found and found.body.casefold() not in seen:
                seen.add(found.body.casefold())
                yield found


def _statement(row: Row, parts: list[Sentence], index: int, window: Window) -> _Found | None:
    sentence = parts[index]
    if len(sentence.text) > BODY_CHARACTERS or len(sentence.text.split()) not in _SENTENCES:
        return None
    for language in LANGUAGES:
        opened = _opened(sentence.masked, language)
        asked = _REQUEST_PREFIX.match(opened)
        plain = opened[asked.end() :].rstrip(" ?") if asked else opened
        if language.agreement.match(plain):
            return _agreed(row, sentence, language, window)
        if not _lasting(plain, sentence, language):
            continue
        cue = _cue(plain, language)
        if cue is None or (_in_a_brief(row, sentence) and not cue.explicit):
            continue
        around = parts[max(0, index - 1) : index + 2]
        insisted = any(
            language.insistence.search(text)
            for part in around
            for text in (part.masked, _opened(part.masked, language))
        )
        firm = cue.firm or (insisted and not _asks_why(plain))
        body = _body(row.text, parts, index, len(sentence.text) - len(opened) + (asked.end() if asked else 0), language)
        if len(body) >= _SHORTEST_BODY and not holds_secret(body):
            return _Found(sentence, row, cue, language, firm and not _bare_pronoun(body), body)
    return None


def _in_a_brief(row: Row, sentence: Sentence) -> bool:
    """Whether a sentence stands in a long prompt or a list, whose "always" and "never" describe a task."""
    listed = bool(_BULLET.match(sentence.text)) and len(_BULLET.findall(row.text)) >= _LIST_ITEMS
    return listed or len(row.text) > _LONG


def _opened(text: str, language: Language) -> str:
    """`text` without the words that only open it."""
    while match := language.opening.match(text):
        text = text[match.end() :]
    return text


def _lasting(plain: str, sentence: Sentence, language: Language) -> bool:
    """Whether the sentence could hold beyond this turn: no question, no doubt, nothing that narrows it."""
    return not (
        language.question.search(plain)
        or language.doubt.search(sentence.masked)
        or language.narrowing.search(sentence.masked)
    )


def _cue(plain: str, language: Language) -> Cue | None:
    """The first cue of `plain`, firm ones before weak ones; what also tells of the person is about the person."""
    met = [cue for cue in language.cues if _at_its_place(cue, plain, language)]
    if met and met[0].kind is FactKind.FEEDBACK and met[0].firm:
        return next(
            (
                cue._replace(explicit=met[0].explicit)
                for cue in language.cues
                if cue.kind is FactKind.USER and cue.pattern.search(plain)
            ),
            met[0],
        )
    return met[0] if met else None


def _at_its_place(cue: Cue, plain: str, language: Language) -> bool:
    """Whether `cue` opens the sentence, stands behind a harmless lead, or closes a rule, as it may."""
    if cue.opens:
        return bool(cue.pattern.match(plain))
    return any(
        language.lead.fullmatch(plain, 0, found.start()) or (cue.closes and _closes(plain, found, language))
        for found in cue.pattern.finditer(plain)
    )


def _closes(plain: str, found: re.Match[str], language: Language) -> bool:
    """Whether a cue stands behind the rule that it makes last."""
    return bool(language.closing.fullmatch(plain, found.end()) and language.rule.match(plain, 0, found.start()))


def _asks_why(plain: str) -> bool:
    return plain.lower().startswith("why")


def _bare_pronoun(body: str) -> bool:
    """A statement about "this" means nothing once the turn is gone."""
    return bool(_PRONOUN_ONLY.match(body))


def _agreed(row: Row, sentence: Sentence, language: Language, window: Window) -> _Found | None:
    """An assent that makes a rule of what the agent proposed just before."""
    proposal = _proposal(window, row, language)
    if proposal is None:
        return None
    cue = next(cue for cue in language.cues if cue.kind is FactKind.FEEDBACK)
    body = f"{sentence.text.rstrip('.! ')} (about the proposal: {proposal.quote.rstrip('?.! ')})."
    if len(body) > BODY_CHARACTERS:
        return None
    return _Found(sentence, row, cue, language, firm=True, body=body, support=proposal)


def _proposal(window: Window, row: Row, language: Language) -> Quote | None:
    """What the agent last proposed; a bare "Shall I?" is about the sentence before it."""
    earlier = [one for one in window.rows if one.part == "assistant" and one.number < row.number]
    parts = sentences(earlier[-1].text) if earlier else []
    for index in range(len(parts) - 1, -1, -1):
        if language.proposal.search(parts[index].masked):
            said = next((part for part in parts[index::-1] if len(topics.content(part.text)) >= _TELLING), None)
            return Quote(earlier[-1].number, "assistant", said.text) if said else None
    return None


# --- writing ----------------------------------------------------------------------------------------------------


def _body(text: str, parts: list[Sentence], index: int, skip: int, language: Language) -> str:
    """The person's own sentence without its opening, and the one beside it if that limits or explains it.

    Always one stretch of `text`, so that nothing stands in it that the person did not say there.
    """
    sentence = parts[index]
    own = sentence.text[skip:]
    start = skip + len(own) - len(_without_preface(own, language))
    start, end = sentence.start + start, sentence.end
    if index + 1 < len(parts) and language.exception.match(parts[index + 1].masked):
        end = parts[index + 1].end if parts[index + 1].end - start <= BODY_CHARACTERS else end
    if index and language.insistence.match(_opened(sentence.masked, language)):
        start = parts[index - 1].start
    own = " ".join(text[start:end].split())
    own = own.rstrip("?") if end == sentence.end else own
    return own[:1].upper() + own[1:]


def _without_preface(own: str, language: Language) -> str:
    """`own` from where it says something itself."""
    own = _LEADING_PLEASE.sub("", own).lstrip(" .,;:-\u2013\u2014")
    preface = language.preface.match(own)
    return own[preface.end() :] if preface else own


def _summary(body: str) -> str:
    """The beginning of `body` that fits one line and ends at a clause."""
    line = " ".join(body.split())
    if len(line) <= SUMMARY_CHARACTERS:
        return line
    head = line[: SUMMARY_CHARACTERS - 2]
    clause = max(head.rfind(mark) for mark in (". ", "; ", ", ", " because ", " so ", " (", ": "))
    at = clause if clause > SUMMARY_CHARACTERS // 2 else head.rfind(" ")
    return f"{head[:at].rstrip(' ,;:(')} …"


def _item(found: _Found, request: Request) -> Item:
    """The claim that a statement makes, as a model would write it."""
    dated = absolute(found.body, request.window.local_date)
    near = topics.nearest(found.body, request.near_facts, moved=found.cue.moved)
    everywhere = found.language.everywhere.search(found.sentence.masked) or found.cue.kind is FactKind.USER
    return Item(
        op=_op(found, near),
        slug=near.name if near else topics.name(_subject(found.body), request.near_facts),
        kind=found.cue.kind,
        scope=_scope(near, everywhere=bool(everywhere)),
        summary=_summary(dated.text),
        body=dated.text,
        strength="stated",
        evidence=(Quote(found.row.number, "user", found.sentence.text), *((found.support,) if found.support else ())),
        valid_until=dated.valid_until,
        near=near.number if near else None,
    )


def _subject(body: str) -> str:
    """What a statement is about, without a lead such as "the decision after the call:"."""
    lead, colon, rest = body.partition(": ")
    return rest if colon and len(rest) > len(lead) else body


def _op(found: _Found, near: NearFact | None) -> Literal["add", "update", "supersede"]:
    if near is None:
        return "add"
    return "supersede" if found.cue.moved else "update"


def _scope(near: NearFact | None, *, everywhere: bool) -> Literal["user", "project"]:
    return "user" if everywhere or (near and near.scope == "user") else "project"


def _retired(request: Request) -> Iterator[Item]:
    """What the person asks to forget, if one of the near facts is meant."""
    for row in _own_rows(request.window):
        for sentence in sentences(row.text):
            asked = any(language.forget.match(_opened(sentence.masked, language)) for language in LANGUAGES)
            near = _meant(sentence.text, request.near_facts) if asked else None
            if near:
                yield Item(
                    op="retire",
                    slug=near.name,
                    kind=near.kind,
                    scope="user" if near.scope == "user" else "project",
                    summary=near.summary[:SUMMARY_CHARACTERS],
                    body=near.summary,
                    strength="stated",
                    evidence=(Quote(row.number, "user", sentence.text),),
                    near=near.number,
                )


def _meant(text: str, near_facts: tuple[NearFact, ...]) -> NearFact | None:
    """The near fact that a request to forget names: at least half of what it says must be said of that fact."""
    words = topics.content(text) - _ASKING
    shared = {near: len(words & topics.content(f"{near.name.replace('-', ' ')} {near.summary}")) for near in near_facts}
    best = max(near_facts, key=shared.__getitem__, default=None)
    return best if best and words and 2 * shared[best] >= len(words) else None


_ASKING = topics.content(
    "forget drop delete discard remove save store saving storing remembering rule preference convention policy fact"
    " memory said told tell vergiss regel"
)
