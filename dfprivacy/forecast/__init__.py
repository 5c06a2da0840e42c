"""What a release would cost and how wrong it would be, from public facts alone: no data is read."""
