"""What actions exist and what they take: pure data, read by the agent and by the panel."""
