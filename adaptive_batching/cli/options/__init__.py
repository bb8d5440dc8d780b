"""Options that several commands share, and how their values are read.

It imports the library, and no command.
"""
