"""What an answer says: pure, text in, a value out."""
