"""Tests of stoker_plugins.augment."""
