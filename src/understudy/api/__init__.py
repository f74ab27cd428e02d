"""Room 11: what people call: release, plan, project, the demo."""
