"""Structured models: outputs with parts that depend on each other."""

from .base import Structure
from .chain import Chain
from .check import StructureError, check_structure
from .graph import Graph
from .multiclass import Multiclass
from .parts import Parts
from .segmentation import Segmentation
from .tree import Tree

__all__ = ["Chain", "Graph", "Multiclass", "Parts", "Segmentation", "Structure", "StructureError", "Tree", "check_structure"]
