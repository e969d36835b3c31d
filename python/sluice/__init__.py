"""What a Python program needs to take part in Sluice. Standard library only."""

__version__ = "0.1.0"  # That of the daemons (common/version.h).

# pylint: disable-next=wrong-import-position
from sluice.launch import join
