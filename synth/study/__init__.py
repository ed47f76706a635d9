"""Studies on top of the stages: adaptive splitting, thresholds of extra paths. No stage imports from here."""

from synth.study.adaptive import compare_splits
from synth.study.adaptive_engine import Run
from synth.study.adaptive_report import Comparison
from synth.study.capacity import Change, drift
from synth.study.paths import PATH_KINDS, Path, PathSet, find_paths, link_classes
from synth.study.threshold import OPENING, Option, Thresholds, pair_thresholds, thresholds
from synth.study.threshold_collective import collective_thresholds, restrict, topology_for

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
