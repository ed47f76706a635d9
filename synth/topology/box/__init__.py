"""Boxes: a machine as its parts, and the topology that follows from them."""
