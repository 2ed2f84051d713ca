"""The commands: each parses its options, calls the library, and prints what it found and what it wrote where."""
