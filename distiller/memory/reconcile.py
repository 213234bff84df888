"""A verdict and the facts there are in, the plan that brings them together out.

Time here is when the person said something, never when it was read: an old turn distilled late lands in a fact's
history and changes nothing that was said after it. Planning the same verdict again after its commit finds all its
quotes there and plans nothing; ids of proposals and names of quarantined facts are therefore derived, not drawn.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable

import msgspec

from distiller.memory.likeness import adds, alike, clash, classes_clash, covers, says_the_same, turned_round
from distiller.memory.slug import negated
from distiller.vocabulary import (
    Candidate,
    Claim,
    Evidence,
    Fact,
    FactStatus,
    Known,
    Op,
    Operation,
    Plan,
    Proposal,
    Redacted,
    Refusal,
    Strength,
    Verdict,
)

BODY_CHARACTERS = 600
RELATED = 5

_RANK = {Strength.AGENT: 0, Strength.CONFIRMED: 1, Strength.STATED: 2}


def plan(
    verdict: Verdict, known: Known, *, project_key: str, at: str, pass_id: str | None, new_id: Callable[[], str]
) -> Plan:
    """Decide what each claim of a verdict changes; nothing is applied here.

    The operations' `before` are the facts of `known`. Claims never merge with each other: the second of one turn that
    means the same fact is refused.
    """
    planner = _Planner(known, project_key=project_key, at=at, pass_id=pass_id, new_id=new_id)
    for claim in verdict.kept:
        planner.settle(claim)
    for claim in verdict.candidates:
        planner.count(claim)
    for claim in verdict.suspicious:
        planner.quarantine(claim)
    return planner.plan()


def quarantine_name(scope: str, body: str) -> str:
    """The name under which suspicious text is kept; the same text always gets the same one."""
    digest = hashlib.sha256(f"{scope}\n{body}".encode()).hexdigest()
    return f"quarantined-{digest[:8]}"


class _Planner:
    """Collects what the claims of one verdict change."""

    def __init__(
        self, known: Known, *, project_key: str, at: str, pass_id: str | None, new_id: Callable[[], str]
    ) -> None:
        self._known = known
        self._project_key = project_key
        self._at = at
        self._pass_id = pass_id
        self._new_id = new_id
        self._by_place = {(fact.scope, fact.name): fact for fact in known.facts}
        self._by_id = {fact.id: fact for fact in known.facts}
        self._operations: list[Operation] = []
        self._candidates: dict[str, tuple[Candidate, tuple[Evidence, ...]]] = {}
        self._proposals: dict[str, tuple[Proposal, tuple[Evidence, ...]]] = {}
        self._refusals: list[Refusal] = []
        self._redirects: list[tuple[str, str, str, str]] = []
        self._touched: set[tuple[str, str]] = set()

    def plan(self) -> Plan:
        return Plan(
            tuple(self._operations),
            tuple(self._candidates.values()),
            tuple(self._proposals.values()),
            tuple(self._refusals),
            tuple(self._redirects),
        )

    # -- claims ----------------------------------------------------------------------------------------------------

    def settle(self, claim: Claim) -> None:
        """Bring one believed claim together with the fact it means, or make it a new one."""
        scope = self._scope(claim)
        if self._refused(claim, scope):
            return
        fact = self._meant(claim, scope)
        if fact is not None and (fact.scope, fact.name) in self._touched:
            self._refuse("same-turn-duplicate", claim)
            return
        self._touched.add((scope, claim.slug))
        if fact is None:
            self._settle_new(claim, scope)
        else:
            self._touched.add((fact.scope, fact.name))
            self._change(fact, claim)

    def count(self, claim: Claim) -> None:
        """Count an implied preference; seen in a second root session it becomes a fact."""
        scope = self._scope(claim)
        if self._refused(claim, scope):
            return
        fact = self._meant(claim, scope) or self._same(claim, scope)
        if fact is not None and fact.status is FactStatus.ACTIVE:
            if (fact.scope, fact.name) not in self._touched:
                self._touched |= {(scope, claim.slug), (fact.scope, fact.name)}
                self._contradict(fact, claim)
            return
        if fact is not None and not self._fresh(fact, claim):
            self._touched.add((scope, claim.slug))
            return  # known: the words are kept with a fact that no longer holds
        candidate = self._candidate(claim, scope)
        roots = sorted({_root(one) for one in claim.evidence})
        if candidate is None:
            self._put(_new_candidate(self._new_id(), scope, claim, roots), claim.evidence)
        elif clash(candidate.summary, claim.summary):
            self._rethink(candidate, claim, scope, roots)
        elif set(roots) <= set(candidate.sessions):
            self._touched.add((scope, claim.slug))
        else:
            self._promote(candidate, claim, roots)

    def quarantine(self, claim: Claim) -> None:
        """Keep suspicious text where the person sees it and no agent does."""
        scope = self._scope(claim)
        name = quarantine_name(scope, claim.body)
        there = any(fact.scope == scope and fact.name == name for fact in self._known.facts)
        if there or self._barred(claim) or (scope, name) in self._touched:
            return
        self._touched.add((scope, name))
        fact = msgspec.structs.replace(
            self._fact(claim, scope), name=name, proposed_name=claim.slug, status=FactStatus.QUARANTINED
        )
        self._operations.append(Operation(Op.QUARANTINE, None, fact, claim.evidence, "suspicious"))

    # -- finding ---------------------------------------------------------------------------------------------------

    def _scope(self, claim: Claim) -> str:
        return "user" if claim.scope == "user" else f"project:{self._project_key}"

    def _meant(self, claim: Claim, scope: str) -> Fact | None:
        """The fact that bears the claim's name here, or that the name leads to."""
        fact = self._by_place.get((scope, claim.slug))
        return fact or self._by_id.get(self._known.redirects.get((scope, claim.slug), ""))

    def _same(self, claim: Claim, scope: str) -> Fact | None:
        """An active fact of another name that says the same, in this scope or everywhere.

        What the person wants everywhere holds here too: saying it again in one project adds evidence, no second fact.
        """
        for fact in self._known.facts:
            here = fact.status is FactStatus.ACTIVE and fact.scope in (scope, "user")
            if here and (fact.scope, fact.name) not in self._touched and _says_the_same(fact, claim):
                return fact
        return None

    def _candidate(self, claim: Claim, scope: str) -> Candidate | None:
        """The open candidate of the claim's name, else one that says the same; none that this turn spoke of already."""
        free = [one for one in self._known.candidates if one.scope == scope and (scope, one.name) not in self._touched]
        named = (one for one in free if one.name == claim.slug)
        return next(named, next((one for one in free if says_the_same(one.summary, claim.summary)), None))

    def _barred(self, claim: Claim) -> bool:
        """Whether what this rests on was erased by the person."""
        forgotten = self._known.forgotten
        return (claim.slug, "") in forgotten or any((claim.slug, one.message_id) in forgotten for one in claim.evidence)

    def _refused(self, claim: Claim, scope: str) -> bool:
        if self._barred(claim):
            self._refuse("forgotten", claim)
        elif (scope, claim.slug) in self._touched:
            self._refuse("same-turn-duplicate", claim)
        else:
            return False
        return True

    def _refuse(self, code: str, claim: Claim) -> None:
        self._refusals.append(Refusal(code, claim.slug))

    # -- new facts -------------------------------------------------------------------------------------------------

    def _settle_new(self, claim: Claim, scope: str) -> None:
        if claim.op in ("retire", "none"):
            self._refuse("unknown-near-fact", claim)
            return
        same = self._same(claim, scope)
        if same is not None:
            self._touched.add((same.scope, same.name))
            if same.scope == scope:
                self._redirects.append((scope, claim.slug, same.id, "merged"))
            self._confirm(same, claim)
            return
        self._operations.append(Operation(Op.ADD, None, self._fact(claim, scope), claim.evidence))

    def _fact(self, claim: Claim, scope: str) -> Fact:
        first, last = _said(claim.evidence, self._at)
        return Fact(
            id=self._new_id(),
            scope=scope,
            name=claim.slug,
            kind=claim.kind,
            status=FactStatus.ACTIVE,
            strength=claim.strength,
            summary=claim.summary,
            body=claim.body,
            created_at=self._at,
            updated_at=self._at,
            first_said_at=first,
            last_confirmed_at=last,
            related=self._related(claim, scope),
            valid_until=claim.valid_until,
            source_pass_id=self._pass_id,
        )

    def _related(self, claim: Claim, scope: str) -> tuple[str, ...]:
        """Names of facts that the claim links to or that are clearly about the same subject."""
        active = [
            fact for fact in self._known.facts if fact.status is FactStatus.ACTIVE and fact.scope in (scope, "user")
        ]
        linked = [fact.name for fact in active if fact.name in claim.related]
        near = [fact.name for fact in active if alike(fact.summary, claim.summary)]
        return tuple(name for name in dict.fromkeys(linked + near) if name != claim.slug)[:RELATED]

    # -- facts that are there --------------------------------------------------------------------------------------

    def _change(self, fact: Fact, claim: Claim) -> None:
        fresh = self._fresh(fact, claim)
        _, said = _said(fresh, self._at)
        if not any(one.part == "claims" for one in fresh):
            return  # known: the same words of the same message
        if fact.status is FactStatus.BINNED:
            self._unbin(fact, claim, said)
        elif fact.status is FactStatus.ACTIVE:
            self._change_active(fact, claim)
        elif fact.status is FactStatus.QUARANTINED or claim.op == "retire" or said <= fact.last_confirmed_at:
            self._note(fact, fresh, "said before it was retired")
        else:
            self._replace(Op.RESTORE, fact, claim, fresh, "stated again")

    def _unbin(self, fact: Fact, claim: Claim, said: str) -> None:
        if claim.op == "retire" or (fact.forgotten_at and said <= fact.forgotten_at):
            self._refuse("forgotten", claim)
        else:
            self._replace(Op.RESTORE, fact, claim, self._fresh(fact, claim), "stated again after it was forgotten")

    def _change_active(self, fact: Fact, claim: Claim) -> None:
        fresh = self._fresh(fact, claim)
        older = _newest(fresh) < max(
            _newest(self._known.evidence.get(fact.id, ())), (fact.last_confirmed_at, "")
        )  # of two things said in the same instant the message ids decide, not who came first here
        if claim.op == "retire":
            if not older:
                self._retire(fact, claim, fresh)
        elif claim.op == "none" or _says_the_same(fact, claim):
            self._confirm(fact, claim)
        elif older:
            self._note(fact, fresh, f"said earlier, no longer holds: {claim.summary}")
        elif fact.pinned or fact.edited_by_person:
            self._propose("protected", fact, claim)
        elif _supersedes(fact, claim):
            if _RANK[claim.strength] < _RANK[fact.strength]:
                self._propose("contradiction", fact, claim)
            else:
                self._replace(Op.SUPERSEDE, fact, claim, fresh, "said otherwise")
        else:
            self._replace(Op.UPDATE, fact, _joined(fact, claim), fresh, "said more")

    def _confirm(self, fact: Fact, claim: Claim) -> None:
        """Add the claim's quotes to a fact that says the same."""
        fresh = self._fresh(fact, claim)
        there = {one.message_id for one in self._known.evidence.get(fact.id, ())}
        if not any(one.part == "claims" and one.message_id not in there for one in fresh):
            return  # known: a message does not confirm itself
        first, last = _said(fresh, self._at)
        after = msgspec.structs.replace(
            fact,
            updated_at=self._at,
            first_said_at=min(fact.first_said_at, first),
            last_confirmed_at=max(fact.last_confirmed_at, last),
            strength=max(fact.strength, claim.strength, key=_RANK.__getitem__),
            valid_until=self._end(fact, claim, last),
            expires_at=None,
        )
        self._operations.append(Operation(Op.EVIDENCE, fact, after, fresh))

    def _end(self, fact: Fact, claim: Claim, said: str) -> str | None:
        """Until when a fact holds that was said again: newer words may end it, but not one that is the person's own."""
        mine = fact.pinned or fact.edited_by_person
        if mine or claim.op == "none" or claim.valid_until is None or said < fact.last_confirmed_at:
            return fact.valid_until
        return claim.valid_until

    def _note(self, fact: Fact, evidence: tuple[Evidence, ...], reason: str) -> None:
        """Keep what was said earlier in the fact's history, supporting it, changing nothing that holds."""
        supports = tuple(msgspec.structs.replace(one, part="supports") for one in evidence)
        self._operations.append(Operation(Op.EVIDENCE, fact, fact, supports, reason))

    def _replace(self, op: Op, fact: Fact, claim: Claim, evidence: tuple[Evidence, ...], reason: str) -> None:
        first, last = _said(evidence, self._at)
        after = msgspec.structs.replace(
            fact,
            status=FactStatus.ACTIVE,
            kind=claim.kind,
            strength=claim.strength,
            summary=claim.summary,
            body=claim.body,
            updated_at=self._at,
            first_said_at=min(fact.first_said_at, first) if op is Op.UPDATE else first,
            last_confirmed_at=last,
            valid_until=claim.valid_until,
            related=tuple(dict.fromkeys((*fact.related, *self._related(claim, fact.scope))))[:RELATED],
            forgotten_at=None,
            expires_at=None,
            source_pass_id=self._pass_id,
        )
        self._operations.append(Operation(op, fact, after, evidence, reason))

    def _retire(self, fact: Fact, claim: Claim, evidence: tuple[Evidence, ...]) -> None:
        if fact.pinned or fact.edited_by_person:
            self._propose("protected", fact, claim)
            return
        after = msgspec.structs.replace(
            fact, status=FactStatus.RETIRED, updated_at=self._at, last_confirmed_at=_said(evidence, self._at)[1]
        )
        supports = tuple(msgspec.structs.replace(one, part="supports") for one in evidence)
        self._operations.append(Operation(Op.RETIRE, fact, after, supports, "the person asked to forget it"))

    def _contradict(self, fact: Fact, claim: Claim) -> None:
        """What is only implied never changes a fact: it confirms it, or the person is asked."""
        if _says_the_same(fact, claim):
            self._confirm(fact, msgspec.structs.replace(claim, strength=fact.strength))
        elif clash(fact.summary, claim.summary) and self._fresh(fact, claim):
            self._propose("contradiction", fact, claim)

    def _propose(self, kind: str, fact: Fact, claim: Claim) -> None:
        first = min(one.message_id for one in claim.evidence)
        proposal_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {fact.id} {first}"))
        change = {
            "op": claim.op,
            "summary": claim.summary,
            "body": claim.body,
            "kind": claim.kind.value,
            "valid_until": claim.valid_until,
        }
        proposal = Proposal(proposal_id, kind, fact.id, change, "open", self._at, pass_id=self._pass_id)
        self._proposals[proposal_id] = (proposal, claim.evidence)

    def _fresh(self, fact: Fact, claim: Claim) -> tuple[Evidence, ...]:
        """The claim's quotes that the fact does not rest on yet."""
        there = {_mark(one) for one in self._known.evidence.get(fact.id, ())}
        return tuple(one for one in claim.evidence if _mark(one) not in there)

    # -- candidates ------------------------------------------------------------------------------------------------

    def _put(self, candidate: Candidate, evidence: tuple[Evidence, ...]) -> None:
        if (candidate.scope, candidate.name) in self._touched:
            return
        self._touched.add((candidate.scope, candidate.name))
        self._candidates[candidate.id] = (candidate, evidence)

    def _rethink(self, candidate: Candidate, claim: Claim, scope: str, roots: list[str]) -> None:
        """Two sessions that imply opposite things prove neither: counting begins anew with the newer one."""
        self._touched |= {(scope, claim.slug), (scope, candidate.name)}
        if _said(claim.evidence, self._at)[1] > candidate.last_at:
            again = _new_candidate(candidate.id, scope, claim, roots)
            self._candidates[candidate.id] = (msgspec.structs.replace(again, name=candidate.name), claim.evidence)

    def _promote(self, candidate: Candidate, claim: Claim, roots: list[str]) -> None:
        """Make a fact of what two sessions implied; it rests on the quotes of both."""
        quotes = (*self._known.candidate_evidence.get(candidate.id, ()), *claim.evidence)
        confirmed = msgspec.structs.replace(
            claim, op="add", slug=candidate.name, strength=Strength.CONFIRMED, evidence=quotes
        )
        count = len(self._operations)
        self.settle(confirmed)
        made = self._operations[count:]
        if made:
            promoted = msgspec.structs.replace(
                candidate,
                sessions=tuple(dict.fromkeys((*candidate.sessions, *roots))),
                last_at=max(candidate.last_at, _said(claim.evidence, self._at)[1]),
                status="promoted",
                fact_id=made[0].after.id,
            )
            self._candidates[candidate.id] = (promoted, claim.evidence)


# --- values -----------------------------------------------------------------------------------------------------


def _new_candidate(candidate_id: str, scope: str, claim: Claim, roots: list[str]) -> Candidate:
    times = sorted(one.said_at for one in claim.evidence)
    return Candidate(
        id=candidate_id,
        scope=scope,
        name=claim.slug,
        kind=claim.kind,
        summary=claim.summary,
        body=claim.body,
        sessions=tuple(roots),
        first_at=times[0],
        last_at=times[-1],
    )


def _says_the_same(fact: Fact, claim: Claim) -> bool:
    return (
        _clauses(claim.body) <= _clauses(fact.body)
        or covers(_whole(fact), _whole(claim))
        or (says_the_same(fact.summary, claim.summary) and not clash(fact.body, claim.body))
    )


def _whole(one: Fact | Claim) -> str:
    """All that a fact or claim says, once: twice the same words would hide what they choose and what they reject."""
    line = one.summary.rstrip(" .\N{HORIZONTAL ELLIPSIS}")
    return one.body if line.casefold() in one.body.casefold() else f"{one.summary} {one.body}"


def _clauses(body: str) -> set[str]:
    """The parts of a body between full stops and semicolons: a part of one may deny what the whole says."""
    parts = re.split(r"[.;!?]+(?:\s+|\Z)|\n", body.casefold())
    return {" ".join(part.split()) for part in parts} - {""}


def _supersedes(fact: Fact, claim: Claim) -> bool:
    """Whether the claim replaces what the fact says, instead of adding to it."""
    if claim.op == "supersede":
        return True
    if claim.op == "update" and _EXCEPTION.search(claim.body):
        return False
    one, other = claim.body, fact.body
    if classes_clash(one, other) or turned_round(one, other) or negated(one) != negated(other):
        return True
    return not adds(_whole(claim), fact.body) and clash(claim.summary, fact.summary)


_EXCEPTION = re.compile(
    r"(?i)\b(?:except\w*|unless|apart from|(?:may|can) (?:stay|keep|still)|only (?:for|in)|(?:in|for|under) \S+/)"
)


def _joined(fact: Fact, claim: Claim) -> Claim:
    """The claim with what the fact said before it, unless the claim says all of that itself."""
    body = Redacted(f"{fact.body.rstrip()} {claim.body}")
    strength = max(fact.strength, claim.strength, key=_RANK.__getitem__)
    if adds(_whole(claim), fact.body) or len(body) > BODY_CHARACTERS:
        return msgspec.structs.replace(claim, strength=strength)
    return msgspec.structs.replace(claim, summary=fact.summary, body=body, strength=strength)


def _said(evidence: Iterable[Evidence], at: str) -> tuple[str, str]:
    """When the person first and last said it; `at` where no quote claims it (quarantined text)."""
    times = sorted(one.said_at for one in evidence if one.part == "claims")
    return (times[0], times[-1]) if times else (at, at)


def _newest(evidence: Iterable[Evidence]) -> tuple[str, str]:
    """Time and message of the person's latest words."""
    return max(((one.said_at, one.message_id) for one in evidence if one.part == "claims"), default=("", ""))


def _root(one: Evidence) -> str:
    return f"{one.agent} {one.root_session_id or one.session_id}"


def _mark(one: Evidence) -> tuple[str, str]:
    return one.message_id, " ".join(one.quote.split())
