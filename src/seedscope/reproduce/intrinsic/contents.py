"""Every table, figure and claim of IP1 and IP2: where it is here, or why not; as a module it prints the docs' table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """Something of a paper: functions that compute it, rows and charts of the study, what differs or why it is missing.

    `rows` are places of the study's table, `charts` the names of its pictures.
    """

    name: str
    says: str
    functions: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    charts: tuple[str, ...] = ()
    differs: str = ""

    @property
    def shown(self) -> bool:
        """Whether `reproduce intrinsic` shows it."""
        return bool(self.rows or self.charts)


ALONG, DISTANCES, ENOUGH = "figure-2-along-training", "figure-3-distances", "figure-6-enough-runs"
LEAST, P_VALUES, POWER = "figure-5-least-gaussian-weights", "figure-6-p-values", "figure-7-power"
EPOCHS = "epochs begun count whole; the papers' count stands in the note"
DAYS = "digits and a smaller network; where cifar10-small is asked for a few of the paper's own, at its scale all: days"
PEOPLE = "people are drawn, not pairs that share them"
SPREAD, MAP, CONTROLS = "figure-4-spread-along-training", "figure-4-map", "figure-9-map-controls"
UMAP = "UMAP with the extra umap, else principal components; the title says which"
SMALLER = "the models are those of the scale that is run"

ITEMS = (
    Item("IP1 Theorem 2.3", "noise of the Gaussian mechanism", ("classical_gaussian_epsilon", "gaussian_epsilon"),
         ("IP1 Table 3",), (), "the exact ε in the note: theirs is proved below 1 only"),
    Item("IP1 Algorithm 1", "SGD with only the noise that is missing", ("augmented_noise_scale", "augmented_utility"),
         ("IP1 Table 4",)),
    Item("IP1 Theorem 3.1", "Algorithm 1 is private if SGD's noise is Gaussian", ("augmented_noise_scale",), (), (),
         "its condition fails where Shapiro–Wilk rejects; an estimate"),
    Item("IP1 Table 1", "sizes of the data sets", (), ("IP1 Table 1",)),
    Item("IP1 Table 2", "learning rates, steps, models", ("convergence_point",), ("IP1 Table 2", "Validation stop"), (),
         SMALLER),
    Item("IP1 Table 3", "Δ, σ, δ and ε", ("intrinsic_privacy",), ("IP1 Table 3",), (), EPOCHS),
    Item("IP1 Table 4", "accuracy with noise, ε = 1", ("augmented_utility",), ("IP1 Table 4",)),
    Item("IP1 Table 5", "three reductions of MNIST-binary", ("intrinsic_privacy", "augmented_utility"),
         ("IP1 Table 5",), (), "another random projection"),
    Item("IP1 Table 6", "σ is stable over data sets", ("variability",), ("IP1 Table 6",)),
    Item("IP1 Table 7", "accuracy with noise, ε = .5", ("augmented_utility",), ("IP1 Table 7",)),
    Item("IP1 Figure 1", "distances by data and by seed", ("distances_along_training",), (), (DISTANCES,)),
    Item("IP1 Figure 2", "feature values of the three reductions", (), (), ("figure-2-features",)),
    Item("IP1 Figure 3", "training curves of the three reductions", (), (), ("figure-3-losses",)),
    Item("IP1 Figure 4", "Δ and σ along training, MNIST-binary", ("intrinsic_privacy_along_training",), (), (SPREAD,)),
    Item("IP1 Figure 5", "distances of the convolutional network", ("distances_along_training",), (), (DISTANCES,),
         "a few models at the scale small"),
    Item("IP1 Figure 6", "p-values of Shapiro–Wilk", ("shapiro_wilk",), (), (P_VALUES,)),
    Item("IP1 Figure 7", "estimates by runs used, MNIST-binary", ("sensitivity_growth", "variability_growth"), (),
         (ENOUGH,), PEOPLE),
    Item("IP1 Figure 8", "Δ and σ along training, the other sets", ("intrinsic_privacy_along_training",), (),
         (SPREAD,)),
    Item("IP1 Figure 9", "estimates by runs used, the others", ("sensitivity_growth", "variability_growth"), (),
         (ENOUGH,), "σ of logistic regressions only; people are drawn, not pairs that share them"),
    Item("IP1 §4, claim", "the seed moves the weights more than the data", ("seed_and_data_distances",), ("IP2 §5",)),
    Item("IP1 §5, claim", "less noise wins accuracy back", ("augmented_utility",), ("IP1 Table 4", "IP1 Table 7"), (),
         "one noise vector for all models as in their code, a vector each in the note"),
    Item("IP1 Theorem A.1", "bound on Δ_S", ("sgd_sensitivity_bound",), ("IP1 Table 3",), (), EPOCHS),
    Item("IP1 Claim 1", "bound on Δ_V", ("sgd_variability_bound",), ("IP1 App. B",)),
    Item("IP1 Claim 2", "the bound on Δ_V exceeds that on Δ_S, most likely", ("sgd_variability_bound",),
         ("IP1 App. B",), (), "compares upper bounds"),
    Item("IP1 Algorithm 2", "estimating ε", ("intrinsic_privacy_from_weights",), ("IP1 Table 3",)),
    Item("IP1 Eq. (9)", "ε of every pair", ("pairwise_epsilon",), ("IP1 Eq. (9)",), ("pairwise-epsilon",)),
    Item("IP1 D.1, claim", "σ depends on the reduction", ("variability",), ("IP1 Table 5",)),
    Item("IP1 D.2, claim", "σ settles for convex models, grows for networks", ("intrinsic_privacy_along_training",),
         (), (ALONG, SPREAD)),
    Item("IP1 D.3", "accuracy and parameters of the convolutional network", (), ("IP1 D.3",)),
    Item("IP1 D.3, claim", "Δ_V is as sharp as between Gaussian vectors", ("seed_distances",), ("IP1 D.3",), (),
         "deviation over mean of both, Gaussian vectors by formula"),
    Item("IP1 D.4.1, claim", "most weights are Gaussian", ("shapiro_wilk",), ("IP2 §6",), (P_VALUES,),
         "refuted for convex models: 73 % are rejected with 800 seeds on MNIST-binary"),
    Item("IP1 D.4.2, claim", "about 40 seeds are enough for σ", ("variability_growth",), (), (ENOUGH,)),
    Item("IP2 Theorem 1", "noise of the Gaussian mechanism", ("classical_gaussian_epsilon",), ("IP2 Table 4",)),
    Item("IP2 Theorem 2, Eq. (1)", "bound on Δ_S", ("sgd_sensitivity_bound",), ("IP2 Table 4",), (), EPOCHS),
    Item("IP2 Eq. (2), (3)", "Δ_S and its maximum", ("data_distances", "empirical_sensitivity"), ("IP2 Table 4",), (),
         "strict pairs in the note: theirs differ in two rows"),
    Item("IP2 Algorithm 1", "estimating ε", ("intrinsic_privacy_from_weights",), ("IP2 Table 4",)),
    Item("IP2 Table 1", "sizes of the data sets", (), ("IP2 Table 1",), (), "CIFAR2 has other features"),
    Item("IP2 Table 2", "accuracy", ("linear_accuracy",), ("IP2 Table 2",), (), "contradicts IP1's for two sets"),
    Item("IP2 Table 3", "sizes of the grids", (), ("IP2 Table 3",), (), f"ours are full; {SMALLER}"),
    Item("IP2 Table 4", "Δ, σ of the steadiest weight, ε", ("intrinsic_privacy",), ("IP2 Table 4",)),
    Item("IP2 Table 5", "σ is stable over data sets", ("variability",), ("IP2 Table 5",)),
    Item("IP2 Table 6", "membership with the seed known or hidden", ("seed_known_or_hidden",),
         ("IP2 Table 6",), (), DAYS),
    Item("IP2 Table 7", "learning rates, steps, models", ("convergence_point",), ("IP2 Table 7", "Validation stop"), (),
         "CIFAR2 and MNIST-binary train as in IP1 Table 2"),
    Item("IP2 Table 8", "the network that is attacked", (), ("IP2 Table 8",), (), "its number of parameters"),
    Item("IP2 Figure 1", "two weights along training", ("weight_trajectories",), (), ("figure-1-two-weights",),
         "at ten checkpoints"),
    Item("IP2 Figure 2", "distances along training", ("distances_along_training",), (), (ALONG,)),
    Item("IP2 Figure 3", "distances at the end", ("distances_along_training",), (), (DISTANCES,)),
    Item("IP2 Figure 4", "UMAP by data set and by seed", ("weight_map",), (), (MAP,), UMAP),
    Item("IP2 Figure 5", "weights that are not Gaussian", ("least_gaussian_weights",), (), (LEAST,)),
    Item("IP2 Figure 6", "estimates by runs used", ("sensitivity_growth", "variability_growth"), (), (ENOUGH,), PEOPLE),
    Item("IP2 Figure 7", "power of Henze–Zirkler", ("henze_zirkler_power",), (), (POWER,),
         "uniform noise beside"),
    Item("IP2 Figure 8", "p-values of Shapiro–Wilk", ("shapiro_wilk",), (), (P_VALUES,)),
    Item("IP2 Figure 9", "UMAP of other sets and of synthetic weights", ("weight_map", "controlled_weights"), (),
         (MAP, CONTROLS), UMAP),
    Item("IP2 Figure 10", "the largest Δ_S by pairs used", ("sensitivity_growth",), (), (ENOUGH,), PEOPLE),
    Item("IP2 Figure 11", "σ by seeds used", ("variability_growth",), (), (ENOUGH,)),
    Item("IP2 §5.1, claim", "Δ_V with varied initial points exceeds Δ_S", ("seed_and_data_distances",), ("IP2 §5",)),
    Item("IP2 §5.1, claim", "one initial point closes part of the gap", ("seed_and_data_distances",), ("IP2 §5",),
         (DISTANCES,)),
    Item("IP2 §5.1, claim", "the bound is 3.2 to 6.5 times the largest Δ_S", ("sgd_sensitivity_bound",), ("IP2 §5",),
         (), "with their count of epochs; a true bound's ratio in the note"),
    Item("IP2 §5.1, claim", "networks have a long tail of Δ_S", ("data_distances",), (), (DISTANCES,)),
    Item("IP2 §5.2, claim", "k-means clusters hold one seed each", ("cluster_models",), ("IP2 §5",)),
    Item("IP2 §6.1, claim", "Henze–Zirkler p .14 to .25 for convex models", ("henze_zirkler", "henze_zirkler_subsets"),
         ("IP2 §6",), (), "refuted as evidence: the test hardly sees light tails"),
    Item("IP2 §6.1, claim", "networks' weights are not Gaussian", ("henze_zirkler_subsets", "shapiro_wilk"),
         ("IP2 §6",), (LEAST, P_VALUES), "by Shapiro–Wilk; Henze–Zirkler on random subsets may miss it"),
    Item("IP2 §6.2, claim", "38 to 74 % of the weights are not Laplace", ("laplace_anderson_darling",), ("IP2 §6",)),
    Item("IP2 §6.3, claim", "tail index 2.01 to 2.05", ("tail_index",), ("IP2 §6",), (), "Gaussian samples beside it"),
    Item("IP2 §7, claim", "steady weights do not have a small Δ_S of their own", ("empirical_sensitivity",),
         ("IP2 §7",)),
    Item("IP2 §7, claim", "ε between 1.9 and 17.6", ("intrinsic_privacy",), ("IP2 Table 4", "Person by person"), (),
         "one number for all; each person's own beside it"),
    Item("IP2 §7.1, claim", "the largest Δ_S is an underestimate", ("extrapolated_sensitivity",), (), (ENOUGH,)),
    Item("IP2 §8, claim", "hiding the seed costs an attacker .003 of ε", ("seed_known_or_hidden",),
         ("IP2 Table 6",), (), DAYS),
    Item("IP2 App. C.1", "the smallest p of random subsets", ("henze_zirkler_subsets",), ("IP2 §6",)),
    Item("IP2 App. C.2, claim", "800 seeds are enough to reject Laplace", ("henze_zirkler_power",), (), (POWER,),
         "not to see uniform noise"),
    Item("IP2 App. D.1, claim", "maps of signs, early and shuffled weights", ("controlled_weights", "weight_map"), (),
         (CONTROLS,), UMAP),
)  # fmt: skip


def contents_table() -> str:
    """Return the table of all items in Markdown, with how many of them the command shows."""
    lines = [
        f"{sum(item.shown for item in ITEMS)} of {len(ITEMS)} items are shown by `reproduce intrinsic`.",
        "",
        "| paper | what it says | here | rows and charts of `reproduce intrinsic` | what differs, or why not |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_line, ITEMS)])


def _line(item: Item) -> str:
    """Return an item's line of the table."""
    functions = ", ".join(f"`{name}`" for name in item.functions)
    shown = ", ".join([*item.rows, *(f"`{name}`" for name in item.charts)])
    cells = (item.name, item.says, functions, shown, item.differs)
    return f"| {' | '.join(cell or '–' for cell in cells)} |"


if __name__ == "__main__":
    print(contents_table())
