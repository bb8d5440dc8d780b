"""What the figures of the documentation have in common."""

import matplotlib as mpl

GREEDY, CORK, WINDOW, BENTOML, NEXUS, LIMIT = (
    "#d9772b", "#2f6fb3", "#8a6fd1", "#a38a1c", "#2f9e6e", "#666666",
)  # fmt: skip

mpl.rcParams.update(
    {
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "figure.figsize": (7.2, 3.2),
        "figure.constrained_layout.use": True,
        "font.size": 9,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.5,
        "legend.frameon": False,
        "savefig.facecolor": "white",
        "svg.hashsalt": "adaptive_batching",
    }
)
