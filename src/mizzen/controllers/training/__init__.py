"""TrainingJob -> one Workload per replica, one attempt after the other, until the job has succeeded or failed.

A job waits until its share of the machine is free, and keeps it until its last process has ended. Its share, ports and
attempts are recorded in its status before anything starts with them: a plane that is killed at any moment continues
from there. The end of a job is final; its checkpoints outlive the object.

`controller` the controller itself · `decide` decisions · `facts` its input · `start_checks` obstacles to a start ·
`replicas` the replicas of a job and the Workload of each · `replica_states` their states and transitions ·
`exit_policy` the meaning of one replica's exit (§E) · `completion` the end of a job, and the cleanup after it ·
`conditions` conditions and the rest of the status · `admission_queue` the machine, shared among jobs · `ports` where
replicas listen · `results` files of jobs on disk and in Blobs · `checkpoint_retention` which checkpoints are kept.
"""
