"""Where tables lie and how they are written: folders and stores, runs that make rows count, names of snapshots."""
