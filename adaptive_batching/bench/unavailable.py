"""What can't be measured here."""


class Unavailable(Exception):
    """Something is missing on this machine; the message says what to install."""
