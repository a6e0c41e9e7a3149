"""Files through which plane and gateways report to each other: status, counts, demand, acknowledged Tables."""
