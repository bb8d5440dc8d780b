"""The commands, one a file.

It imports options and the library; commands don't import each other.
"""
