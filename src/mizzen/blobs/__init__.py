"""Files by the digest of their content.

Here: storing, finding and laying out files, durably and without ever changing one. Not here: what a file means, which
of them may be trusted, HTTP.
"""
