"""Noise and selection: exact samplers and the laws that go with them."""
