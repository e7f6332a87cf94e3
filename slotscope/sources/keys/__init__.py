"""Keys and their loads, counted by the tasks that read them."""
