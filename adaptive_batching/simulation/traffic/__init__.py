"""When requests arrive: made to order, shaped, or recorded in `traces/`.

It imports no other room but `clients`.
"""
