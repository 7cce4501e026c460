"""The steps of the GitHub Action: each wires parts of the package together and decides nothing."""
