"""Single operations on this machine: every candidate in children of its own, checked first, timed in turn.

``candidates`` and ``serving`` run inside the serving Python and import nothing of ungate but each other; the rest of
this room starts them, asks them and stops them.
"""
