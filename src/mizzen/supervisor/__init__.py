"""The parent of all processes of a plane: starts, restarts and records them, and holds the listening sockets.

Here: processes, signals, sockets, the files below `run/`, and the local protocol to ask for all of it. Standard library
only, nothing else of ours, and no opinion about what the processes do: it must be the last thing that breaks.

`home` where the files are · `protocol` what is said on its socket · `process` one process · `server` all of them ·
`client` how to ask · `launch` how to start it · `revive` how its children bring it back · `survivors` who outlived it.
"""
