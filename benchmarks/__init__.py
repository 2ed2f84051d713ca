"""Ours and the peer in one run, a ratio each."""
