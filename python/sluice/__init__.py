"""What a Python program needs to take part in Sluice. Standard library only."""
