"""Room 12: what people call: release, plan, project, the demo."""
