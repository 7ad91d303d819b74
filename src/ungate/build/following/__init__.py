"""What a function of a package returns, worked out from its text: nothing of the package is imported or executed.

Build descriptions are Python that computes names, flags and template arguments. Followed are plain values, the names of
the package's own files, conditions, loops over known values, and objects of simple record classes. Whatever else
decides (a GPU, an environment, another library) is handed in as a fact or ends in :class:`Unknown`, never in a guess.
"""

from ungate.build.following.text import File, Text
from ungate.build.following.values import Dotted, Foreign, Function, Raised, Record, Unknown

__all__ = ["Dotted", "File", "Foreign", "Function", "Raised", "Record", "Text", "Unknown"]
