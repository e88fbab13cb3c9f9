"""Item scorers of all tasks; the method ``item_scorer`` of a task selects one."""
