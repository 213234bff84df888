# ruff: noqa: E501 - a table of phrases reads best with one phrase a line
"""Nothing in, how people state standing rules out: one table of phrases per language, read by `cues`.

A language is data: to add one, write its table and put it into `LANGUAGES`. Patterns see one sentence with quoted
parts blanked and opening words ("ok so", "btw") taken off; the first cue that matches names the kind of the fact.

What stands before a cue decides whose statement it is: "the customer wrote: from now on we …" is none of the person's.
So a cue counts only behind a `lead` that is known to be harmless, not behind everything that is not known to be wrong.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from distiller.vocabulary import FactKind


class Cue(NamedTuple):
    """A way to state something that lasts; `firm` ones make facts, the others candidates.

    `moved`: the words say that an earlier value no longer holds. `explicit`: meant to last whatever surrounds it, so
    that it counts even inside a long list of tasks.
    """

    pattern: re.Pattern[str]
    kind: FactKind
    firm: bool = True
    moved: bool = False
    explicit: bool = False
    opens: bool = True  # only opens a sentence; else it may stand behind a `lead`
    closes: bool = False  # may also stand at the end of the rule that it makes last: "no force pushes from now on"


class Language(NamedTuple):
    """What `cues` needs to know of one language."""

    opening: re.Pattern[str]  # interjections before the statement proper; a word that means something is none
    lead: re.Pattern[str]  # the whole of what may stand before a cue
    rule: re.Pattern[str]  # begins a rule whose cue closes it
    closing: re.Pattern[str]  # the whole of what may stand behind a cue that closes
    question: re.Pattern[str]
    doubt: re.Pattern[str]  # hypotheticals, musing, jokes, reports of what others say
    narrowing: re.Pattern[str]  # holds for now, here or one thing
    everywhere: re.Pattern[str]  # holds in all projects
    forget: re.Pattern[str]
    agreement: re.Pattern[str]  # "yes, always do that": its content stands in the proposal before
    proposal: re.Pattern[str]
    insistence: re.Pattern[str]  # said before: makes a request a rule
    preface: re.Pattern[str]  # "remember that": asks to keep, and says nothing itself
    exception: re.Pattern[str]  # begins a sentence that belongs to the one before
    cues: tuple[Cue, ...]


def _re(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def _cues(
    kind: FactKind,
    *patterns: str,
    firm: bool = True,
    moved: bool = False,
    explicit: bool = False,
    closes: bool = False,
) -> tuple[Cue, ...]:
    """Cues of one kind; a phrase that begins with a word boundary or a class may stand behind a lead."""
    return tuple(
        Cue(_re(pattern), kind, firm, moved, explicit, not pattern.startswith((r"\b", "[")), closes)
        for pattern in patterns
    )


# --- English ----------------------------------------------------------------------------------------------------

_REPO = r"(?:repo(?:sitory)?|project|code ?base|monorepo|package|team|company|org(?:ani[sz]ation)?|workspace)"
_OUR_REPO = rf"(?:in|for|across|throughout) (?:this|our|the whole|the entire) {_REPO}"
_TOOL_PLACE = (
    r"(?:linear|jira|github|gitlab|notion|confluence|slack|grafana|sentry|datadog|figma|trello|asana|clickup|youtrack"
    r"|bugzilla|google (?:drive|docs|sheets?)|sharepoint|1password|the wiki|kibana|metabase|looker|swaggerhub|discord|teams)"
)
_PLACE_NOUN = (
    r"(?:dashboards?|boards?|runbooks?|docs?|documentation|trackers?|wiki|specs?|designs?|mock-?ups?|tickets?|bugs?|issues"
    r"|alerts?|logs|metrics|schemas?|adrs?|decisions|roadmap|backlog|staging|channel|fixtures|style guide|guidelines|api docs)"
)
_PAST = r"(?:got|had|saw|did|was|were|gave|came|went|ran|knew|thought|found|made|said|told|took|wrote|\w{2,}ed)\b"

_TASK = (  # asks for something to be done with words, so that they are nobody's statement
    r"(?:explain|describe|write|rewrite|rephrase|translate|summari[sz]e|check|verify|find|see|tell|ask|say|explore|show|list|look|why"
    r"|how|what|whether|who|when|where|which|if|he|she|they|it|i|someone|people)\b"
)
_NOUNS = rf"(?!{_TASK})(?:(?:the|our|all|my|most|new|every|each) )?(?:[\w/'-]+ ){{0,4}}?"
_LABEL = (
    r"(?:(?:our|the|my|a|one|new|final|team|house|project|general|standing|coding) )*(?:rules?|conventions?|polic(?:y|ies)|decisions?"
    r"|preferences?|style|reminder|note|important|fyi|remember|record|requests?|thing|heads[- ]up|correction|answer|update|please|everywhere"
    r"|always|projects?|repos?(?:itor(?:y|ies))?)(?: (?:for|in|on|about|from|after|with) [^:;,]{1,40})?"
)
_ASKS_TO_KEEP = r"(?:keep in mind|bear in mind|remember|note|don'?t forget|mind)(?: that)?"

ENGLISH = Language(
    opening=_re(
        r"(?:ok(?:ay)?|so|also|btw|by the way|oh|and|but|hey|hi|hello|ah|yes|yeah|yep|thanks|thank you|fyi|hm+|uh+m*)(?:[,:;.!]+\s*|\s+-+\s*|\s+)",
        r"(?:well|one more thing|another thing|no|nope|nah|right|perfect|exactly|great|nice|good|cool|sure|alright|ps|p\.s\.|actually"
        r"|first|second|finally|then|look|listen|sorry|again|important|reminder|heads[- ]up|for the future|for next time|for later"
        r"|quick note|note|side note|just so you know|correction)(?:[,:;.!]+\s+|\s+[-\u2013\u2014]+\s+)",
        r"no (?=(?:we|i|please|always|never|don'?t|stop)\b)",
        r"(?:hey |hi |hello |dear )?(?:claude|codex|copilot|gemini|assistant|team|folks|guys|all)[,:]\s+",
        r"(?:[-*•]|\d+[.)]|\.{3}|…)\s+|-(?=[a-z]{2})",
        r"(?:(?:in|for|across) (?:all|every|any)(?: of)? (?:my|our|the)? ?(?:projects?|repos?|repositories)|everywhere(?: i work)?)[,:]\s*",
        r"i (?:keep|kept) (?:telling|saying|asking)(?: you)?[:,]?\s+",
    ),
    lead=_re(
        r"(?:[^:]*[,;\u2013\u2014]|[^:]* - |)"  # a clause of its own, then
        r"(?: ?(?:and|but|so|because|since|also|then|now|please|therefore|hence|again|just|that'?s why"
        rf"|{_ASKS_TO_KEEP}|i (?:really )?(?:want|expect|need) (?:you|us) to|i(?:'d| would) like (?:you|us) to|make sure(?: that)?"
        r"|be sure to|(?:we|you|agents?|everybody|everyone|it)(?:'ll| (?:should|must|will|shall|have to|need to))?"
        r"|(?:in|for|across|within|throughout|on|with|inside|under|at|whenever|when|after|before|starting|since|as of) [^,:;]{1,50}))*[, ]*",
        rf"{_LABEL}\W*: *(?:please |and )?",
        r"(?:i |we |ah |just )*(?:found|got|checked|looked)(?: it| that| them| out)?(?: up)?(?: myself)?: *",
    ),
    rule=_re(
        r"(?:please |and |but |so )*(?!(?:he|she|it|they|this|that|these|those|there|the|a|an|his|her|their|some\w*|people|i|i'\w+|my|let|what|how"
        r"|why|who|where|which|if|when|maybe|as)\b)(?!\w+(?:ing|ed)\b)(?!\w+ (?:will|would|wants?|is|was|has|said|says|gets?|keeps?|goes)\b)\w",
        r"(?:i (?:want|expect|need|prefer)|i'd like|the \w+(?: \w+){0,3} (?:must|should|may|has to|have to|needs? to)|let'?s)\b",
    ),
    closing=_re(
        r"[\s,]*(?:please|pls|thanks|ok(?:ay)?|(?:in|for|across|on|with) [^,;:]{1,40})?(?:[,;] (?:because|since|as|except|but|and|so|i\.e\.|e\.g\.) .*)?\W*"
    ),
    question=_re(
        r"\?\W*\Z",
        r"(?:what|which|who|whose|why|where|when|how)\b(?!ever)(?! we\b.*,)(?=.*\b(?:is|are|do|does|did|can|should|would|was|were|will|about|come)\b)"
        r"(?!en\b)(?!.*, )",
        r"(?:is|are|do|does|did|should|shall|would|could|can|has|have|was|were|will) (?:we|i|it|this|that|you|the|there|they)\b",
    ),
    doubt=_re(
        r"\b(?:maybe|perhaps|might|possibly|probably|not sure|no idea|i wonder|i guess|i suppose|let'?s see|what if|imagine|suppose"
        r"|hypothetical\w*|in theory|as if|lol|haha|just kidding|jk|joking|joke|captain|pretend|for (?:example|instance)|as an example)\b",
        r"\b(?:old|former|previous|earlier) (?:rule|convention|policy|style|way|habit)\b|\b(?:rule|convention|policy) was\b",
        r"\bi think\b(?!.*\b(?:always|never) (?:use|run|do)\b.*\bplease\b)",
        # what others say, or said, or want
        r"(?<!\bi )(?<!\bi just )(?<!i've )(?<!already )\b(?:said|told|wrote)\b(?! you\b)|\b(?:says|tells|writes (?:that|in)|answered|replied|claim(?:s|ed)?"
        r"|joke[ds]?|joked|joking|insist(?:s|ed)|demand(?:s|ed)|suggest(?:s|ed)?|mentioned|according to|supposedly|allegedly|apparently|reportedly"
        r"|rumou?r\w*|quot(?:e[ds]?|ing) (?:from|by|of)|sarcas\w*|ironic\w*|i (?:just )?(?:heard|read)|i'm told)\b",
        r"\b(?:he|she|they|people|some|someone|somebody|everyone|boss|manager|colleagues?|co-?workers?|teammates?|customers?|clients?|reviewers?|bot|models?"
        r"|assistant|claude|codex|chatgpt|copilot)(?: \w+)? (?:say|tell|think|thinks|want|wants|wanted|like|likes|liked"
        r"|keep|keeps|kept|believe|believes|prefer|prefers|expect|expects|thought|recommend|recommends)\b",
        r"\b(?:docs?|documentation|readme|history|article|tutorial|book|spec|page|site|linter|log|comment)s? (?:say|tell|want|recommend|demand|claim)s?\b",
        # what is denied or taken back
        r"\bi (?:disagree|hate (?:it )?when|doubt|don'?t (?:think|believe)|do not (?:think|believe))\b",
        r"\b(?:not|no longer|isn'?t|never|hardly) (?:been )?(?:true|the case|correct|right|valid)\b|\bit(?:'s| is) (?:false|wrong|untrue|nonsense|a lie|a myth) that\b",
        r"\A(?:false|wrong|untrue|nonsense|a lie)\b *[:,\u2013\u2014-]|\bthe opposite\b",
        r"\b(?:which|this|that|it|repo\w*|project|though) (?:is|was) (?:\w+ )?(?:wrong|false|untrue|nonsense|not true|a lie|outdated|a myth|stupid)\b(?! [\w'])",
        r"\A(?:please )?(?:undo|revert|cancel|scratch|retract|withdraw|ignore|disregard|forget|drop|take back|don'?t (?:remember|save|store|note))\b"
        r"(?:[^:]{0,40}:|(?: about)? (?:that|what|when|the rule|my|how)\b)",
        # what was, what happens, what is wrong
        r"\b(?:previously|formerly|back then|in the past|once upon|years ago|(?:we|i|you|it) used to|(?:at|in) (?:my|our) (?:previous|old|last|former) \w+)\b",
        r"\b(?:we|i|they|you|it) (?:always|never) (?!(?:need|feed|embed|seed|speed|shed|exceed|proceed|succeed)\b)\w{2,}ed\b",
        r"\b(?:we|it|they|i|this|that|\w+s) (?:always|never|still|often|only) (?:crash|fail|break|hang|throw|lose|time out|run (?:into|out)|end up|forget|miss|handle"
        r"|see|get|got|hit an?|find|catch|know|seem|happen|finish|work)\b",
        r"\bfix (?:it|this|that|them)\W*\Z|\b(?:that|which|this|there)(?:'s| is) (?:the|a|our) (?:bug|problem|issue|error|mistake)\b",
        r"(?-i:\bX\b.*\bY\b)|\bfoo\b.*\bbar\b",
        r"\b(?:grandma|grandpa|mom|mum|dad|mother|father|wife|husband|my kids?|girlfriend|boyfriend|lunch|dinner|breakfast|a (?:beer|nap|walk|coffee|break))\b",
        r"\b(?:is|was|as) (?:its|his|her|their|the|a|an|your) (?:doc ?string|name|title|phrase|quote|motto|slogan|caption|headline|label|comment)\b",
        r"\A(?:#|//|/\*|--|%|<|\*\w)",
        r"\b(?:do you think|i read|i heard|someone|somebody|they) (?:that|say|said|somewhere|told)?\b.*\b(?:always|never|should)\b",
        r"\b(?:if|unless) (?:we|i|you|it) (?:were|could|would|had)\b",
        r"\b(?:would|could) (?:be|you)\b.*\bif\b",
        r"\A(?:if|when|let'?s|lets)\b(?!.*\b(?:always|never|from now on|please)\b)|\A(?:if|unless)\b.*\b(?:otherwise|else)\b",
        r"[;:]-?[)DP]|😂|🤣|😄|😉",
        r"\A(?:please )?(?:add|write|create|implement|make|put|generate|draft|include|insert)\b.*\b(?:rule|test|check|section|note|comment|line|sentence"
        r"|paragraph|docs?|readme|changelog|page|message|banner)\b.*\b(?:that|saying)\b",
        r"\bnever mind\b|\bnvm\b",
        r"\b(?:translate|rephrase|commit (?:this|it|that)\b|with the message|error says|it says|the (?:issue|doc|readme|log|article"
        r"|review(?:er)?|comment) says)\b",
    ),
    narrowing=_re(
        r"\b(?:this|that) (?:time|once|run|change|commit|pr|branch|file|function|method|class|module|test|session|task|page|case|step"
        r"|version|script|component|button|screen|one|turn|round|patch|diff|line|section|paragraph|message|conversation|chat|issue|ticket)\b",
        r"\b(?:for now|for the moment|right now|at the moment|for the time being|temporar\w+|meanwhile|afterwards?|just once|only once"
        r"|tonight|this (?:morning|afternoon|evening)|(?:just|only) (?:here|this|today)|later today|first (?:pass|step)|as a test)\b",
        r"(?<!since )(?<!as of )(?<!from )(?<!starting )\btoday\b",
        r"\buntil\b(?! (?:further notice|\(?\d{4}-|(?:mon|tues|wednes|thurs|fri|satur|sun)day))",
        r"\bby (?:noon|tonight|eod|midnight|tomorrow|the end of (?:the )?day)\b",
        r"\b(?:just|only) for\b",
        r"\bthe (?:first|second|third|last|other|latter|former|next|previous|above|following|same|new) (?:\w+ )?(?:one|approach|option|idea|variant|solution"
        r"|version|way|suggestion|proposal|choice|alternative)s?\b|\b(?:your|that|this) (?:approach|option|idea|variant|solution|suggestion|proposal|choice|alternative)\b",
        r"\b(?:while|during) (?:debugging|testing|you|i|we|the (?:demo|test|refactoring|migration))\b|\btomorrow\W*\Z",
        r"(?:\Ause\b.*|\bwork(?:ing)? )(?:on|with|for) (?:this|it)\b(?! (?:repo|project|code ?base|team|company|machine|laptop))",
    ),
    everywhere=_re(
        r"\b(?:in|for|across) (?:all|every|any)(?: of)? (?:my|our|the)? ?(?:projects?|repos?|repositories|code ?bases?|sessions?)\b",
        r"\b(?:everywhere|wherever i work|no matter (?:which|what) (?:project|repo))\b",
    ),
    forget=_re(
        r"(?:please )?(?:forget|drop|delete|discard|remove)\b.{0,30}\b(?:what i (?:said|told)|the (?:rule|preference|fact|memory|note)|that rule)\b.*",
        r"(?:please )?(?:don'?t|do not|stop) (?:save|saving|remember|remembering|store|storing|keep|keeping)\b.*\b(?:that|this|it|about|what)\b.*",
        r"(?:please )?forget (?:the fact )?that\b(?! (?:function|file|test|one|bug|idea)\b).*",
        r"(?:please )?forget (?:about )?(?:the|that|my|our)\b(?!.*\b(?:to|function|file|test)\b).*\b(?:rule|preference|convention|policy)\b.*",
    ),
    agreement=_re(
        r"(?:please )?(?:always|never) (?:do|use|run|ask|check|include|keep) (?:it|that|this|so|like that|them)(?: (?:way|please|from now on))*\W*\Z",
        r"(?:from now on|going forward|in (?:the )?future|always|every time),?(?: please)?\W*\Z",
        r"(?:please )?(?:do|keep doing|keep) (?:it|that|this)(?: like (?:that|this)| that way)?,? (?:from now on|every time|going forward|always)\W*\Z",
    ),
    proposal=_re(
        r"\b(?:shall|should|can|could|may) i\b",
        r"\b(?:do you want|would you like|want me)\b",
        r"\bi (?:suggest|propose|recommend|could|can|would|'?ll|will)\b",
    ),
    insistence=_re(
        r"(?:\A|that'?s |this is |now )(?:the )?(?:second|third|fourth|fifth|tenth|hundredth|nth|\d+th) time\b",
        r"\bi (?:keep|kept) (?:telling|saying|asking|repeating|having)\b",
        r"\bhow (?:often|many times)\b",
        r"\bi(?:'ve| have)? (?:already )?(?:told|asked) you\b",
        r"\bonce and for all\b",
        r"\bkeep (?:doing|working|going|it) (?:it |that )?(?:like (?:that|this)|that way|this way)\b",
    ),
    preface=_re(
        r"(?:.*[,;] (?:and |but )?)?(?:please )?(?:remember|(?:keep|bear) in mind|don'?t forget|note)(?: that\b|[:,])\s*",
        r"(?:.*[,;] (?:and |but )?)?(?:please )?(?:keep|bear) in mind\s+",
        r"(?:please )?remember(?: this)?(?: for (?:later|next time|the future))?[:,]\s*",
        r"for the record[:,]\s*",
    ),
    exception=_re(r"(?:except|exception|exceptions|but|only|unless|otherwise|because|reason|apart from)\b"),
    cues=(
        *_cues(
            FactKind.PROJECT,
            r"\bwe(?:'ve| have)?(?: just| now| recently| finally| all)? (?:moved|migrated|switched|changed|went(?= from\b))(?: everything| over| away)?"
            r" (?:from\b.{1,40}\bto\b|to\b|off\b|away\b)(?!.*\b(?:branch|file|tab|page|window|office|building|room|house|city|hotel)\b)",
            r"\bwe(?:'ve| have)? (?:dropped|retired|deprecated|abandoned|replaced)\b(?!.*\b(?:branch|file|column|table|line)\b)",
            r"\bwe (?:no longer|don'?t|do not) use\b",
            r"\bnot\b[^,;]{2,30}\b(?:any ?more|any longer)\b",
            r"\bis (?:gone|dead|dropped|history) (?:for good|now)\b|\bdropped for good\b",
            moved=True,
        ),
        *_cues(
            FactKind.FEEDBACK,
            r"\b(?:from (?:now|here) on(?:wards)?|going forward|henceforth|from today(?: on)?|in (?:the )?future|starting today)\b[,:]?"
            r"(?! (?:it|this|that|these|those|they|he|she|there|people|users?|requests?|i(?! (?:want|expect|need|prefer|only want|never want|always want)\b)|i'll)\b)"
            r"(?! (?:the|a|an|my|his|her|their)\b(?![^.?!]*\b(?:must|should|shall|ha(?:s|ve) to|needs? to|may|are|is|goes?|lives?)\b))"
            r"(?! \w+(?: \w+)? (?:will|would|won'?t|gets?|becomes?|might|could|fails?|breaks?)\b)",
            explicit=True,
            closes=True,
        ),
        *_cues(
            FactKind.PROJECT,
            r"(?:please )?remember(?: (?:that|this)\b[:,]?|[:,]| for (?:later|next time|the future)[:,]?)(?! (?:the |an? |this )?(?:function|method|loop|caller|callback|variable|argument|parameter|button|modal|bug|crash|exception|file|one|test)\b)"
            r"(?! (?:time|day|when|how)\b)",
            r"(?:please )?(?:keep|bear) in mind(?: that|[:,])? (?:i|we|our|my|the|that|all|every)\b(?! (?:function|method|loop|caller|callback|variable|argument|parameter|button|modal|bug|crash|exception|file|one|test)\b)",
            r"(?:please )?don'?t forget that\b",
            r"for the record[,:]",
            r"\b(?:the |our |final )*decision(?: (?:after|from|here|of|on|with|in)\b[^:]{0,60})?\s*(?::|(?:is|was)(?: that| to|:))(?! (?:up|yours|pending|not))"
            r"(?!.*\b(?:option|approach|variant|plan) (?:\d|[a-z]\b))",
            r"\bwe(?:'ve| have)? (?:decided|agreed|settled) (?:to|that|on|against)\b(?!.*\b(?:option|approach|variant|plan) (?:\d|[a-z]\b))"
            r"(?! (?:go (?:to|out|home|back|ahead|on|for an?)|have|take an?|meet|eat|leave|wait|pause|sleep|celebrate|call it|talk|postpone|stop (?:here|now|for)|try)\b)",
            r"\bit(?:'s| is| was| has been) (?:been )?decided\b",
            explicit=True,
        ),
        *_cues(
            FactKind.USER,
            r"\bi(?:'m| am) (?:\(?red.green\)? )?colou?r[- ]?blind\b",
            r"\bi(?:'m| am) (?:new to|not (?:a|an|familiar with)|fluent in|dyslexic|left-handed|deaf|blind)\b(?!.*\b(?:error|bug|issue)\b)",
            r"\bi(?:'ve| have) (?:written|used|worked (?:with|in|on)|done|been (?:writing|using|working with|doing|programming)|programmed)\b"
            r".*\b(?:years?|decades?)\b",
            r"\bi(?:'m| am) (?:a|an|the)(?: \w+){0,3} (?:engineer|developer|scientist|designer|student|analyst|manager|researcher|teacher"
            r"|admin\w*|writer|founder|lead|maintainer|architect|physicist|mathematician|biologist|programmer)\b(?!.*\b(?:bug|mess|issue|error|who|angry|sorry)\b)",
            r"\bmy (?:native language|mother tongue|time ?zone|editor|keyboard layout|pronouns)(?: is| are|:)",
            r"(?:please )?(?:answer|reply|respond|talk|speak|write)(?: to me| back)? (?:only |always )?in (?:german|english|french|spanish|italian"
            r"|portuguese|dutch|polish|japanese|chinese|korean|russian)\b(?!.*\b(?:file|comment|readme|doc|email|mail|letter|ticket)\b(?!s))",
            r"\bi (?:\w+ly |much |do )?prefer\b.{2,80}\b(?:over|to|rather than|instead of)\b(?!.*\b(?:this|that|first|second|direction|option|version) (?:one|version|a|b)?\b)",
            r"\bi(?:'m|'ve| am| have| work| review| use| read| live| only| don'?t| can(?:'t|not))\b(?! (?:\w+ing|going)\b)[^.?!]{3,90}[,;]? so\b[^.]*"
            r"\b(?:should|must|keep|use|always|never|please|don'?t|do not|write|give|show|answer|prefer|avoid)\b",
        ),
        *_cues(
            FactKind.REFERENCE,
            rf"\b{_NOUNS}{_PLACE_NOUN}\b[^.?!]*\b(?:live|lives|is|are|lands?|goes?|go|kept|stored|tracked|documented|recorded|logged|posted|found|hosted)\b"
            rf"[^.?!]{{0,40}}\b(?:in|at|on|to|under|here:?)\b[^.?!]{{0,40}}(?:https?://|\b{_TOOL_PLACE}\b)",
            rf"\b(?:they|it|those|these) (?:live|lands?|are tracked|is tracked|are kept|go)\b[^.?!]{{0,40}}(?:https?://|\b{_TOOL_PLACE}\b)",
            rf"\bwe (?:track|document|keep|log|record|store|manage|plan)\b[^.?!]*\b(?:in|on|at)\b[^.?!]{{0,30}}(?:https?://|\b{_TOOL_PLACE}\b)",
            r"\b(?:is|are) (?:tracked|documented|kept|recorded)\b (?:in|on|at|under) (?:https?://|(?:the )?[\w./-]+)",
        ),
        *_cues(
            FactKind.PROJECT,
            rf"{_OUR_REPO},? (?!there|i\b|i'm|you(?:'ll| will) (?:find|see)|find|search|look|list|show|add|create|fix|the (?:bug|error|issue|file)|is|are|it)\w",
            rf"\b(?:we|always|never|don'?t|do not|only|every|no)\b(?:[^.?!]|\.(?=\w))*\b{_OUR_REPO}",
            rf"\b{_NOUNS}[\w/'-]+ (?:must|should|may)(?:n'?t)?(?: not| never| always| only)? \w+[^.?!:]*\b{_OUR_REPO}",
            rf"\b{_NOUNS}[\w/'-]+ (?:is|are) (?:never|always|only|not) (?:to be )?\w+[^.?!:]*\b{_OUR_REPO}",
            r"\bwe (?:always|never|only)\b(?! (?:got|had|saw|did|knew|thought|found|need to know|see|get)\b)",
            r"\bwe (?:use|pin|write|deploy|target|support|stick to|go with|name|log|store|run)\b[^.?!;:]{1,80}(?:,? (?:and )?not (?!an?\b)|\binstead of\b|\brather than\b"
            r"|,? never\b|\bfor everything\b|\beverywhere\b|, no \w)",
            r"\bwe (?:don'?t|do not) (?:squash|allow|mock|commit|rebase|force[- ]push|deploy|ship|merge|pin|accept|support|vendor|backport|touch|edit)\b"
            r"(?!.*\b(?:know|see|why|because of (?:this|the) (?:bug|error))\b)",
            r"\bwe (?:ship|release|launch|go live|freeze|cut|deploy|merge|demo|reset)\b[^.?!]*\b(?:(?:every|each|on|next|this|until) )?"
            r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|\bwe (?:ship|release|freeze|cut|deploy|reset)\b[^.?!]*\b(?:every|each) (?:night|week|month|sprint|day)\b",
            r"\b(?:our|the team'?s?)(?: \w+)? (?:convention|policy|rule|standard|style|practice)\b[^.?!]{0,30}(?:\bis\b|:)",
            r"\bthe (?:convention|policy|house rule|rule)(?: here| in this \w+| for \w+)?(?: is|:)",
            r"\bas a (?:general )?rule\b|\bby default,? (?:we|please|use|always)\b",
            rf"\b{_NOUNS}[\w/'-]+ (?:is|are) (?:legacy|deprecated|frozen|read-only|off limits)\b[^.?!]*\b(?:must not|should not|shouldn'?t|don'?t|do not|never)\b",
            rf"\b{_NOUNS}\w+s (?:are|go|come|run|live|must be|get) (?:always |only )?[^.?!]{2, 60}, (?:never|not) (?!sure|yet)\w+",
        ),
        *_cues(
            FactKind.FEEDBACK,
            r"(?:(?:and|but|so|please|you (?:should|must|have to|need to)|i want you to|make sure (?:you|to)|agents? (?:should|must))[ ,]+)*"
            r"(?:always|never|don'?t ever|do not ever|under no circumstances)(?: ever)? (?!mind\b|again\b|ending\b|on\b|off\b|there\b|{_PAST})(?:[a-z]+)\b",
            r"\b(?<=, )always(?=\W*\Z)",
            rf"\b(?:always|never|don'?t ever) (?!mind\b|again\b|{_PAST})(?!\w+s\b)[a-z]+\b",
            r"(?:please )?keep (?:doing|working|writing|splitting|going)\b[^.?!]*\b(?:like (?:that|this)|that way|this way)\b",
            r"\bi (?:always|never) want\b(?! to see (?:you|him|her|them|anyone)\b)",
            r"(?:please )?(?:whenever|every time|each time|any time) (?:you|i|we)\b[^.?!]*,\s*(?:please )?(?:\w+)",
            r"\b(?:don'?t|do not)\b[^.?!]*\bever again\b|\bnever again (?!will|would|shall|do|did|can)",
        ),
        *_cues(
            FactKind.FEEDBACK,
            r"(?:please )?(?:stop|quit) \w+ing\b",
            r"\bi (?:\w+ly |much |'?d )?(?:prefer|rather)\b",
            r"\bi (?:don'?t|do not|really don'?t) (?:like|want)\b(?! (?:to (?:break|lose|waste|wait))\b)",
            r"(?:please )?show me (?:the |a |your )?plan\b",
            r"(?:please )?ask (?:me )?before\b",
            r"\bwhy (?:did|do|are|have) you (?:mock|use|add|put|writ|chang|delet|creat|keep)\w*",
            r"(?:please )?(?:don'?t|do not) (?:use|add|write|put|mock|create|touch|edit|commit|include|make|mention)\b",
            r"use \w(?![^.?!]*\bhere\b)[^.?!]{0,40}(?:, not\b|\binstead of\b|\brather than\b)",
            firm=False,
        ),
    ),
)

# --- German -----------------------------------------------------------------------------------------------------

GERMAN = Language(
    opening=_re(
        r"(?:ok(?:ay)?|also|übrigens|und|aber|hey|hallo|ja|danke|ach so)(?:[,:;.!]+\s*|\s+)",
        r"(?:nein|gut|super|noch was|wichtig|merke)(?:[,:;.!]+\s+|\s+[-\u2013\u2014]+\s+)",
        r"nein (?=(?:wir|ich|bitte|immer|nie)\b)",
    ),
    lead=_re(
        r"(?:[^:]*[,;]|)(?: ?(?:und|aber|also|denn|weil|dass|bitte|dann|jetzt|ich möchte|wir|du sollst"
        r"|(?:in|für|bei|mit|im) [^,:;]{1,50}))*[, ]*",
        r"(?:(?:unsere?|die|neue) )*(?:regel|konvention|entscheidung|hinweis|wichtig|notiz)\W*: *",
    ),
    rule=_re(r"(?:bitte )?(?!(?:er|sie|es|das|der|die|ich|mein\w*|man)\b)\w"),
    closing=_re(r"[\s,]*(?:bitte|danke|(?:in|für|bei|mit) [^,;:]{1,40})?\W*"),
    question=_re(
        r"\?\W*\Z",
        r"(?:was|wie|wo|warum|wieso|weshalb|welche[rsn]?|wann|wer)\b",
        r"(?:sollen|sollte[n]?|können|kannst|ist|sind|gibt) (?:wir|ich|du|es|das)\b",
    ),
    doubt=_re(
        r"\b(?:vielleicht|womöglich|eventuell|wahrscheinlich|angenommen|mal sehen|ich glaube|ich denke|nur ein scherz|haha)\b",
        r"\b(?:witz|scherz|sagt|sagte|meint|meinte|schrieb|behauptet|laut|angeblich|früher|stimmt nicht|nicht wahr|gedicht)\b",
        r"\A(?:#|//|vergiss|ignorier\w*|erklär\w*|schreib\w* (?:ein|mir)|prüf\w*|frag\w*)\b",
    ),
    narrowing=_re(
        r"\b(?:diesmal|dieses mal|vorerst|erstmal|fürs erste|gerade|im moment|momentan|heute|nur hier|nur dies\w*|nur jetzt|ausnahmsweise)\b",
        r"\b(?:diese[rsmn]?|der|die) (?:datei|funktion|änderung|commit|branch|test|lauf)\b",
    ),
    everywhere=_re(r"\b(?:in allen (?:meinen |unseren )?(?:projekten|repos)|überall)\b"),
    forget=_re(r"(?:bitte )?vergiss\b.{0,30}\b(?:was ich|dass|die regel)\b.*"),
    agreement=_re(r"(?:ja,? )?(?:mach das )?(?:immer|ab jetzt)(?: so)?\W*\Z"),
    proposal=_re(r"\b(?:soll ich|ich könnte|ich schlage vor|möchtest du)\b"),
    insistence=_re(r"\b(?:zum (?:zweiten|dritten|vierten) mal|schon wieder|wie oft)\b"),
    preface=_re(r"(?:bitte )?(?:merk dir|denk daran)(?:, dass|:|,)\s*"),
    exception=_re(r"(?:außer|ausnahme|aber|nur|weil|es sei denn)\b"),
    cues=(
        *_cues(
            FactKind.PROJECT,
            r"\bwir (?:sind|haben)\b[^.?!]*\bvon\b[^.?!]*\b(?:auf|zu)\b[^.?!]*\b(?:umgestiegen|gewechselt|umgestellt)\b",
            moved=True,
        ),
        *_cues(
            FactKind.FEEDBACK,
            r"\b(?:ab (?:jetzt|sofort|heute)|von jetzt an|künftig|in zukunft)\b(?! (?:wird|werden|ist|geht)\b)",
            explicit=True,
            closes=True,
        ),
        *_cues(
            FactKind.PROJECT,
            r"\b(?:merk dir|denk daran|denk dran)\b",
            r"\bin diesem (?:projekt|repo|repository)\b[^.?!]*\b(?:immer|nie|niemals|nur|wir|statt|nicht|kein\w*)\b",
            r"\bwir (?:nutzen|verwenden|benutzen|nehmen|schreiben)\b[^.?!]*\b(?:statt|nicht|nie|kein\w*)\b",
            explicit=True,
        ),
        *_cues(
            FactKind.USER,
            r"\bich (?:bevorzuge|mag lieber)\b",
            r"(?:bitte )?antworte (?:mir )?(?:immer )?auf (?:deutsch|englisch)\b",
        ),
        *_cues(FactKind.FEEDBACK, r"(?:bitte )?(?:immer|nie|niemals) [\wäöüß]+", r"\bbitte (?:immer|nie|niemals)\b"),
        *_cues(FactKind.FEEDBACK, r"(?:bitte )?(?:nicht|kein\w*)\b", r"[\wäöüß]+ statt [\wäöüß]+", firm=False),
    ),
)

LANGUAGES = (ENGLISH, GERMAN)
