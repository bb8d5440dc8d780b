"""The HTTP face: one request brings one item, the batch is made here."""
