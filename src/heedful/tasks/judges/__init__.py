"""Judges for the answers of each task; each task's ``judge`` method selects one."""
