"""Commands on the machine itself: backups, the systemd service, plug-ins, environments."""
