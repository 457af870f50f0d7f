"""Work on several threads, each of which uses a single thread of torch.

May import: torch alone.
Gives: `run_threads` and `one_thread`.
"""
