"""Explanation targets for the answers of each task; each task's ``aim`` method creates one."""
