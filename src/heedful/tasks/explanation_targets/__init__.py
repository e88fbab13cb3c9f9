"""Explanation targets of the tasks; each task's ``explanation_target`` method creates one."""
