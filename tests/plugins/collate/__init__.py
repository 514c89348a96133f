"""Tests of stoker_plugins.collate."""
