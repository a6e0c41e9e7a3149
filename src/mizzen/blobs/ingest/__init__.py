"""Import of content from archives, git, downloads, buckets and resumable uploads, each bounded and verified.

The blob stores one level up store it.
"""
