"""Room 9: what people call: release, plan, project, the demo; a request is checked here and nowhere else."""
