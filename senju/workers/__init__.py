"""A team starts, monitors, restarts and stops workers; role.py has the contracts."""
