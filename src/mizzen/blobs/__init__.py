"""Files by the digest of their content.

Here: storing, finding, collecting and laying out files, durably and without ever changing one; and taking them in from
folders, archives, git, http and uploads in pieces, with every check that a stranger's file needs. Not here: what a file
means, which of them may be trusted, who may send them.
"""
