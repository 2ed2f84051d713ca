"""Every theorem, fact and figure of GLA: where it is here, or why not; run as a module it prints the docs' table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """Something of the paper: the functions that compute it, the rows of the study that show it, and what differs."""

    name: str
    says: str
    functions: tuple[str, ...] = ()
    place: str = ""
    differs: str = ""


ITEMS = (
    Item("Corollary 3.1", "(ε, δ) of a step of any rule", ("step_epsilon", "step_epsilon_worst"), "GLA Figures 6–13",
         "the exact Gaussian ε in the place of the classical one"),
    Item("Theorem 3.2", "divergence of a step, sum rule", ("step_rdp", "step_share"), "GLA Figure 2",
         "fractional orders too"),
    Item("Theorem 3.3", "a run by the expected steps", ("compose_expected", "everybodys_rdp"), "GLA: the whole run",
         "the exponent of the proof; the best of several constants beside 3n; one Hölder step for the run"),
    Item("Fact 3.4", "p = 3n keeps orders below 2α", ("default_holder", "step_orders"), "", "3n is one of those tried"),
    Item("Fact 3.5", "how many runs the mean needs", ("runs_needed",), "", "a sign and a square corrected"),
    Item("Theorem 3.6", "a step of any rule from sampled updates", ("general_step_rdp", "general_step",
         "sampled_step_rdp"), "GLA Figures 4, 25–35", "by order: tuples drawn afresh, by how many have the point"),
    Item("§5.2 (Fact 5.2)", "unlearning within a budget", ("UnlearningSchedule", "unlearning_decisions"), "",
         "free Hölder constants; a later request's divergence by runs on what is left"),
    Item("§5.4", "attacks and memorisation", ("true_positive_rate", "membership_advantage", "memorisation"), "", ""),
    Item("Figure 1, 23, 24", "contributions along training, both directions", ("contribution_shares",), "GLA Figure 1",
         "23's architectures are those of Figure 3 here"),
    Item("Figure 2", "distribution of steps by stage", ("step_shares",), "GLA Figure 2", ""),
    Item("Figures 3, 22", "correct against incorrect points", ("step_shares",), "GLA Figures 3, 22", ""),
    Item("Figures 4, 25, 26, 29, 30, 34, 35", "mean and sum rule by batch size, both directions",
         ("general_step_rdp",), "GLA Figures 4, 25–35", "the sum rule at the final stage"),
    Item("Figure 5", "intervals over runs", (), "GLA Figure 5", "Student's, not 1.96 standard errors"),
    Item("Figures 6–9", "Corollary 3.1 by batch size", ("step_epsilon",), "GLA Figures 6–13", ""),
    Item("Figures 10, 11", "Corollary 3.1 by ε and correctness", ("step_epsilon",), "GLA Figures 10, 11", ""),
    Item("Figures 12, 13", "Corollary 3.1 by network and correctness", ("step_epsilon",), "GLA Figures 12, 13", ""),
    Item("Figures 14, 15", "steps by batch size", ("step_rdp",), "GLA Figures 14, 15",
         "the data-independent step falls with the batch size at the paper's own noises"),
    Item("Figures 16–19", "steps by order", ("step_rdp",), "GLA Figures 16–19", ""),
    Item("Figures 20, 21", "steps by the ε of training", ("step_rdp",), "GLA Figures 20, 21", ""),
    Item("Figures 27, 28", "mean rule by order", ("sampled_step_rdp",), "GLA Figures 27, 28", ""),
    Item("Figures 31, 32", "sum rule by order", ("sampled_step_rdp",), "GLA Figures 31, 32", ""),
    Item("Figure 33", "Theorem 3.6 by the ε of training", ("general_step_rdp",), "GLA Figure 33", "one batch size"),
)  # fmt: skip


def contents_table() -> str:
    """Return the table of all items in Markdown."""
    lines = ["| GLA | what it says | here | rows of `reproduce per-instance` | what differs |", "|---|---|---|---|---|"]
    for item in ITEMS:
        functions = ", ".join(f"`{name}`" for name in item.functions) or "–"
        lines.append(f"| {item.name} | {item.says} | {functions} | {item.place or '–'} | {item.differs or '–'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(contents_table())
