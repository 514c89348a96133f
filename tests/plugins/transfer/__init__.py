"""Tests of stoker_plugins.transfer."""
