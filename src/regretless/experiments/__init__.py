"""The paper's experiments: its problems, its runs and what they show."""
