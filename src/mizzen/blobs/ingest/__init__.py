"""How content comes in: archives, git, downloads, buckets and resumable uploads, each bounded and verified.

Storing it is the job of the blob stores one level up.
"""
