"""Implementations of the command line's commands, as functions of their settings."""
