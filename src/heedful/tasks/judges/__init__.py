"""How the answers of each task are judged; a task's ``judge`` chooses one of these."""
