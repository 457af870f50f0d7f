"""Files written whole and read with care."""
