"""Files, addressed by the digest of their content.

Here: storing, finding, garbage-collecting and laying out files, durably and without ever changing one. Also importing
them from folders, archives, git, http and chunked uploads, with every check that an untrusted file needs. Not here: the
meaning of a file, which files are trusted, who may send them.
"""
