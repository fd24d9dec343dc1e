"""One team of workers: it starts, watches, restarts and stops them. role.py has the contracts."""
