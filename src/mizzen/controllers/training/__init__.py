"""TrainingJob -> one Workload per replica, one attempt after the other, until the set has succeeded or failed.

A job waits until its share of the machine is free, and keeps that until its last process has ended. What is given to it
(its share, its ports, its attempts) is in its status before anything starts with it: a plane that is killed at any
moment goes on from there. The end of a set is for ever; what it saved outlives the object.

`controller` the controller itself · `deciding` how it decides · `facts` what is known then · `starting` what keeps a
job from being started · `replicas` which there are, and the Workload of each · `course` what they have come to, and
what comes next · `policy` what the end of one means (§E) · `ending` the end of the set, and what is left to do then ·
`phases` conditions and the rest of the status · `sharing` the machine among jobs · `ports` where replicas listen ·
`results` what jobs leave on disk and in Blobs · `keeping` which checkpoints are kept.
"""
