"""Files in which gateways report to the plane and to each other: counts, demand, acknowledged Tables."""
