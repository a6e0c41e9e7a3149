"""One attempt of one replica of a job set: code and data are fetched, a command runs, what it leaves is put away.

`python -m mizzen.runner`, started by the engine below the supervisor; nobody imports it. It runs in our own
interpreter, and the command in that of the version's environment. It has to start quickly, and to cost next to nothing
while the command works. Not here: whether and when to try again (controllers/training), and reading what was left
(runs).
"""
