"""Tests of the room of the users own models."""
