"""Studies on top of the stages: adaptive splitting, thresholds of extra paths. No stage imports from here."""

from synth.study.adaptive.capacity import Change, drift
from synth.study.adaptive.engine import Run
from synth.study.adaptive.report import Comparison
from synth.study.adaptive.splits import compare_splits
from synth.study.paths import PATH_KINDS, Path, PathSet, find_paths, link_classes
from synth.study.threshold.collectives import collective_thresholds, restrict, topology_for
from synth.study.threshold.pairs import OPENING, Option, Thresholds, pair_thresholds, thresholds

__all__ = [
    "OPENING",
    "PATH_KINDS",
    "Change",
    "Comparison",
    "Option",
    "Path",
    "PathSet",
    "Run",
    "Thresholds",
    "collective_thresholds",
    "compare_splits",
    "drift",
    "find_paths",
    "link_classes",
    "pair_thresholds",
    "restrict",
    "thresholds",
    "topology_for",
]
