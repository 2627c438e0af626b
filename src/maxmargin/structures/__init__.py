"""Structured models: outputs with parts that depend on each other."""

from .base import Structure
from .chain import Chain
from .check import StructureError, check_structure
from .graph import Graph
from .latent import LatentStructure
from .multiclass import Multiclass
from .parts import Parts
from .segmentation import Segmentation
from .tree import Tree

ALL = (Chain, Tree, Graph, Multiclass, Segmentation, Parts)  # those that are compiled

__all__ = [
    "Chain",
    "Graph",
    "LatentStructure",
    "Multiclass",
    "Parts",
    "Segmentation",
    "Structure",
    "StructureError",
    "Tree",
    "check_structure",
]
