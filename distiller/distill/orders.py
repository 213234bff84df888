"""Text in, whether it gives orders, grants permission, hides itself or sends data away out.

Such text is never a fact, whoever seems to say it: it is stored quarantined, shown to the person, served to no agent.
That holds for the person's own words too, where they grant something or relax a check: what an agent may do without
asking is decided by the person looking at it, not by a grammar. What only forbids such a thing is a rule like others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_READER = (
    r"(?:(?:all|any|the|every)\ )?(?:(?:ai|coding|llm)\ )?"
    r"(?:agents?|assistants?|models?|llms?|claude|codex|copilot|gemini|you)"
)
_MUST = r"(?:must|should|shall|need\ to|needs\ to|have\ to|has\ to)"
_MAY = r"(?:may|can|(?:are|is)\ allowed\ to|ha(?:ve|s)\ permission\ to)"
_DATA = (
    r"(?:credentials?|secrets?|passwords?|tokens?|(?:api|ssh|cloud|private)\ keys?|\.env\b"
    r"|env(?:ironment)?\ (?:file|var\w*)|cookies?|logs?|transcripts?|source\ code|history)"
)
_SEND = (
    r"(?:upload(?:ed)?|send|sent|post(?:ed)?|forward(?:ed)?|submit(?:ted)?|exfiltrate[sd]?|leak|transmit(?:ted)?"
    r"|report(?:ed)?)"
)
_TELL = r"(?:tell|telling|inform\w*|notify\w*|alert\w*|mention\w*|reveal\w*)"
_PERSON = r"(?:user|person|human|developer|reminder|owner|anyone)\b"

_ORDERS = re.compile(
    rf"""
      \b(?:ignore|disregard|forget|override)\b\W+(?:\w+\W+){{0,3}}(?:previous|prior|earlier|above|system|your)\W+
        (?:\w+\W+){{0,2}}(?:instructions?|prompts?|rules|messages|guidelines)
    | \b(?:do\ not|don't|never|without)\W+(?:\w+\W+){{0,2}}{_TELL}\W+(?:\w+\W+){{0,4}}{_PERSON}(?!\ to\b)
    | \b(?:hide|conceal|keep)\W+(?:\w+\W+){{0,4}}from\W+(?:the\W+)?{_PERSON}
    | \b{_READER}\W+(?:{_MUST}|{_MAY})\W+(?:always\W+|now\W+)?
        (?:{_SEND}|skip\W+(?:review|confirmation|approval|tests)|bypass|disable)\b
    | \b{_READER}\W+{_MAY}\W+(?:\w+\W+){{0,8}}without\W+(?:ask|confirm|approv|review|permission|check)
    | \bno\W+need\W+to\W+(?:ask|confirm)
    | \bno\W+(?:confirmation|approval|permission|review)\W+(?:is\W+)?(?:needed|required|necessary)
    | \b(?:permission|approval|consent)\W+(?:is|was|has\W+been)\W+(?:hereby\W+|already\W+)?(?:granted|given)
    | \b{_SEND}\W+(?:\w+\W+){{0,4}}{_DATA}\W+(?:\w+\W+){{0,3}}(?:to|at|via)\s+\S
    | \b{_DATA}\W+{_MUST}\W+be\W+{_SEND}\b
    | \bcurl\b[^\n]{{0,200}}\b{_DATA}
    | <\s{{0,9}}/?(?:system|assistant|user|system-reminder)\b
    | ^[ \t]{{0,40}}(?:system|assistant|developer)[ \t]{{0,40}}:
    """,
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)

_CHECK = (
    r"(?:tests?|checks?|reviews?|hooks?|approvals?|confirmations?|permissions?|prompts?|sandbox\w*|verification|validation"
    r"|lint\w*|ci|pipelines?|audit\w*|scan\w*|certificates?|ssl|tls|2fa|mfa|signatures?|guard\w*|safety|security|firewall)"
)
_INFORMS = r"(?:find|see|read|look|check|tell|recogni[sz]e|assume|expect|reach|view|learn|ignore)"
_AGENT = r"(?:you|claude|codex|agents?|the\ agent)"
_GRANTED = r"(?:permission|approval|consent|authori[sz]ation)"
_RISKS = re.compile(
    rf"""
      \b(?:i|we)\ (?:hereby\ |herewith\ |now\ )?(?:grant|allow|permit|authori[sz]e|entitle|trust)\ {_AGENT}\b
    | \b{_AGENT}\ (?:may|can|could|are\ (?:free|allowed|permitted|authori[sz]ed|welcome)\ to
        |ha(?:ve|s)\ (?:(?:my|full|our)\ )?(?:{_GRANTED}|ok|access))\b(?!\ (?:not|never|only|{_INFORMS})\b)
    | \bfeel\ free\ to\b | \b(?:my|full|blanket|standing)\ {_GRANTED}\b
    | \b(?:skip|disable|bypass|turn\ off|switch\ off|deactivate|suppress|circumvent|work\ around|overrid\w+)
        \W+(?:\w+\W+){{0,3}}{_CHECK}\b
    | \bwithout\ (?:\w+\ ){{0,2}}
        (?:asking|confirm\w*|approval|permission|review\w*|checking|consent|telling\ me|my\ ok(?:ay)?)\b
    | \b(?:self-?)?(?:approve|merge|accept|confirm)\W+(?:\w+\W+){{0,5}}
        (?:automatically|yourself|blindly|everything)\b
    | \byes\ to\ (?:all|every\w*|any)\b
    | \bsudo\b | \brm\ +-\w*(?:r\w*f|f\w*r)\w*\b | \bchmod\ +(?:-R\ +)?[0-7]?777\b
    | --(?:no-verify|force|dangerously[\w-]*|yolo|insecure|privileged)\b | \b(?:yolo|bypass\w*)\ mode\b
    | \bforce[-\ ]?push | \bpush\ (?:-f|--force)\b
    | \b(?:curl|wget|iwr|irm|invoke-webrequest)\b[^\n]{{0,200}}?\|
        \s{{0,9}}(?:sudo\s+)?(?:(?:ba|z|da|k|fi)?sh|python\d?|node|perl|iex)\b
    | \b(?:ba|z)?sh\b[^\n]{{0,20}}[<$(]{{1,3}}\s{{0,9}}(?:curl|wget)\b
    | \b(?:eval|iex)\b[^\n]{{0,20}}\b(?:curl|wget|iwr|irm)\b
    | \b(?:du\ (?:darfst|kannst)|(?:darfst|kannst)\ du)\b(?!\ (?:nicht|nie|nur|kein\w*)\b)
    | \bohne\ (?:zu\ fragen|rückfrage|nachfrage)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LIFTS = re.compile(
    r"\b(?:don'?t|do not|never|no need to|stop|quit) (?:ever |need to |have to )?"
    r"(?:ask(?:ing)?|confirm(?:ing)?|check(?:ing)? with)\b(?! (?:why|what|how|which|who)\b)"
    r"(?! for (?!permission|confirm|approv|my ok))|\bfrage? (?:mich )?(?:nicht|nie)\b",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"\b(?:never|not|don'?t|doesn'?t|mustn'?t|shouldn'?t|can'?t|cannot|no|nor|none|avoid|stop|without|forbidden|unless"
    r"|refuse|nie|niemals|nicht|kein\w*|ohne)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.;!?\n]|,? \b(?:but|aber|however|and you)\b", re.IGNORECASE)
_HIDDEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u00ad\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff"
    "\\U000e0000-\\U000e007f]"
)
"""What a reader does not see, or sees elsewhere: control characters, invisible ones, and those that turn text round."""

_DISABLES = re.compile(
    r"\b(?:disable|turn\W+off|switch\W+off|bypass|skip)\W+(?:\w+\W+){0,2}(?:security|safety|permission|sandbox)",
    re.IGNORECASE,
)
"""Of `_RISKS` what foreign text asks for; the others stand in every second manual."""

_ADDRESSED = re.compile(
    rf"""
      \b(?:important|attention|system|note\ to|remember|ignore|disregard)\b
    | \b{_READER}\W+(?:{_MUST}|{_MAY})\b
    | \b(?:do\ not|don't|never)\W+{_TELL}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BREAK = re.compile(r"\n|\\n|(?<=[.!?])\s+")  # tool results are JSON: their line ends are escaped
_HARNESS = re.compile(r"internal ID - do not mention|</?system-reminder>")  # what agents write into tool results
_LENGTHS = range(20, 400)  # characters: shorter orders say nothing, longer "sentences" are data


def gives_orders(text: str) -> bool:
    """Whether `text` orders, permits, relaxes, hides or sends something, so that it must not be served as a fact."""
    return hides(text) or bool(_ORDERS.search(text) or _LIFTS.search(text)) or _risks(text)


def hides(text: str) -> bool:
    """Whether `text` holds characters that a person does not see."""
    return _HIDDEN.search(text) is not None


def _risks(text: str) -> bool:
    """Whether `text` wants something risky, in a clause that does not forbid it."""
    for found in _RISKS.finditer(text):
        clause = _CLAUSE.split(text[: found.start()])[-1]
        if not _FORBIDS.search(clause):
            return True
    return False


def planted_orders(text: str) -> Iterator[str]:
    """Sentences of foreign `text` that speak to an agent and order something; verbatim, in order."""
    if not (_ORDERS.search(text) or _DISABLES.search(text)):
        return
    for piece in _BREAK.split(text):
        sentence = piece.strip(' \t"')
        orders = len(sentence) in _LENGTHS and (_ORDERS.search(sentence) or _DISABLES.search(sentence))
        if orders and _ADDRESSED.search(sentence) and not _HARNESS.search(sentence):
            yield sentence
