"""What every package uses: tasks, options, errors and plug-ins."""
