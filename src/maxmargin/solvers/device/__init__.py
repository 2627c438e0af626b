"""Dual ascent on a device: what `DualCoordinate` does where X is a tensor."""
