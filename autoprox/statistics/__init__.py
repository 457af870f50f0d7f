"""What is measured of untrained networks, and where it is kept."""
