"""Work on threads or processes here, or on the workers of a cluster; each uses a thread of torch.

May import: torch, joblib and errors.
Gives: `crew.Crew`, `run_threads` and `one_thread`.
"""
