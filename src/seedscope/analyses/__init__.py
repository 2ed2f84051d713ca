"""Pure functions of arrays: they never train and never import each other."""
