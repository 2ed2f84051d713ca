"""The audit: all analyses that an ensemble's records permit, put together person by person."""

from seedscope.auditing.audit import Audit, audit
from seedscope.auditing.comparison import Comparison, Contender, compare
from seedscope.auditing.judged import judge_report, plain_judgement
from seedscope.auditing.levels import LeftOut, Level
from seedscope.auditing.policy import Policy, read_policy
from seedscope.auditing.quantities import QUANTITIES
from seedscope.auditing.relations import Finding
from seedscope.auditing.remedies import PricedRemedies, Remedy, price_remedies
from seedscope.auditing.sensitive import require_followed, require_sensitive, told
from seedscope.auditing.verdict import Verdict

__all__ = [
    "QUANTITIES",
    "Audit",
    "Comparison",
    "Contender",
    "Finding",
    "LeftOut",
    "Level",
    "Policy",
    "PricedRemedies",
    "Remedy",
    "Verdict",
    "audit",
    "compare",
    "judge_report",
    "plain_judgement",
    "price_remedies",
    "read_policy",
    "require_followed",
    "require_sensitive",
    "told",
]
