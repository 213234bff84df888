"""Text in, whether it gives orders, grants permission, hides itself or sends data away out.

Such text is never a fact, whoever seems to say it: it is stored quarantined, shown to the person, served to no agent.
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
    | \b(?:disable|turn\W+off|switch\W+off|bypass|skip)\W+(?:\w+\W+){{0,2}}(?:security|safety|permission|sandbox)
    | \b{_SEND}\W+(?:\w+\W+){{0,4}}{_DATA}\W+(?:\w+\W+){{0,3}}(?:to|at|via)\s+\S
    | \b{_DATA}\W+{_MUST}\W+be\W+{_SEND}\b
    | \bcurl\b[^\n]*\b{_DATA}
    | <\s*/?(?:system|assistant|user|system-reminder)\b
    | ^\s*(?:system|assistant|developer)\s*:
    """,
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)

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
    """Whether `text` orders, permits, hides or sends something, so that it must not be served as a fact."""
    return _ORDERS.search(text) is not None


def planted_orders(text: str) -> Iterator[str]:
    """Sentences of foreign `text` that speak to an agent and order something; verbatim, in order."""
    if not _ORDERS.search(text):
        return
    for piece in _BREAK.split(text):
        sentence = piece.strip(' \t"')
        speaks = len(sentence) in _LENGTHS and _ADDRESSED.search(sentence) and _ORDERS.search(sentence)
        if speaks and not _HARNESS.search(sentence):
            yield sentence
