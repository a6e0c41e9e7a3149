"""Files of confined processes: which they see and read, who owns them, and how the plane reads what they wrote."""
