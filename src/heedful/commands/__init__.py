"""What each verb of the command line does, as a function of its settings."""
