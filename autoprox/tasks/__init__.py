"""What each command does, from its configuration to a run's folder."""
