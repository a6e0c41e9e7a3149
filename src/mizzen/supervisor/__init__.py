"""The parent of all processes of a plane: starts, restarts and records them, and holds the listening sockets.

Here: processes, signals, sockets, the files below `run/`, and the local protocol that controls them. This package
imports only the standard library, no other Mizzen package, and does not depend on what the processes do. It must be the
last thing that breaks.

`data_dir`: paths of the files · `protocol`: messages on the socket · `server`: the process table · `connection`: one
client of the server · `client`: calls to the server · `launch`: starts a supervisor · `revive`: restarts a killed one
from its children · `listeners`: listening sockets · `processes`: single processes, their logs, and survivors of a dead
supervisor · `systemd_notify`: readiness messages to systemd.
"""
