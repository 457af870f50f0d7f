"""Independent calls on threads or processes here, or on a cluster; each uses one thread of torch.

May import: torch, joblib and errors.
Provides: `worker_pool.WorkerPool`, `run_threads` and `one_thread`.
"""
