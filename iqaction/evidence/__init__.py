"""Evidence: schema-checked, hash-linked files, kept as the bytes they were written as."""
