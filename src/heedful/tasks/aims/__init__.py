"""By which number of its model each task's answers are explained; a task's ``aim`` makes one."""
